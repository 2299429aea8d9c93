"""From a recipe and its files to a language model: units, streams, counts or a net, the scores."""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from riverrun.config import lm
from riverrun.config.lm import LmRecipe
from riverrun.config.recipe import encode_recipe
from riverrun.config.struct import tag_of
from riverrun.data.stream import StreamLoader, TokenStream, WindowLoader
from riverrun.errors import ConfigError, DataError, needs_torch
from riverrun.metrics.perplexity import Perplexity, Unknown
from riverrun.metrics.report import Report
from riverrun.tasks import folder as folders
from riverrun.tasks.card import language_model_card
from riverrun.tasks.draft import own_cell, stored_graph, write_draft
from riverrun.tasks.lm_held import UNITS, HeldLm
from riverrun.tasks.lm_net import build_net
from riverrun.tasks.lm_reading import read_lines, read_places, read_running
from riverrun.tasks.task import METRICS
from riverrun.tasks.texts import Texts
from riverrun.tasks.training import Listener, run
from riverrun.text.durable import write_durably
from riverrun.text.units import END, START, AnyUnits, Words, dump_units, learn
from riverrun.train.events import Prepared
from riverrun.version import __version__


@dataclass(eq=False)
class _Data:
    """What a language model learns from and is chosen by."""

    sources: dict[str, Texts]
    units: AnyUnits
    train: TokenStream
    dev: TokenStream
    held_out: bool


def default_format(recipe: LmRecipe) -> str:
    """How text is written where the recipe does not say: lines for words, else running text."""
    return "lines" if isinstance(recipe.model.units, lm.WordUnits) else "text"


def context_of(recipe: LmRecipe) -> str:
    """What a symbol is predicted from, for the signature of a perplexity."""
    if isinstance(recipe.model, lm.Window):
        return f"window:{recipe.model.context}"
    by_line = not recipe.by_gradient and isinstance(recipe.model.units, lm.WordUnits)
    return "line" if by_line else "carried"


def train_lm(
    recipe: LmRecipe, place: Path, *, resume: bool, listeners: Sequence[Listener], allow_import: bool
) -> tuple[HeldLm, list[str]]:
    """Train in the folder ``place``; the model, and what the readers of the files had to say."""
    counts = not recipe.by_gradient
    if not counts:
        needs_torch("training")
    notes: list[str] = []
    cache = Path(recipe.data.cache) if recipe.data.cache else place / folders.CACHE
    data = _read(recipe, cache, notes)
    begin = time.monotonic()
    if counts:
        held, reports = _count(recipe, data, place, listeners, notes)
        steps, seconds = 0, time.monotonic() - begin
    else:
        held, reports, steps, seconds = _train(recipe, data, place, resume, listeners, allow_import)
    final = reports.get("test", reports["dev"])
    metrics = {
        "metrics": final.metrics,
        "signature": final.signature,
        "reports": reports,
        "steps": steps,
        "seconds": round(seconds, 1),
    }
    card = language_model_card(recipe, held.config, reports, units=data.units, seconds=seconds)
    held.papers = {
        METRICS: msgspec.json.format(msgspec.json.encode(metrics), indent=2) + b"\n",
        folders.CARD: card.encode(),
    }
    if recipe.data.cache is None:
        del data
        shutil.rmtree(cache, ignore_errors=True)
    return held, notes


def _read(recipe: LmRecipe, cache: Path, notes: list[str]) -> _Data:
    """The texts as ids on the disk, and the units that were learned from the training text."""
    data, form = recipe.data, recipe.data.format or default_format(recipe)
    files = {name: path for name in ("train", "dev", "test") if (path := getattr(data, name)) is not None}
    if "train" not in files:
        raise ConfigError("data.train: no training file; expected a file of text")
    sources = {name: Texts(path, form, data.encoding, notes) for name, path in files.items()}
    held_out = "dev" not in sources
    if held_out:
        sources["train"], sources["dev"] = sources["train"].parts(data.hold_out)
    start = START if not recipe.by_gradient else END
    units = learn(recipe.model.units, sources["train"].blocks(), bos_symbol=start)
    streams = {name: _stream(sources[name], units, cache / name) for name in ("train", "dev")}
    for name, stream in streams.items():
        if len(stream) < 2:
            raise DataError(
                f"{sources[name].path}: a text of {len(stream)} symbols"
                + (", held out of the training text" if held_out and name == "dev" else "")
                + "; expected at least 2: something to read and something to predict"
            )
    return _Data(sources, units, streams["train"], streams["dev"], held_out)


def _stream(texts: Texts, units: AnyUnits, folder: Path) -> TokenStream:
    """The ids of a text; those that were written before of the same text by the same units are opened."""
    origin = {"text": texts.origin(), "units": dump_units(units).decode()}
    stamp = folder / "origin.json"
    if stamp.is_file() and msgspec.json.decode(stamp.read_bytes()) == origin:
        return TokenStream.open(folder)
    stamp.unlink(missing_ok=True)
    stream = TokenStream.build(units.encode(texts.blocks()), folder, ends=units.eos)
    write_durably(stamp, msgspec.json.encode(origin))
    return stream


def _config(recipe: LmRecipe, sources: Mapping[str, Texts], graph: str | None = None) -> folders.Config:
    return folders.Config(
        format=folders.FORMAT,
        task="lm",
        riverrun=__version__,
        recipe=encode_recipe(recipe),
        data={texts.path: texts.checksum() for texts in sources.values()},
        graph=graph,
    )


