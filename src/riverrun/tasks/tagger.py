"""A tagger: a label for each word of a text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from riverrun.config.recipe import decode_recipe, load_recipe
from riverrun.config.tagger import TaggerRecipe
from riverrun.data.sentences import SentenceEncoder, SentenceFields
from riverrun.errors import CheckpointError, ConfigError, missing
from riverrun.metrics.report import Report
from riverrun.tasks import folder as folders
from riverrun.tasks.card import tagger_card
from riverrun.tasks.labelled import Labelled
from riverrun.tasks.labeller import Labeller
from riverrun.tasks.tagger_folder import GRAPH, VOCABULARIES, WEIGHTS, read_net, read_vocabularies, vocabularies
from riverrun.tasks.tagger_stream import write_answers
from riverrun.tasks.tagger_training import Trained, train_tagger
from riverrun.tasks.training import Listener
from riverrun.text.sources import sha256
from riverrun.text.tokenize import Tokenizer

if TYPE_CHECKING:
    from riverrun.nn.models.tagger import Tagger as Net

METRICS = "metrics.json"
CHECKED = 256  # sentences of the dev data on which an exported graph is compared with its net


class Tagged(msgspec.Struct, frozen=True):
    """The words of a text and their tags.

    >>> print(Tagged(["Dogs", "bark"], ["NOUN", "VERB"]))
    Dogs/NOUN bark/VERB
    """

    forms: list[str]
    tags: list[str]

    def __str__(self) -> str:
        return " ".join(f"{form}/{tag}" for form, tag in zip(self.forms, self.tags, strict=True))

    def _repr_html_(self) -> str:
        """A table of two rows, for notebooks."""
        from html import escape

        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in (self.forms, self.tags))
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


class Tagger:
    """Labels words: parts of speech, names, chunks, or whatever a column of a file holds.

    Args:
        recipe: a shipped recipe, a TOML file, or a recipe that was made in Python.
        settings: texts like ``train.epochs=3``, on top of it.

    ::

        tagger = Tagger("tagger/upos").fit("train.conllu", "dev.conllu")
        tagger.predict(["Dogs bark at night."])
        tagger.save_pretrained("my-tagger")
    """

    def __init__(self, recipe: TaggerRecipe | str | Path = "tagger/upos", *, settings: Iterable[str] = ()) -> None:
        self.recipe = recipe if isinstance(recipe, TaggerRecipe) else load_recipe(recipe, settings=settings)
        self.notes: list[str] = []
        """What a user should be told of the files that were read."""
        self._held: _Held | None = None

    # -- use

    def predict(self, items: Iterable[str | Sequence[str]]) -> list[Tagged]:
        """The tags of each item: a text, which is split into words, or a list of words.

        A text of several sentences is tagged sentence by sentence; its answer is one list of words and one of tags.
        """
        if isinstance(items, str):
            raise ConfigError("predict: expected a list of texts, received one text; write predict([text])")
        split = self.tokenizer.split
        groups = [split(item) if isinstance(item, str) else [list(item)] for item in items]
        tags = self.tag(sentence for group in groups for sentence in group)
        answers = []
        for group in groups:
            words = [word for sentence in group for word in sentence]
            answers.append(Tagged(words, [tag for _ in group for tag in next(tags)]))
        return answers

    def tag(self, sentences: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """The tags of each sentence, a list of words; in their order and in bounded memory."""
        return self._model.labeller.tag(sentences)

    def predict_file(
        self,
        source: str | Path,
        target: str | Path = "-",
        *,
        format: str | None = None,
        columns: Mapping[str, int | str] | None = None,
        encoding: str | None = None,
        as_json: bool = False,
    ) -> None:
        """Tag a file (``-`` is stdin), in its order and in bounded memory; ``riverrun predict`` does this."""
        write_answers(
            self._model.labeller.tag_window,
            self.tokenizer,
            source,
            target,
            format=format,
            columns={**self.recipe.data.columns, **(columns or {})},
            encoding=encoding,
            notes=self.notes,
            as_json=as_json,
        )

    def evaluate(
        self, source: str | Path, *, format: str | None = None, columns: Mapping[str, int | str] | None = None
    ) -> Report:
        """The scores on a file with the right tags: of spans where the tags are spans, else accuracy.

        Format and columns are those of training where they are not given and the file's name does not tell.
        """
        data = self.recipe.data
        gold = Labelled(
            str(source), format or data.format, {**data.columns, **(columns or {})}, data.encoding, self.notes
        )
        return self._model.labeller.score(gold.pairs(self.fields.tags.source))

    # -- training

    def fit(
        self,
        train: str | Path | None = None,
        dev: str | Path | None = None,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        listeners: Sequence[Listener] = (),
        allow_import: bool = False,
    ) -> Tagger:
        """Learn from files; the model is then in ``out`` too, where that is given.

        Args:
            train, dev: files; those of the recipe where they are not given. Without dev a share of train is held out.
            out: the model's folder; without it nothing stays on the disk.
            resume: continue the run that is in ``out``; one that is finished is loaded.
            listeners: are called with each event of the training.
            allow_import: whether a cell of the user's own, ``package.module:Class``, may be imported.
        """
        given = {name: str(path) for name, path in (("train", train), ("dev", dev)) if path is not None}
        recipe = msgspec.structs.replace(self.recipe, data=msgspec.structs.replace(self.recipe.data, **given))
        with ExitStack() as stack:
            if out is None:
                if resume:
                    raise ConfigError("resume: which run? Give its folder as out")
                place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="riverrun-")))
            else:
                place = Path(out)
                folders.fresh(place, resume=resume)
                if (place / folders.CONFIG).is_file():
                    done = Tagger.load(place)
                    self.recipe, self._held, self.notes = done.recipe, done._held, done.notes
                    self.notes.append(f"{place}: this training is finished; nothing to resume")
                    return self
            with folders.left_as_found(place):
                trained = train_tagger(recipe, place, resume=resume, listeners=listeners, allow_import=allow_import)
            self.recipe, self._held = recipe, _Held.trained(recipe, trained)
            self.notes += trained.notes
            if out is not None:
                self.save_pretrained(place)
        return self

    # -- folders

    @staticmethod
    def load(model: str | Path, *, threads: int | None = None) -> Tagger:
        """The tagger of a folder, or of a bundled model; one that was exported needs no torch.

        Args:
            threads: how many one call of an exported model may use; by default all cores.
        """
        place = folders.find(model)
        root, unfinished = folders.root(place)
        config = folders.read(root)
        if config.task != "tagger":
            raise CheckpointError(f"{place}: is a model for the task {config.task!r}, expected 'tagger'")
        tagger = Tagger(decode_recipe(config.recipe, source=str(root / folders.CONFIG)))
        fields, tokenizer = read_vocabularies(root, config)
        held = _Held(config, fields, tokenizer)
        constrained = tagger.recipe.model.head.constrained
        if GRAPH in config.files:
            from riverrun.runtime.session import Session

            held.graph = root / GRAPH
            held.labeller = Labeller(fields, Session(held.graph, threads=threads), constrained=constrained)
        else:
            held.net = read_net(root, tagger.recipe, config, fields, unfinished=unfinished)
            held.labeller = Labeller.of_net(fields, held.net, constrained=constrained)
        held.papers = {name: (root / name).read_bytes() for name in (folders.CARD, METRICS) if (root / name).is_file()}
        if unfinished:
            tagger.notes.append(f"{place}: the training is not finished; these are the best weights so far")
        tagger._held = held
        return tagger

    from_pretrained = load

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model's folder: a new or empty one, or one that holds a model or a run, which it replaces."""
        held, place = self._model, Path(folder)
        if not (place / folders.CONFIG).is_file() and not (place / folders.DRAFT).is_dir():
            folders.empty(place)
        if held.net is not None:
            from riverrun.train.weights import to_bytes

            content = {WEIGHTS: to_bytes(held.net.state_dict())}
        else:
            assert held.graph is not None  # a tagger has a net or a graph
            content = {GRAPH: held.graph.read_bytes()}
        folders.write(place, held.config, {**content, **held.files()})

    def push_to_hub(self, name: str, **options: Any) -> None:
        """Upload the model's folder to the Hugging Face hub; options are those of ``HfApi.upload_folder``."""
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise missing("huggingface_hub", "hub", "pushing a model to the hub") from None
        with tempfile.TemporaryDirectory(prefix="riverrun-") as place:
            self.save_pretrained(place)
            api = HfApi()
            api.create_repo(name, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=place, **options)

    def export(self, folder: str | Path, *, int8: bool = False) -> list[str]:
        """Write the model as a folder that runs without torch; what a user should know of it is returned.

        The graph is compared with the net on random ragged batches, and on dev data where that is at hand, before
        anything is written.
        """
        held = self._model
        if held.net is None:
            raise ConfigError("this model is exported already; export the folder that training wrote")
        try:
            from riverrun.export.graph import export_graph
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("riverrun"):
                raise
            raise missing(error.name, "export", "exporting a model") from None
        place = Path(folder)
        folders.empty(place)
        encoder = SentenceEncoder(held.fields)
        sentences = self._sample(CHECKED)
        batches = [encoder.encode(sentences[k : k + 32]) for k in range(0, len(sentences), 32)]
        example = batches[0] if batches else encoder.encode([["a", "b"], ["c"]])
        with folders.left_as_found(place, (GRAPH, VOCABULARIES, METRICS, folders.CARD, folders.CONFIG)):
            report = export_graph(held.net, example, place / GRAPH, int8=int8, check=batches)
            config = msgspec.structs.replace(held.config, files={GRAPH: sha256(place / GRAPH)})
            folders.write(place, config, held.files())
        return str(report).splitlines()

    def _sample(self, most: int) -> list[list[str]]:
        """Some sentences of the dev data, if the file is still there and the same."""
        data, known = self.recipe.data, self._model.config.data
        path = data.dev or data.train
        if path is None or not Path(path).is_file() or sha256(path) != known.get(path):
            return []
        source = Labelled(path, data.format, data.columns, data.encoding)
        return [forms for forms, _ in islice(source.pairs(), most)]

    # -- parts

    @property
    def _model(self) -> _Held:
        if self._held is None:
            raise ConfigError("this tagger is not trained yet: call fit(train, dev), or Tagger.load(folder)")
        return self._held

    @property
    def fields(self) -> SentenceFields:
        """Words, characters and tags, with their vocabularies."""
        return self._model.fields

    @property
    def tokenizer(self) -> Tokenizer:
        """What splits text into the words that the tagger was trained on."""
        return self._model.tokenizer

    @property
    def net(self) -> Net:
        """The net, where the model was not exported."""
        if self._model.net is None:
            raise ConfigError("this tagger has no net: it was exported")
        return self._model.net

    def __repr__(self) -> str:
        state = "not trained" if self._held is None else f"{len(self._held.fields.tags.vocab)} tags"
        return f"Tagger({self.recipe.model.encoder.kind}, {self.recipe.model.head.kind}, {state})"


