"""A tagger: a label for each word of a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from riverrun.config.tagger import TaggerRecipe
from riverrun.data.sentences import SentenceEncoder, SentenceFields
from riverrun.errors import ConfigError, DataError
from riverrun.metrics.report import Report
from riverrun.metrics.spans import Scoring
from riverrun.tasks import folder as folders
from riverrun.tasks.card import tagger_card
from riverrun.tasks.folder import GRAPH, WEIGHTS
from riverrun.tasks.labelled import Labelled
from riverrun.tasks.labeller import Labeller
from riverrun.tasks.tagger_folder import not_listed, read_net, read_vocabularies, vocabularies
from riverrun.tasks.tagger_stream import write_answers
from riverrun.tasks.tagger_training import Trained, train_tagger
from riverrun.tasks.task import METRICS, Held, Task
from riverrun.tasks.training import Listener
from riverrun.text.sources import sha256
from riverrun.text.tokenize import Tokenizer

if TYPE_CHECKING:
    from riverrun.nn.models.tagger import Tagger as Net

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


class Tagger(Task[TaggerRecipe, "HeldTagger"]):
    """Labels words: parts of speech, names, chunks, or whatever a column of a file holds.

    Args:
        recipe: a shipped recipe, a TOML file, or a recipe that was made in Python.
        settings: texts like ``train.epochs=3``, on top of it.

    ::

        tagger = Tagger("tagger/upos").fit("train.conllu", "dev.conllu")
        tagger.predict(["Dogs bark at night."])
        tagger.save_pretrained("my-tagger")
    """

    recipe_type = TaggerRecipe
    first_use = "echo 'Some text.' | riverrun predict {}"

    def __init__(self, recipe: TaggerRecipe | str | Path = "tagger/upos", *, settings: Iterable[str] = ()) -> None:
        super().__init__(recipe, settings=settings)

    # -- use

    def predict(self, items: Iterable[str | Sequence[str]]) -> list[Tagged]:
        """The tags of each item: a text, which is split into words, or a list of words.

        A text of several sentences is tagged sentence by sentence; its answer is one list of words and one of tags.
        """
        if isinstance(items, str):
            raise ConfigError("predict: expected a list of texts, received one text; write predict([text])")
        items = list(items)
        for number, item in enumerate(items, 1):
            if not _is_item(item):
                raise ConfigError(
                    f"predict: item {number}: expected a text or a list of words, received {type(item).__name__}"
                )
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
            tags=self.fields.tags.vocab.symbols,
            usual=self.recipe.data.format,
        )

    def evaluate(
        self,
        source: str | Path,
        *,
        format: str | None = None,
        columns: Mapping[str, int | str] | None = None,
        encoding: str | None = None,
        scoring: Scoring | None = None,
    ) -> Report:
        """The scores on a file with the right tags: of spans where the tags are spans, else accuracy.

        What is not given is as in training.

        Args:
            source: the file; ``-`` is stdin.
            format: how it is written.
            columns: which column holds what.
            encoding: where it is not UTF-8.
            scoring: how spans are counted whose tags break their scheme, ``conlleval`` or ``strict``.
        """
        data = self.recipe.data
        gold = Labelled(
            str(source),
            format or data.format,
            {**data.columns, **(columns or {})},
            encoding or data.encoding,
            self.notes,
        )
        met: set[str] = set()

        def pairs() -> Iterator[tuple[list[str], list[str]]]:
            for forms, tags in gold.pairs(self.fields.tags.source):
                met.update(tags)
                yield forms, tags

        report = self._model.labeller.score(pairs(), scoring=scoring or self.recipe.scoring)
        field = self.fields.tags
        known = {tag[2:] if field.source else tag for tag in field.vocab.symbols}
        if met and not any((tag[2:] if field.source else tag) in known for tag in met):
            raise DataError(
                f"{gold.name}: not one of its tags is a tag of the model, so that every score would be 0; expected "
                f"tags such as {_some(field.vocab.symbols)}, received {_some(sorted(met))}. Name the column of the "
                "tags (data.columns), or evaluate a model that was trained on such tags"
            )
        return report

    # -- how a tagger is trained, read and exported

    def _train(
        self, recipe: TaggerRecipe, place: Path, *, resume: bool, listeners: Sequence[Listener], allow_import: bool
    ) -> HeldTagger:
        trained = train_tagger(recipe, place, resume=resume, listeners=listeners, allow_import=allow_import)
        self.notes += trained.notes
        return HeldTagger.trained(recipe, trained)

    def _read(self, root: Path, config: folders.Config, *, unfinished: bool, threads: int | None) -> HeldTagger:
        fields, tokenizer = read_vocabularies(root, config)
        model = self.recipe.model
        for name, needed in (("words", model.words), ("chars", model.chars or model.affixes)):
            if needed and getattr(fields, name) is None:
                raise not_listed(root, name)
        held = HeldTagger(config, fields, tokenizer)
        constrained = self.recipe.model.head.constrained
        if GRAPH in config.files:
            from riverrun.runtime.session import Session

            held.graph = root / GRAPH
            held.labeller = Labeller(fields, Session(held.graph, threads=threads), constrained=constrained)
        else:
            held.net = read_net(root, self.recipe, config, fields, unfinished=unfinished)
            held.labeller = Labeller.of_net(fields, held.net, constrained=constrained)
        return held

    def _export(self, path: Path, *, int8: bool) -> list[str]:
        from riverrun.export.graph import export_graph

        encoder = SentenceEncoder(self.fields)
        sentences = self._sample(CHECKED)
        batches = [encoder.encode(sentences[k : k + 32]) for k in range(0, len(sentences), 32)]
        example = batches[0] if batches else encoder.encode([["a", "b"], ["c"]])
        return str(export_graph(self.net, example, path, int8=int8, check=batches)).splitlines()

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


def _some(tags: Sequence[str]) -> str:
    """A few tags, for a message."""
    return ", ".join(tag or "the empty one" for tag in tags[:5]) + ("..." if len(tags) > 5 else "")


def _is_item(item: object) -> bool:
    """Whether something is a text or a list of words."""
    return isinstance(item, str) or (isinstance(item, Sequence) and all(isinstance(word, str) for word in item))


class HeldTagger(Held):
    """What a tagger has once it is trained or loaded: a net or an exported graph, and all that belongs to it."""

    labeller: Labeller

    def __init__(self, config: folders.Config, fields: SentenceFields, tokenizer: Tokenizer) -> None:
        self.config, self.fields, self.tokenizer = config, fields, tokenizer
        self.net: Net | None = None
        self.graph: Path | None = None
        self.papers: dict[str, bytes] = {}

    @staticmethod
    def trained(recipe: TaggerRecipe, result: Trained) -> HeldTagger:
        """What a run gave, with its scores and its card."""
        held = HeldTagger(result.config, result.fields, result.tokenizer)
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

    @property
    def exportable(self) -> bool:
        """Whether there is a net."""
        return self.net is not None

    def content(self) -> dict[str, bytes]:
        """The weights of the net, or the graph."""
        if self.net is None:
            assert self.graph is not None  # a tagger has a net or a graph
            return {GRAPH: self.graph.read_bytes()}
        from riverrun.train.weights import to_bytes

        return {WEIGHTS: to_bytes(self.net.state_dict())}

    def vocabularies(self) -> dict[str, bytes]:
        """Words, characters, tags and the tokeniser."""
        return vocabularies(self.fields, self.tokenizer)
