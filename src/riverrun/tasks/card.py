"""The card of a model: what it is, from what it was made, how good it is and how to use it."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun.config.tagger import TaggerRecipe
from riverrun.data.sentences import SentenceFields
from riverrun.metrics.report import Report
from riverrun.tasks.folder import Config


def tagger_card(
    recipe: TaggerRecipe, config: Config, reports: Mapping[str, Report], *, fields: SentenceFields, seconds: float
) -> str:
    """The README.md of a tagger's folder."""
    encoder, head = recipe.model.encoder, recipe.model.head
    words, chars = recipe.model.words, recipe.model.chars
    reads = [*(["words"] if words else []), *([f"characters ({chars.kind})"] if chars else [])]
    reads += ["beginnings and endings"] if recipe.model.affixes else []
    direction = "bidirectional " if encoder.bidirectional else ""
    scores = [
        f"| {part} | {report.n:,} | "
        + ", ".join(f"{name} {value:.4f}" for name, value in report.metrics.items())
        + " |"
        for part, report in reports.items()
    ]
    data = [f"- `{name}` (sha256 `{checksum[:16]}...`)" for name, checksum in config.data.items()]
    tags = fields.tags.vocab.symbols
    shown = ", ".join(f"`{tag}`" for tag in tags[:40]) + (", ..." if len(tags) > 40 else "")
    return "\n".join(
        [
            "# A tagger, made with riverrun",
            "",
            f"It reads {', '.join(reads)} through {encoder.layers} {direction}{encoder.kind} layer"
            f"{'s' if encoder.layers > 1 else ''} of {encoder.hidden} units, and chooses among {len(tags)} tags with "
            f"a {head.kind} head. Trained in {seconds:,.0f} seconds with riverrun {config.riverrun}, seed "
            f"{recipe.train.seed}; `config.json` holds the whole recipe.",
            "",
            *([f"Recipe after: {recipe.cites}", ""] if recipe.cites else []),
            "## Scores",
            "",
            "| data | sentences | scores |",
            "|---|---|---|",
            *scores,
            "",
            f"Signature: `{next(iter(reports.values())).signature}`",
            "",
            "## Data",
            "",
            *data,
            "",
            "The licence of the data binds what was learned from it; add it here before you pass the model on.",
            "",
            "## Use",
            "",
            "```",
            'echo "Some text." | riverrun predict THIS-FOLDER',
            "riverrun evaluate THIS-FOLDER FILE",
            "```",
            "",
            f"Tags: {shown}",
            "",
        ]
    )
