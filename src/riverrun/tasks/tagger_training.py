"""From a recipe and its files to a trained tagger: data, fields, net, the run, the scores."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from riverrun.config.recipe import encode_recipe
from riverrun.config.tagger import TaggerRecipe
from riverrun.data.batch import Batch
from riverrun.data.corpus import Corpus
from riverrun.data.loader import SentenceLoader
from riverrun.data.sampler import Buckets
from riverrun.data.sentences import SentenceEncoder, SentenceFields
from riverrun.errors import CheckpointError, ConfigError, missing
from riverrun.metrics.report import Report
from riverrun.tasks import folder as folders
from riverrun.tasks import tagger_fields as learned
from riverrun.tasks.labelled import Labelled, train_and_dev
from riverrun.tasks.labeller import Labeller
from riverrun.tasks.tagger_folder import vocabularies
from riverrun.tasks.tagger_net import build_net, own_cell
from riverrun.tasks.training import Listener, run
from riverrun.text.sources import sha256
from riverrun.text.tokenize import Tokenizer
from riverrun.train.events import Prepared
from riverrun.version import __version__

if TYPE_CHECKING:
    from riverrun.nn.models.tagger import Tagger as Net


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
    try:
        import torch
    except ImportError:
        raise missing("torch", "train", "training") from None

    model, settings, data = recipe.model, recipe.train, recipe.data
    notes: list[str] = []
    files = {name: path for name in ("train", "dev", "test") if (path := getattr(data, name)) is not None}
    sources = {name: Labelled(path, data.format, data.columns, data.encoding, notes) for name, path in files.items()}
    if "train" not in sources:
        raise ConfigError("data.train: no training file; expected a file of words with tags")

    cell = own_cell(model, allow_import=allow_import)
    graph = _graph(cell)
    cache = Path(data.cache) if data.cache else place / folders.CACHE
    train, dev = train_and_dev(sources["train"], sources.get("dev"), cache, data.hold_out)
    tags = learned.tag_field(train, sources["train"], model)
    if "dev" in sources:  # of what was held out, a rare tag may be missing in the rest; it counts as not found
        learned.check_dev(dev, sources["dev"], tags)
    if "test" in sources:
        for _ in sources["test"].pairs(tags.source):
            pass  # a mistake in it is found now, not when the training is over
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
    _write_draft(place / folders.DRAFT, config, vocabularies(fields, tokenizer), resume=resume)

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
        evaluate=lambda: labeller.score(_pairs(dev)).metrics,
        resume=resume,
        listeners=listeners,
    )
    reports = {"dev": labeller.score(_pairs(dev))}
    if "test" in sources:
        reports["test"] = labeller.score(sources["test"].pairs())
    if data.cache is None:
        del loader, train, dev
        shutil.rmtree(cache, ignore_errors=True)
    return Trained(net, fields, tokenizer, config, reports, done.step, done.elapsed, notes)


def _write_draft(checkpoints: Path, config: folders.Config, files: Mapping[str, bytes], *, resume: bool) -> None:
    """What a run that is cut off needs to be used, or to be continued on the same data."""
    if resume and (checkpoints / folders.CONFIG).is_file():
        before = folders.read(checkpoints)
        for name, checksum in config.data.items():
            if before.data.get(name, checksum) != checksum:
                raise CheckpointError(
                    f"{name}: was changed since the run began (its SHA-256 is another one); a run is resumed on the "
                    "same data. Restore the file, or train into another folder"
                )
        if _read_of(before) != _read_of(config):
            raise CheckpointError(
                f"{checkpoints}: the run that is here reads other data, or reads it in another way ([data]); a run is "
                "resumed on the same data. Give what the first call was given, or train into another folder"
            )
        if before.graph != config.graph:
            raise CheckpointError(
                f"{checkpoints}: the equation of the cell was changed since the run began; a run is resumed with the "
                "same one. Restore it, or train into another folder"
            )
        if before.recipe.get("model") != config.recipe["model"]:
            raise CheckpointError(
                f"{checkpoints}: the run that is here has other settings in [model]; a run is resumed with the same "
                "ones. Give those of the first call, or train into another folder"
            )
        if msgspec.structs.replace(before, files={}) == config:
            return
    folders.write(checkpoints, config, files)


def _read_of(config: folders.Config) -> dict[str, Any]:
    """What is learned from and chosen by: the contents, wherever they lie, and how they are read."""
    data = config.recipe["data"]
    sums = {part: config.data[data[part]] for part in ("train", "dev") if data[part] is not None}
    return {**sums, **{name: data[name] for name in ("format", "columns", "encoding", "hold_out")}}


def _pairs(corpus: Corpus) -> Iterator[tuple[list[str], list[str]]]:
    return zip(corpus.column("form"), corpus.column("tag"), strict=True)


def _facts(
    train: Corpus, dev: Corpus, fields: SentenceFields, words: learned.Lexicon | None, *, held_out: bool
) -> dict[str, str]:
    """The usual causes of scores that do not come out: sizes, tag scheme, unknown words, coverage of the vectors."""
    tags = fields.tags
    facts = {
        "train": f"{len(train):,} sentences, {train.tokens:,} words, {len(train.symbols['form']):,} distinct",
        "dev": f"{len(dev):,} sentences, {dev.tokens:,} words" + (", held out of train" if held_out else ""),
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


def _graph(cell: Any) -> str | None:
    """The equation of a user's own cell, so that the folder runs without its code."""
    if cell is None:
        return None
    from riverrun.nn.cells.store import dumps

    if cell.graph is None:
        raise ConfigError(
            f"model.encoder.cell: {cell.kind} has no traced equation (traced = False), so that a model with it could "
            "not be loaded again without its code. Write its step with riverrun.nn.cells.math"
        )
    return dumps(cell.graph)
