"""``task = "tagger"``: a label for each word, by a recurrent encoder over words and characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from riverrun.config.data import Data
from riverrun.config.struct import Config, Count, Fraction, NotNegative, Share, Size, tag_of
from riverrun.config.train import Train

CellOption = int | float | str | bool


class Words(Config, frozen=True):
    """The vector of each word: learned, or read from a file and then learned further."""

    size: Size = 100
    """Numbers in a vector; a vectors file must have as many."""

    vectors: str | None = None
    """A file of word vectors (GloVe, word2vec or fastText, text or binary); random vectors where it is not given. A
    fastText .bin has a vector for every word: it composes those that it does not know from character n-grams."""

    lower: bool = True
    """Look words up in lower case. Characters keep their case."""

    digits: bool = False
    """Look words up with every digit as 0. Characters keep their digits."""

    min_count: Size = 1
    """How often a word must occur in the training file to have its own vector."""

    limit: Size | None = None
    """The largest number of words, the most frequent ones first."""

    extra: Count = 0
    """How many words of the vectors file to keep besides those of the training file, the most frequent ones first."""

    frozen: bool = False
    """Leave the vectors as they were read."""

    dropout: NotNegative = 0.0
    """How readily rare words are read as unknown in training: a word that occurs n times is, with probability
    dropout / (dropout + n)."""

    coverage: Fraction = 0.0
    """Stop before training when a smaller share of the training words has a vector in the file."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Settings that speak of a vectors file where there is none."""
        for field in ("frozen", "extra", "coverage"):
            if getattr(self, field) and self.vectors is None:
                yield field, "needs a file of word vectors; give it as model.words.vectors"


class Chars(Config, frozen=True, tag_field="kind"):
    """The vector of a word from its characters."""

    size: Size = 30
    """Numbers in the vector of a character."""

    dropout: Share = 0.0
    """Dropout on the vectors of the characters."""

    max_length: Size = 40
    """Characters that are read; of a longer word, the first and the last half as many."""

    @property
    def kind(self) -> str:
        """``cnn``, or the name of a recurrent cell."""
        return tag_of(self)


class CharCNN(Chars, frozen=True, tag="cnn"):
    """A convolution over the characters, and the maximum over the word (Ma and Hovy 2016)."""

    filters: Size = 30
    """Filters, the size of the result."""

    width: Size = 3
    """Characters that a filter sees."""


class CharLSTM(Chars, frozen=True, tag="lstm"):
    """The last states of an LSTM over the characters in both directions (Lample et al. 2016)."""

    hidden: Size = 25
    """Units in each direction."""


class CharGRU(Chars, frozen=True, tag="gru"):
    """The last states of a GRU over the characters in both directions."""

    hidden: Size = 25
    """Units in each direction."""


class Affixes(Config, frozen=True):
    """The vectors of a word's beginnings and endings, looked up in a hashed table."""

    size: Size = 20
    """Numbers in the vector of an affix."""

    prefixes: Count = 3
    """Characters of the longest beginning; 0 reads none."""

    suffixes: Count = 4
    """Characters of the longest ending; 0 reads none."""

    buckets: Size = 16384
    """Rows of the table; affixes that fall into the same row share it."""

    dropout: Share = 0.0
    """The share of affixes that are not read in training."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """A table of nothing."""
        if not self.prefixes + self.suffixes:
            yield "suffixes", "prefixes and suffixes are both 0; leave affixes out instead"


class Encoder(Config, frozen=True):
    """The recurrent layers over the sentence."""

    cell: str | dict[str, CellOption] = "lstm"
    """The cell by name, or with its options: `{ kind = "mogrifier", rounds = 5 }`. `package.module:Class` is a cell of
    your own."""

    hidden: Size = 200
    """Units of a layer, in each direction."""

    layers: Size = 1
    """Layers on top of each other."""

    bidirectional: bool = True
    """Read from both ends."""

    wiring: Literal["plain", "residual", "highway", "dense"] = "plain"
    """How a layer's input joins its output."""

    dropout: Share = 0.0
    """Dropout on the output of each layer: between layers and before the head."""

    input_dropout: Share | None = None
    """Dropout on the input of the first layer; the same as `dropout` where it is not given."""

    variational: bool = False
    """Draw `dropout` and `input_dropout` once a sentence instead of once a word."""

    recurrent_dropout: Share = 0.0
    """Dropout on what a step reads of the state before it, drawn once a sentence."""

    weight_drop: Share = 0.0
    """Dropout on the recurrent weights, drawn once a batch."""

    engine: str = "auto"
    """What runs the cell over time: `auto`, or `eager`, `vendor`, `scan`, which is an error where it cannot."""

    @property
    def kind(self) -> str:
        """The name of the cell."""
        return self.cell if isinstance(self.cell, str) else str(self.cell["kind"])

    @property
    def options(self) -> dict[str, CellOption]:
        """The options of the cell, without its name."""
        return {} if isinstance(self.cell, str) else {k: v for k, v in self.cell.items() if k != "kind"}

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """A cell with options and no name."""
        if not isinstance(self.cell, str) and not isinstance(self.cell.get("kind"), str):
            yield "cell", f"expected the name of a cell as 'kind', received the keys {', '.join(self.cell) or '(none)'}"


