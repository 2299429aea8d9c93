"""From a recipe and its files to a trained tagger: data, fields, net, the run, the scores."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from riverrun.config.recipe import encode_recipe
from riverrun.config.tagger import TaggerRecipe
from riverrun.data.batch import Batch
from riverrun.data.corpus import Corpus
from riverrun.data.loader import SentenceLoader
from riverrun.data.sampler import Buckets
from riverrun.data.sentences import SentenceEncoder, SentenceFields
from riverrun.errors import ConfigError, nearest, needs_torch
from riverrun.metrics.report import Report
from riverrun.tasks import folder as folders
from riverrun.tasks import tagger_fields as learned
from riverrun.tasks.card import expected_scores
from riverrun.tasks.draft import stored_graph, write_draft
from riverrun.tasks.labelled import Labelled, train_and_dev, whole
from riverrun.tasks.labeller import Labeller, metric_for
from riverrun.tasks.tagger_folder import vocabularies
from riverrun.tasks.tagger_net import build_net
from riverrun.tasks.training import Listener, run
from riverrun.text.fields import TagField
from riverrun.text.sources import sha256
from riverrun.text.tokenize import Tokenizer
from riverrun.train.events import Prepared
from riverrun.version import __version__

if TYPE_CHECKING:
    from riverrun.nn.cells import Cell
    from riverrun.nn.models.tagger import Tagger as Net


METRICS = ("accuracy", "f1", "precision", "recall")
"""The scores by which a tagger may be chosen; tags that are no spans have the first one alone."""


@dataclass(eq=False)
class Trained:
    """What a run gives.

    Args:
        net: with its best weights.
        fields, tokenizer: what it reads.
        config: of its folder.
        reports: the scores on ``dev``, and on ``test`` where the recipe names a test file.
        steps: updates made.
        seconds: of training.
        notes: what the readers of the files had to say.
    """

    net: Net
    fields: SentenceFields
    tokenizer: Tokenizer
    config: folders.Config
    reports: dict[str, Report]
    steps: int
    seconds: float
    notes: list[str]


def train_tagger(
    recipe: TaggerRecipe, place: Path, *, resume: bool, listeners: Sequence[Listener], allow_import: bool
) -> Trained:
    """Train in the folder ``place``, where the checkpoints and the encoded corpus lie meanwhile."""
    needs_torch("training")
    import torch

    cell = _checked(recipe, allow_import=allow_import)
    model, settings, data = recipe.model, recipe.train, recipe.data
    notes: list[str] = []
    files = {name: path for name in ("train", "dev", "test") if (path := getattr(data, name)) is not None}
    sources = {name: Labelled(path, data.format, data.columns, data.encoding, notes) for name, path in files.items()}
    if "train" not in sources:
        raise ConfigError("data.train: no training file; expected a file of words with tags")

    graph = stored_graph(cell)
    cache = Path(data.cache) if data.cache else place / folders.CACHE
    train, dev = train_and_dev(sources["train"], sources.get("dev"), cache, data.hold_out)
    tags = learned.tag_field(train, sources["train"], model)
    metric = metric_for(tags, recipe.scoring)
    if settings.metric is not None and settings.metric not in metric.metrics:
        raise ConfigError(
            f"train.metric: '{settings.metric}' is a score of spans; column {sources['train'].tag!r} of "
            f"{sources['train'].path} has tags that are no spans. Choose another column (data.columns), or the metric "
            f"{', '.join(metric.metrics)}"
        )
    scored = {"dev": dev}
    if "test" in sources:  # a mistake in it is found now, not when the training is over
        scored["test"] = whole(sources["test"], cache / "test")
    for part, corpus in scored.items():
        if part in sources:  # of what was held out, a rare tag may be missing in the rest; it counts as not found
            learned.check_tags(corpus, sources[part], tags)
    train = learned.in_scheme(train, tags)
    words = learned.lexicon(train, model.words) if model.words else None
    fields = learned.fields(train, tags, model, words)
    tokenizer = learned.tokenizer(sources["train"])

    torch.manual_seed(settings.seed)
    net = build_net(model, fields, cell=cell, lexicon=words)
    config = folders.Config(
        format=folders.FORMAT,
        task="tagger",
        riverrun=__version__,
        recipe=encode_recipe(recipe),
        data={path: sha256(path) for path in [*files.values(), *_vectors(recipe)]},
        graph=graph,
    )
    write_draft(place / folders.DRAFT, config, vocabularies(fields, tokenizer), resume=resume)

    loader = SentenceLoader(
        train,
        SentenceEncoder(fields),
        Buckets(train.lengths, batch=settings.batch, tokens=settings.tokens, seed=settings.seed),
    )
    facts = _facts(train, dev, fields, words, held_out="dev" not in sources)
    facts |= _facts_of_net(net, fields, next(loader.batches(0))) | {f"note {k}": n for k, n in enumerate(notes, 1)}
    for listener in listeners:
        listener(Prepared(step=0, total=0, epoch=0, elapsed=0.0, facts=facts))

    labeller = Labeller.of_net(fields, net, constrained=model.head.constrained)
    done = run(
        net,
        loader,
        settings,
        checkpoints=place / folders.DRAFT,
        evaluate=lambda: labeller.score(_pairs(dev), scoring=recipe.scoring).metrics,
        resume=resume,
        listeners=listeners,
    )
    reports = {part: labeller.score(_pairs(corpus), scoring=recipe.scoring) for part, corpus in scored.items()}
    notes += expected_scores(recipe.expects, reports)
    if data.cache is None:
        del loader, train, dev, scored, corpus
        shutil.rmtree(cache, ignore_errors=True)
    return Trained(net, fields, tokenizer, config, reports, done.step, done.elapsed, notes)


def _checked(recipe: TaggerRecipe, *, allow_import: bool) -> Cell | None:
    """Names that the config leaves open, before any data is read: the user's own cell, where the recipe has one."""
    from riverrun.nn.cells import make_cell
    from riverrun.nn.engines.table import check_name

    metric, encoder = recipe.train.metric, recipe.model.encoder
    if metric is not None and metric not in METRICS:
        raise ConfigError(
            f"train.metric: a tagger has no score '{metric}'{nearest(metric, METRICS) or '.'} Expected one "
            f"of {', '.join(METRICS)}"
        )
    try:
        check_name(encoder.engine)
        cell = make_cell({"kind": encoder.kind, **encoder.options}, allow_import=allow_import)
    except ConfigError as wrong:
        raise ConfigError(f"model.encoder.{wrong}") from None
    return cell if ":" in encoder.kind else None