def _count(
    recipe: LmRecipe, data: _Data, place: Path, listeners: Sequence[Listener], notes: list[str]
) -> tuple[HeldLm, dict[str, Report]]:
    """A model that counts, and its scores."""
    from riverrun.tasks.lm_counts import build_counts

    _tell(listeners, _facts(data))
    assert isinstance(recipe.model, lm.NGram | lm.SparseNonNegative)  # what is not trained by gradient
    place.mkdir(parents=True, exist_ok=True)
    counted, said = build_counts(recipe.model, data.train, data.units, folder=place)
    notes += said
    held = HeldLm.of_counts(_config(recipe, data.sources), data.units, counted)
    reports: dict[str, Report] = {}
    for name in ("dev", "test"):
        if name in data.sources:
            reports[name] = report(recipe, held, data.sources[name])
    return held, reports


def report(recipe: LmRecipe, held: HeldLm, texts: Texts, unknown: Unknown = "scored") -> Report:
    """The scores on a text, each symbol predicted from all that the model may know."""
    counted = Perplexity(held.units, context=context_of(recipe), unknown=unknown, normalised=held.normalised)
    if context_of(recipe) == "line":
        scored = read_lines(held.model, held.units, texts.lines())
    else:
        scored = read_running(held.model, held.units.encode(texts.blocks()))
    for ids, scores in scored:
        counted.add(scores, ids)
    counted.read(texts.blocks())
    return counted.report("lm")


def _train(
    recipe: LmRecipe, data: _Data, place: Path, resume: bool, listeners: Sequence[Listener], allow_import: bool
) -> tuple[HeldLm, dict[str, Report], int, float]:
    """A net that is trained by gradient, its scores, its steps and its seconds."""
    import torch

    from riverrun.nn.models.stepper import NetStepper

    settings, units = recipe.train, data.units
    cell = None
    if isinstance(recipe.model, lm.Recurrent):
        encoder = recipe.model.encoder
        cell = own_cell(encoder.kind, encoder.options, allow_import=allow_import)
    torch.manual_seed(settings.seed)
    net = build_net(recipe, units.size, bos=units.bos, cell=cell, counts=data.train.counts(units.size))
    config = _config(recipe, data.sources, stored_graph(cell))
    write_draft(place / folders.DRAFT, config, {UNITS: dump_units(units)}, resume=resume)
    loader: StreamLoader | WindowLoader
    if isinstance(recipe.model, lm.Window):
        loader = WindowLoader(
            data.train,
            context=recipe.model.context,
            batch=settings.batch * settings.bptt,
            bos=units.bos,
            seed=settings.seed,
        )
    else:
        loader = StreamLoader(
            data.train,
            batch=settings.batch,
            bptt=settings.bptt,
            jitter=settings.bptt_jitter,
            seed=settings.seed,
            bos=units.bos,
        )
    facts = _facts(data)
    parts = {name: sum(p.numel() for p in part.parameters()) for name, part in net.named_children()}
    facts["parameters"] = ", ".join(f"{name} {size:,}" for name, size in parts.items() if size)
    if isinstance(recipe.model, lm.Recurrent):
        facts |= {f"encoder {k}": line for k, line in enumerate(net.encoder.describe().splitlines(), 1)}  # type: ignore[union-attr,operator]
    _tell(listeners, facts)

    # On the whole of dev at several places at once: what is lost at their beginnings is the same at every evaluation.
    stepper = NetStepper(net, bos=units.bos, eos=units.eos)
    counted = Perplexity(units, context=f"places:{settings.batch}")
    counted.read(data.sources["dev"].blocks())

    def score() -> Perplexity:
        found = copy.copy(counted)
        for ids, scores in read_places(stepper, data.dev.ids, settings.batch):
            found.add(scores, ids)
        return found

    done = run(
        net,
        loader,
        settings,
        checkpoints=place / folders.DRAFT,
        evaluate=lambda: score().metrics,
        resume=resume,
        listeners=listeners,
    )
    held = HeldLm.of_net(config, units, net)
    with torch.no_grad():
        reports = {"dev": score().report("lm")}
        if "test" in data.sources:
            reports["test"] = report(recipe, held, data.sources["test"])
    return held, reports, done.step, done.elapsed


def _facts(data: _Data) -> dict[str, str]:
    """Sizes, unknown symbols, and how the text begins when it is read back from its numbers."""
    units = data.units
    what = {"words": "words and line ends"}.get(tag_of(units), tag_of(units))
    facts = {
        "train": f"{len(data.train):,} {what}",
        "dev": f"{len(data.dev):,} {what}" + (", held out of train" if data.held_out else ""),
        "vocabulary": f"{units.size:,} {tag_of(units)}",
    }
    if units.unknown is not None:
        share = data.dev.counts(units.size)[units.unknown] / len(data.dev)
        facts["unknown"] = f"{share:.2%} of dev"
    begins = units.text(np.asarray(data.train.ids[:60]).tolist()).strip() if isinstance(units, Words) else ""
    begins = begins or units.text(np.asarray(data.train.ids[:200]).tolist()).strip()
    facts["begins"] = " / ".join(begins.split("\n"))[:160]
    return facts


def _tell(listeners: Sequence[Callable[[Prepared], None]], facts: dict[str, str]) -> None:
    for listener in listeners:
        listener(Prepared(step=0, total=0, epoch=0, elapsed=0.0, facts=facts))