class Head(Config, frozen=True):
    """From the encoder's outputs to tags."""

    kind: Literal["crf", "softmax"] = "crf"
    """`crf` scores whole tag sequences, `softmax` each word by itself."""

    potentials: Literal["additive", "pairwise"] = "additive"
    """`additive`: one table of transitions; `pairwise`: a transition table computed for each word."""

    scheme: Literal["bioes", "iob2", "iob1"] | None = None
    """The scheme that span tags are converted to for training; predictions come back in that of the file. `none` keeps
    the file's own."""

    constrained: bool = True
    """Never predict a sequence that the scheme forbids. Tags that are no spans are not constrained."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Pairwise potentials without a CRF."""
        if self.potentials == "pairwise" and self.kind != "crf":
            yield "potentials", f"'pairwise' needs kind 'crf', received kind '{self.kind}'"


class TaggerModel(Config, frozen=True):
    """Words and characters, encoder, head."""

    words: Words | None = msgspec.field(default_factory=Words)
    """The vectors of words; `none` reads characters alone."""

    chars: CharCNN | CharLSTM | CharGRU | None = None
    """The vectors made of characters, by `kind`: `cnn`, `lstm` or `gru`; `none` reads words alone."""

    affixes: Affixes | None = None
    """The vectors of beginnings and endings; `none` reads none."""

    encoder: Encoder = msgspec.field(default_factory=Encoder)
    """The recurrent layers."""

    head: Head = msgspec.field(default_factory=Head)
    """How tags are chosen."""

    init: Literal["ma-hovy", "lecture", "torch"] = "ma-hovy"
    """The first weights: `ma-hovy` is uniform by fan-in and fan-out with a forget bias of 1."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """A model that reads nothing."""
        if self.words is None and self.chars is None and self.affixes is None:
            yield "words", "a tagger reads words, chars or affixes; all of them are none"


class TaggerRecipe(Config, frozen=True, tag_field="task", tag="tagger"):
    """How to train a tagger, and the score that comes out."""

    data: Data = msgspec.field(default_factory=Data)
    """The files."""

    model: TaggerModel = msgspec.field(default_factory=TaggerModel)
    """The net."""

    train: Train = msgspec.field(default_factory=Train)
    """The training."""

    scoring: Literal["conlleval", "strict"] = "conlleval"
    """How spans are counted: `conlleval` reads tags that break their scheme as the script of the CoNLL shared tasks
    does, `strict` counts only spans that are written as the scheme says."""

    cites: str | None = None
    """The publication that describes the system."""

    expects: dict[str, float] = msgspec.field(default_factory=dict)
    """The scores that the recipe must reach, by metric."""

    @property
    def task(self) -> str:
        """``tagger``."""
        return tag_of(self)

    @property
    def by_gradient(self) -> bool:
        """Whether it is a net that is trained, for which torch is needed."""
        return True

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Columns that a tagger does not read."""
        for name in sorted(set(self.data.columns) - {"form", "tag"}):
            yield f"data.columns.{name}", "a tagger reads the columns 'form' and 'tag'"
