"""The card of a model: what it is, from what it was made, how good it is and how to use it."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun.config.lm import LmRecipe
from riverrun.config.recipe import Recipe
from riverrun.config.struct import tag_of
from riverrun.config.tagger import TaggerRecipe
from riverrun.data.sentences import SentenceFields
from riverrun.metrics.report import Report
from riverrun.tasks.folder import Config
from riverrun.text.units import AnyUnits
from riverrun.train.progress import LOWER_IS_BETTER


def tagger_card(
    recipe: TaggerRecipe, config: Config, reports: Mapping[str, Report], *, fields: SentenceFields, seconds: float
) -> str:
    """The README.md of a tagger's folder."""
    encoder, head = recipe.model.encoder, recipe.model.head
    words, chars = recipe.model.words, recipe.model.chars
    reads = [*(["words"] if words else []), *([f"characters ({chars.kind})"] if chars else [])]
    reads += ["beginnings and endings"] if recipe.model.affixes else []
    direction = "bidirectional " if encoder.bidirectional else ""
    tags = fields.tags.vocab.symbols
    shown = ", ".join(f"`{tag}`" for tag in tags[:40]) + (", ..." if len(tags) > 40 else "")
    return _card(
        "A tagger",
        f"It reads {', '.join(reads)} through {encoder.layers} {direction}{encoder.kind} layer"
        f"{'s' if encoder.layers > 1 else ''} of {encoder.hidden} units, and chooses among {len(tags)} tags with "
        f"a {head.kind} head.",
        recipe,
        config,
        reports,
        seconds=seconds,
        counted="sentences",
        use=['echo "Some text." | riverrun predict THIS-FOLDER', "riverrun evaluate THIS-FOLDER FILE"],
        more=[f"Tags: {shown}", ""],
    )


def language_model_card(
    recipe: LmRecipe, config: Config, reports: Mapping[str, Report], *, units: AnyUnits, seconds: float
) -> str:
    """The README.md of a language model's folder."""
    kind = tag_of(recipe.model)
    how = "counts how often they follow one another" if not recipe.by_gradient else f"is a {kind} net"
    return _card(
        "A language model",
        f"It predicts {tag_of(units)}, {units.size:,} of them, and {how}.",
        recipe,
        config,
        reports,
        seconds=seconds,
        counted="symbols",
        use=[
            'riverrun generate THIS-FOLDER --prompt "Some"',
            'echo "Some text ." | riverrun score THIS-FOLDER',
            "riverrun evaluate THIS-FOLDER FILE",
        ],
        more=[],
    )


def _card(
    what: str,
    about: str,
    recipe: Recipe,
    config: Config,
    reports: Mapping[str, Report],
    *,
    seconds: float,
    counted: str,
    use: list[str],
    more: list[str],
) -> str:
    """What all cards have: the sentence about the model, its scores, its data, its use."""
    scores = [
        f"| {part} | {report.n:,} | "
        + ", ".join(f"{name} {value:.4f}" for name, value in report.metrics.items())
        + f" | `{report.signature}` |"
        for part, report in reports.items()
    ]
    return "\n".join(
        [
            f"# {what}, made with riverrun",
            "",
            f"{about} Trained in {seconds:,.0f} seconds with riverrun {config.riverrun}, seed {recipe.train.seed}; "
            "`config.json` holds the whole recipe.",
            "",
            *([f"Recipe after: {recipe.cites}", ""] if recipe.cites else []),
            "## Scores",
            "",
            f"| data | {counted} | scores | signature |",
            "|---|---|---|---|",
            *scores,
            "",
            *(line for said in expected_scores(recipe.expects, reports) for line in (said, "")),
            "## Data",
            "",
            *(f"- `{name}` (sha256 `{checksum[:16]}...`)" for name, checksum in config.data.items()),
            "",
            "The licence of the data binds what was learned from it; add it here before you pass the model on.",
            "",
            "## Use",
            "",
            "```",
            *use,
            "```",
            "",
            *more,
        ]
    )


def expected_scores(expects: Mapping[str, float], reports: Mapping[str, Report]) -> list[str]:
    """A sentence for each score that the recipe promises, beside what came out: on test data, or else on dev data.

    >>> report = Report(task="tagger", n=9, metrics={"f1": 0.33412}, signature="spans:conlleval|scheme:iob2|v1")
    >>> print(*expected_scores({"f1": 0.912}, {"dev": report}))
    The recipe's published score is f1 0.912; here f1 is 0.3341 on dev, which does not reach it. Other data, vectors or
    settings give other scores
    """
    part = "test" if "test" in reports else "dev"
    metrics = reports[part].metrics
    said = []
    for name, score in expects.items():
        published = f"The recipe's published score is {name} {score:g}; here"
        if name not in metrics:
            said.append(f"{published} no {name} was measured")
            continue
        better = metrics[name] <= score if name in LOWER_IS_BETTER else round(metrics[name], 4) >= score
        reached = "reaches it" if better else "does not reach it"
        said.append(
            f"{published} {name} is {metrics[name]:.4f} on {part}, which {reached}. "
            "Other data, vectors or settings give other scores"
        )
    return said
