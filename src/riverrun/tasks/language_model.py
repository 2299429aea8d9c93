"""A language model: the probability of a text, symbol by symbol, and texts that it writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from riverrun.config.lm import LmRecipe
from riverrun.config.struct import tag_of
from riverrun.data.padded import Padded
from riverrun.decode.rescore import rescore
from riverrun.decode.step import StepModel
from riverrun.decode.stream import Stream
from riverrun.errors import ConfigError, DataError
from riverrun.metrics.agreement import UnknownPairs, count_agreement
from riverrun.metrics.perplexity import Unknown
from riverrun.metrics.report import Report
from riverrun.tasks import folder as folders
from riverrun.tasks.lm_held import HeldLm
from riverrun.tasks.lm_reading import read_lines
from riverrun.tasks.lm_training import default_format, report, train_lm
from riverrun.tasks.task import Task
from riverrun.tasks.texts import Texts, read_twice
from riverrun.tasks.training import Listener
from riverrun.tasks.writing import Wish, Writing
from riverrun.text.formats.lines import read_lines as read_lines_of
from riverrun.text.formats.minimal_pairs import read_minimal_pairs
from riverrun.text.sources import create_text
from riverrun.text.tokenize import Tokenizer
from riverrun.text.units import AnyUnits, Words

if TYPE_CHECKING:
    from riverrun.nn.models.recurrent_lm import RecurrentLM
    from riverrun.nn.models.window_lm import WindowLM


class LanguageModel(Task[LmRecipe, HeldLm]):
    """Predicts the next word, character, byte or piece of a word; by counts or by a net.

    Args:
        recipe: a shipped recipe, a TOML file, or a recipe that was made in Python.
        settings: texts like ``train.epochs=3``, on top of it.

    ::

        model = LanguageModel("lm/char").fit("book.txt")
        print(model.generate("It was", strategy="top-p", seed=1).texts()[0])
        model.score(["It was late."])
    """

    recipe_type = LmRecipe
    first_use = "riverrun generate {} --strategy top-p"

    def __init__(self, recipe: LmRecipe | str | Path = "lm/char", *, settings: Iterable[str] = ()) -> None:
        super().__init__(recipe, settings=settings)

    # -- reading

    def begin(self, rows: int = 1) -> Stream:
        """Texts that have not begun. A stream is a value: what reads it gives another one, so to keep it is to fork."""
        return Stream.begin(self.model, rows=rows)

    def read(self, text: str, stream: Stream | None = None) -> tuple[list[tuple[str, float]], Stream]:
        """Go on with a text, cut anywhere.

        Args:
            text: what comes next, with its line breaks.
            stream: of one text; one that begins, where it is not given.

        Returns:
            each symbol with the natural logarithm of its probability, and the stream behind.
        """
        stream = self.begin() if stream is None else stream
        ids = np.array(self.units.ids(text), np.int64)
        scores, after = stream.feed(self.model, Padded(ids[None], np.array([len(ids)])))
        return list(zip(map(self.units.symbol, ids.tolist()), scores[0].tolist(), strict=True)), after

    def score(self, texts: Iterable[str]) -> Iterator[float]:
        """The natural logarithm of the probability of each line of text, its end included."""
        if isinstance(texts, str):
            raise ConfigError("score: expected a list of texts, received one text; write score([text])")
        for _, scores in read_lines(self.model, self.units, texts):
            yield float(scores.sum())

    def score_symbols(self, texts: Iterable[str]) -> Iterator[list[tuple[str, float]]]:
        """Each symbol of each line of text, its end included, with the natural logarithm of its probability."""
        for ids, scores in read_lines(self.model, self.units, texts):
            yield list(zip(map(self.units.symbol, ids.tolist()), scores.tolist(), strict=True))

    def rescore(
        self, lists: Sequence[Sequence[tuple[str, float]]], weight: float = 1.0
    ) -> list[list[tuple[str, float]]]:
        """Lists of texts with scores of somebody else's, best first after the log probability was added.

        Args:
            lists: of a recogniser or a translator; scores in natural logarithm.
            weight: of the log probability.
        """
        read = [[(self.units.ids(text), score) for text, score in some] for some in lists]
        # What comes back are the same lists of ids in another order; two texts may have equal ones.
        texts = {id(ids): text for ids, text in zip(_firsts(read), _firsts(lists), strict=True)}
        return [[(texts[id(ids)], score) for ids, score in some] for some in rescore(self.model, read, weight)]

    # -- writing

    def generate(self, prompt: str = "", *, stream: Stream | None = None, **wishes: Any) -> Writing:
        """Write on; iterate over the result to see the text come, ``.texts()`` is all of it.

        Args:
            prompt: how the text begins.
            stream: where it begins; a text that begins, where it is not given.
            wishes: those of ``Wish``: ``strategy``, ``length``, ``n``, ``temperature``, ``seed`` ...
        """
        known = Wish.__struct_fields__
        if strange := [name for name in wishes if name not in known]:
            raise ConfigError(f"generate: unknown option '{strange[0]}'; known: {', '.join(known)}")
        stream = self.begin() if stream is None else stream
        if len(stream) != 1:
            raise ConfigError(f"generate: expected a stream of one text, received one of {len(stream)}; use keep")
        return Writing(self.model, self.units, stream, self._prompt(prompt), Wish(**wishes))

    def predict(self, items: Iterable[str], **wishes: Any) -> list[str]:
        """What comes behind each text, one line for each; greedy where no strategy is given."""
        if isinstance(items, str):
            raise ConfigError("predict: expected a list of texts, received one text; write predict([text])")
        wishes = {"strategy": "greedy", "length": 40, **wishes}
        return [self.generate(item, **wishes).texts()[0] for item in items]

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
        """For each line of a file (``-`` is stdin) what comes behind it, up to the end of the line; greedy.

        ``riverrun predict`` does this; ``riverrun generate`` has all the ways to write.
        """
        if format not in (None, "lines", "text") or columns:
            raise ConfigError("a language model reads lines of text; leave data.format and data.columns out")
        with create_text(target) as out:
            for line in read_lines_of(source, encoding=encoding, notes=self.notes):
                (text,) = self.predict([line], stop=("\n",))
                answer = {"prompt": line, "text": text}
                out.write((msgspec.json.encode(answer).decode() if as_json else text) + "\n")
                out.flush()

    # -- scores

    def evaluate(
        self,
        source: str | Path,
        *,
        format: str | None = None,
        encoding: str | None = None,
        unknown: Unknown = "scored",
    ) -> Report:
        """Perplexity and bits on a file.

        Args:
            source: lines for a model of words, else running text; ``-`` is stdin.
            format: ``lines``, ``text`` or ``lm1b``; that of training where it is not given.
            encoding: where it is not UTF-8.
            unknown: what becomes of symbols that the model does not know, as in ``Perplexity``.
        """
        data = self.recipe.data
        written = format or data.format or default_format(self.recipe)
        with read_twice(source) as path:
            texts = Texts(path, written, encoding or data.encoding, self.notes)
            return report(self.recipe, self._model, texts, unknown)

    def agreement(
        self, source: str | Path, *, encoding: str | None = None, unknown: UnknownPairs = "excluded"
    ) -> Report:
        """How often the right one of two sentences is the more probable one, by construction and by attractors.

        For a model of words the sentences are split into words first, as text without a space before its full stop.

        Args:
            source: minimal pairs, a file or a folder of them: BLiMP, Marvin and Linzen, or ``good<TAB>bad``.
            encoding: where it is not UTF-8.
            unknown: what becomes of pairs that differ in words the model does not know, as in ``Agreement``.
        """
        pairs = read_minimal_pairs(source, encoding=encoding, notes=self.notes)
        split = Tokenizer().split
        counts = count_agreement(
            pairs,
            lambda lines: list(self.score(lines)),
            self.units,
            prepare=(lambda text: " ".join(word for part in split(text) for word in part))
            if isinstance(self.units, Words)
            else None,
            unknown=unknown,
        )
        return counts.report("lm")

    # -- how it is trained, read and exported

    def _train(
        self, recipe: LmRecipe, place: Path, *, resume: bool, listeners: Sequence[Listener], allow_import: bool
    ) -> HeldLm:
        held, notes = train_lm(recipe, place, resume=resume, listeners=listeners, allow_import=allow_import)
        self.notes += notes
        return held

    def _read(self, root: Path, config: folders.Config, *, unfinished: bool, threads: int | None) -> HeldLm:
        return HeldLm.read(root, self.recipe, config, unfinished=unfinished, threads=threads)

    def _export(self, path: Path, *, int8: bool) -> list[str]:
        from riverrun.export.language_model import export_language_model

        return str(export_language_model(self.net, path, int8=int8)).splitlines()

    # -- parts

    @property
    def model(self) -> StepModel:
        """What predicts: a net, counts, or an exported graph."""
        return self._model.model

    @property
    def units(self) -> AnyUnits:
        """Text to ids and back."""
        return self._model.units

    @property
    def net(self) -> RecurrentLM | WindowLM:
        """The net, where there is one."""
        if self._model.net is None:
            raise ConfigError("this model has no net: it counts, or it was exported")
        return self._model.net

    @property
    def identity(self) -> str:
        """A hash of what was learned, the same after an export: a saved stream goes on with the same model only."""
        return self._model.identity

    def save_stream(self, stream: Stream, path: str | Path) -> None:
        """Write a stream, to go on from it elsewhere."""
        from riverrun.text.durable import write_durably

        write_durably(Path(path), stream.to_bytes(self.identity))

    def load_stream(self, path: str | Path) -> Stream:
        """A stream that was saved; that of another model is a StateError."""
        place = Path(path)
        if not place.is_file():
            raise DataError(f"{place}: no such file; expected a stream that was saved")
        return Stream.from_bytes(place.read_bytes(), self.identity, example=self.model.start())

    def _prompt(self, prompt: str) -> list[int]:
        strange = self.units.unknowns(prompt)
        if strange and not isinstance(self.units, Words):
            listed = " ".join(dict.fromkeys(strange))
            raise DataError(f"the prompt has characters that the model does not know: {listed}; leave them out")
        if strange:
            self.notes.append(f"the model does not know {', '.join(dict.fromkeys(strange))} and reads <unk> instead")
        return self.units.ids(prompt)

    def __repr__(self) -> str:
        state = "not trained" if self._held is None else f"{self.units.size} {tag_of(self.units)}"
        return f"LanguageModel({tag_of(self.recipe.model)}, {state})"


def _firsts(lists: Iterable[Iterable[tuple[Any, float]]]) -> Iterator[Any]:
    """What has a score, without it."""
    for some in lists:
        for value, _ in some:
            yield value