def _pairs(corpus: Corpus) -> Iterator[tuple[list[str], list[str]]]:
    return zip(corpus.column("form"), corpus.column("tag"), strict=True)


def _facts(
    train: Corpus, dev: Corpus, fields: SentenceFields, words: learned.Lexicon | None, *, held_out: bool
) -> dict[str, str]:
    """The usual causes of scores that do not come out: sizes, tag scheme, unknown words, coverage of the vectors."""
    tags = fields.tags
    facts = {
        "train": f"{len(train):,} sentences, {train.tokens:,} words, {len(train.symbols['form']):,} distinct",
        "dev": f"{len(dev):,} sentences, {dev.tokens:,} words" + (_held_out(dev, tags) if held_out else ""),
        "tags": f"{len(tags.vocab)}" + (f", spans in {tags.source}, learned as {tags.scheme}" if tags.scheme else ""),
    }
    if words:
        known = words.field.vocab.index
        unknown = np.array([words.field.normal(form) not in known for form in dev.symbols["form"]], np.int64)
        facts["words"] = f"{len(known):,} known; {unknown @ dev.counts['form'] / dev.tokens:.1%} of dev are not"
        if words.vectors:
            facts["vectors"] = (
                f"for {words.vectors.covered_tokens:.1%} of the running words of train, "
                f"{words.vectors.covered_forms:.1%} of the distinct ones"
            )
    return facts


def _held_out(dev: Corpus, tags: TagField) -> str:
    """What to know of dev data that were held out: a rare tag may be in them alone."""
    wrong = learned.unseen(dev, tags)
    if not wrong:
        return ", held out of train"
    return (
        f", held out of train; {sum(wrong.values()):,} of them with a tag that the rest has not, which count as not "
        f"found: {', '.join(sorted(wrong)[:8])}"
    )


def _facts_of_net(net: Net, fields: SentenceFields, batch: Batch) -> dict[str, str]:
    """Where the parameters are, what runs the recurrence, and the first sentence as the net sees it."""
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in net.named_children()}
    forms, tags = decoded(batch, fields)
    return {
        "parameters": ", ".join(f"{name} {count:,}" for name, count in sizes.items() if count),
        **{f"encoder {k}": line for k, line in enumerate(net.encoder.describe().splitlines(), 1)},
        "first sentence": " ".join(f"{form}/{tag}" for form, tag in zip(forms, tags, strict=True)),
    }


def decoded(batch: Batch, fields: SentenceFields) -> tuple[list[str], list[str]]:
    """Words and tags of the first sentence of a batch, from its numbers alone."""
    length = int(batch["tags"].lengths[0])
    tags = fields.tags.vocab.decode(batch["tags"].data[0, :length].tolist())
    if fields.words:
        return fields.words.vocab.decode(batch["words"].data[0, :length].tolist()), tags
    assert fields.chars is not None  # a tagger without words and characters is an error in its config
    chars, index = batch["chars"], batch["chars.index"].data[0, :length].tolist()
    spelled = (chars.data[k, 1 : int(chars.lengths[k]) - 1].tolist() for k in index)
    return ["".join(fields.chars.vocab.decode(ids)) for ids in spelled], tags


def _vectors(recipe: TaggerRecipe) -> list[str]:
    """The file of word vectors, where there is one: as much a part of the data as the sentences."""
    words = recipe.model.words
    return [words.vectors] if words and words.vectors else []
