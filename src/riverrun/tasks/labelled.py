"""Files of labelled words: which format, which columns, and the corpora that a tagger is trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from riverrun.data.corpus import Corpus
from riverrun.errors import ConfigError, DataError
from riverrun.text.durable import write_durably
from riverrun.text.formats import guess_format, read_conll, read_conllu
from riverrun.text.formats.sentence import Sentence
from riverrun.text.sources import existing, sha256
from riverrun.text.tags import Scheme, recognise, spans

READERS: dict[str, Callable[..., Iterator[Sentence]]] = {"conllu": read_conllu, "conll": read_conll}
"""Formats that have a word a line -> reader."""

# The columns that a tagger reads where nothing else is said: (form, tag).
_DEFAULTS: dict[str, tuple[int | str, int | str]] = {"conllu": ("form", "upos"), "conll": (0, -1)}


class Row(NamedTuple):
    """A sentence: its words, their tags, and the lines in which they stand."""

    forms: list[str]
    tags: list[str]
    lines: Sequence[int]


@dataclass
class Labelled:
    """A file whose words have tags.

    Args:
        path: of the file.
        format: ``conllu`` or ``conll``; guessed where it is None.
        columns: ``form`` and ``tag`` -> name or number of a column.
        encoding: where it is not UTF-8.
        notes: what the reader had to say, filled while the file is read.
    """

    path: str
    format: str | None = None
    columns: Mapping[str, int | str] = field(default_factory=dict)
    encoding: str | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.format is None:
            self.format = guess_format(self.path, encoding=self.encoding)
        if self.format not in READERS:
            raise ConfigError(
                f"{self.name}: a tagger reads the formats {', '.join(READERS)}, received {self.format}. "
                "Name the right one as data.format"
            )
        if self.path != "-":
            existing(self.path)  # before a file that is read first has taken its time

    @property
    def name(self) -> str:
        """What messages call it."""
        return "<stdin>" if self.path == "-" else self.path

    @property
    def form(self) -> int | str:
        """The column of the words."""
        return self.columns.get("form", _DEFAULTS[str(self.format)][0])

    @property
    def tag(self) -> int | str:
        """The column of the tags."""
        return self.columns.get("tag", _DEFAULTS[str(self.format)][1])

    def sentences(self, stream: Any = None) -> Iterator[Sentence]:
        """All sentences, read anew at each call; what is noted is noted once.

        Args:
            stream: an open stream of bytes to read in place of the file.
        """
        notes: list[str] = []
        yield from READERS[str(self.format)](stream or self.path, encoding=self.encoding, notes=notes)
        self.notes += [note for note in notes if note not in self.notes]

    def rows(self) -> Iterator[Row]:
        """Words, tags and lines of each sentence that has words."""
        for sentence in self.sentences():
            if len(sentence):
                if self.untagged(sentence):
                    raise DataError(
                        f"{self.name}:{sentence.line}: the words and their tags are the same column; expected a column "
                        "of tags beside the words (data.columns)"
                    )
                yield Row(self.column(sentence, self.form), self.column(sentence, self.tag), sentence.lines)

    def pairs(self, scheme: str | None = None) -> Iterator[tuple[list[str], list[str]]]:
        """(forms, tags) of each sentence that has words; with a span scheme, its tags must be of that one."""
        for forms, tags, lines in self.rows():
            if scheme is not None:
                try:
                    spans(tags, scheme)
                except DataError as error:
                    raise DataError(f"{self.name}:{lines[0]}: {error}") from None
            yield forms, tags

    def scheme(self, rows: Iterable[tuple[Sequence[str], Sequence[int]]] | None = None) -> Scheme | None:
        """The span scheme of its tags, None where they are no spans.

        Args:
            rows: (tags, lines) of the sentences; without them, the file is read.

        Raises:
            DataError: where tags mix schemes, or break theirs, with file and line.
        """
        lines: list[Sequence[int]] = []

        def tags() -> Iterator[Sequence[str]]:
            for of_words, places in rows if rows is not None else ((row.tags, row.lines) for row in self.rows()):
                lines.append(places)
                yield of_words

        return recognise(tags(), where=lambda number, word: f"{self.name}:{lines[number - 1][word - 1]}")

    def column(self, sentence: Sentence, name: int | str) -> list[str]:
        """A column of a sentence of this file."""
        try:
            return sentence.column(name)
        except DataError as error:
            what = str(error).partition(": ")[2]
            raise DataError(f"{self.name}:{sentence.line}: {what}. Name another one (data.columns)") from None

    def untagged(self, sentence: Sentence) -> bool:
        """Whether a sentence has no column for the tags besides that of the words."""
        names = sentence.columns
        form, tag = (
            c % len(names) if isinstance(c, int) else names.index(c) if c in names else c for c in (self.form, self.tag)
        )
        return form == tag

    def corpus(self, folder: Path, keep: Callable[[int], bool] = lambda number: True, *, kept: str = "all") -> Corpus:
        """The sentences whose number ``keep`` accepts, as a memory-mapped corpus in this folder.

        A corpus that was built there before from the same file, read in the same way, is opened; ``kept`` says in words
        what ``keep`` accepts.
        """
        origin = {
            "sha256": sha256(self.path),
            "format": self.format,
            "columns": {"form": self.form, "tag": self.tag},
            "encoding": self.encoding,
            "kept": kept,
        }
        stamp = folder / "origin.json"
        if stamp.is_file() and msgspec.json.decode(stamp.read_bytes()) == origin:
            return Corpus.open(folder)
        stamp.unlink(missing_ok=True)
        rows = ({"form": forms, "tag": tags} for number, (forms, tags) in enumerate(self.pairs()) if keep(number))
        corpus = Corpus.build(rows, folder, columns=("form", "tag"))
        write_durably(stamp, msgspec.json.encode(origin))
        return corpus

    def where(self, wrong: Callable[[str], bool]) -> str:
        """``file:line`` of the first word whose tag is wrong."""
        for _, tags, lines in self.rows():
            for tag, line in zip(tags, lines, strict=True):
                if wrong(tag):
                    return f"{self.name}:{line}"
        return self.name


def held_out(share: float) -> Callable[[int], bool]:
    """Which sentence numbers are held out: evenly spread over the file, so that it needs to be read only once.

    >>> [number for number in range(20) if held_out(0.1)(number)]
    [9, 19]
    """
    return lambda number: int((number + 1) * share + 1e-9) > int(number * share + 1e-9)


def train_and_dev(train: Labelled, dev: Labelled | None, folder: Path, share: float) -> tuple[Corpus, Corpus]:
    """The corpora to learn from and to choose the best weights on; without ``dev`` a share of ``train`` is held out."""
    if dev is not None:
        return whole(train, folder / "train"), whole(dev, folder / "dev")
    held = held_out(share)
    kept = _full(train.corpus(folder / "train", lambda number: not held(number), kept=f"all but {share}"), train)
    rest = train.corpus(folder / "dev", held, kept=f"{share}")
    if not len(rest):
        raise DataError(
            f"{train.path}: has only {len(kept)} sentences, too few to hold out {share:.0%} of them as dev data. "
            "Give a dev file"
        )
    return kept, rest


def whole(source: Labelled, folder: Path) -> Corpus:
    """The corpus of a whole file."""
    return _full(source.corpus(folder), source)


def _full(corpus: Corpus, source: Labelled) -> Corpus:
    if not corpus.tokens:
        raise DataError(f"{source.path}: no words; expected sentences with tagged words")
    return corpus