class _Held:
    """What a tagger has once it is trained or loaded: a net or an exported graph, and all that belongs to it."""

    labeller: Labeller

    def __init__(self, config: folders.Config, fields: SentenceFields, tokenizer: Tokenizer) -> None:
        self.config, self.fields, self.tokenizer = config, fields, tokenizer
        self.net: Net | None = None
        self.graph: Path | None = None
        self.papers: dict[str, bytes] = {}

    @staticmethod
    def trained(recipe: TaggerRecipe, result: Trained) -> _Held:
        """What a run gave, with its scores and its card."""
        held = _Held(result.config, result.fields, result.tokenizer)
        held.net = result.net
        held.labeller = Labeller.of_net(result.fields, result.net, constrained=recipe.model.head.constrained)
        final = result.reports.get("test", result.reports["dev"])
        metrics = {
            "metrics": final.metrics,
            "signature": final.signature,
            "reports": result.reports,
            "steps": result.steps,
            "seconds": round(result.seconds, 1),
        }
        card = tagger_card(recipe, result.config, result.reports, fields=result.fields, seconds=result.seconds)
        held.papers = {
            METRICS: msgspec.json.format(msgspec.json.encode(metrics), indent=2) + b"\n",
            folders.CARD: card.encode(),
        }
        return held

    def files(self) -> dict[str, bytes]:
        """Everything in the folder but the model itself and ``config.json``."""
        return vocabularies(self.fields, self.tokenizer) | self.papers
