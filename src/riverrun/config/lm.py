"""``task = "lm"``: the probability of a text, symbol by symbol, by counts or by a net."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from riverrun.config.data import Data
from riverrun.config.struct import Config, Count, NotNegative, Positive, Share, Size, tag_of
from riverrun.config.tagger import Encoder
from riverrun.config.train import Train


class Units(Config, frozen=True, tag_field="kind"):
    """What a text is made of."""

    @property
    def kind(self) -> str:
        """``words``, ``chars``, ``bytes`` or ``bpe``."""
        return tag_of(self)


class WordUnits(Units, frozen=True, tag="words"):
    """Words between white space; each line of a file is a text, whose end is a symbol too."""

    min_count: Size = 1
    """How often a word must occur in the training file; others are read as `<unk>`."""

    limit: Size | None = None
    """The largest number of words, the most frequent ones first."""

    lower: bool = False
    """Read everything in lower case."""


class CharUnits(Units, frozen=True, tag="chars"):
    """Characters of running text, line breaks among them."""

    min_count: Size = 1
    """How often a character must occur in the training file; others are read as one unknown character."""


class ByteUnits(Units, frozen=True, tag="bytes"):
    """The 256 bytes of UTF-8: nothing is unknown."""


class BpeUnits(Units, frozen=True, tag="bpe"):
    """Pieces of words, learned by merging the most frequent pairs of bytes (Sennrich et al. 2016)."""

    size: Size = 8000
    """Pieces, the 256 bytes included."""


AnyUnits = WordUnits | CharUnits | ByteUnits | BpeUnits


class NGram(Config, frozen=True, tag_field="kind", tag="ngram"):
    """Relative frequencies of n-grams, smoothed."""

    order: Size = 5
    """Words of the longest n-gram, the predicted one included."""

    smoothing: Literal["kneser-ney", "absolute", "witten-bell", "add-k", "stupid-backoff"] = "kneser-ney"
    """`kneser-ney` is the interpolated modified form (Chen and Goodman 1998); `stupid-backoff` gives scores that do not
    sum to 1."""

    discount: Share | None = None
    """What `absolute` takes from each count; estimated from the counts of one and two where it is not given."""

    k: Positive = 1.0
    """What `add-k` adds to each count."""

    backoff: Share = 0.4
    """The factor of `stupid-backoff` for each word that is left out."""

    prune: list[Count] = msgspec.field(default_factory=list)
    """For each order from 1 on, n-grams with at most so many occurrences are left out; the last number holds for all
    orders above it."""

    memory: Size = 1024
    """Megabytes that counting may use; what is more is sorted on disk."""

    units: AnyUnits = msgspec.field(default_factory=WordUnits)
    """What a text is made of."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Numbers of another smoothing, and pruning of what cannot be left out."""
        if self.discount is not None and self.smoothing != "absolute":
            yield "discount", f"only smoothing 'absolute' has a discount to choose, received '{self.smoothing}'"
        if self.k != 1.0 and self.smoothing != "add-k":
            yield "k", f"only smoothing 'add-k' has k, received '{self.smoothing}'"
        if self.prune and (self.prune[0] != 0 or self.prune != sorted(self.prune)):
            yield "prune", f"expected thresholds that begin with 0 and do not fall, received {self.prune}"


class SparseNonNegative(Config, frozen=True, tag_field="kind", tag="snm"):
    """Skip-grams whose relative frequencies are adjusted by weights that are learned (Shazeer et al. 2015)."""

    order: Size = 5
    """Words of the longest n-gram, the predicted one included."""

    skips: Count = 3
    """Words that a skip-gram may leave out in one place."""

    span: Size = 3
    """Words of the context that a skip-gram keeps, at most."""

    rate: Positive = 0.1
    """The learning rate of the adjustments (AdaGrad)."""

    passes: Size = 3
    """How many times the training file is read to learn the adjustments."""

    buckets: Size = 1 << 20
    """Rows of the hashed table of adjustments."""

    memory: Size = 1024
    """Megabytes that counting may use; what is more is sorted on disk."""

    units: WordUnits = msgspec.field(default_factory=WordUnits)
    """What a text is made of."""


class Output(Config, frozen=True, tag_field="kind"):
    """From what the net remembers to a distribution over the symbols."""

    tied: bool = False
    """Use the vectors of the input as the rows of the output, which must then be as wide."""

    @property
    def kind(self) -> str:
        """The name of the softmax."""
        return tag_of(self)


class FullSoftmax(Output, frozen=True, tag="full"):
    """Every symbol is scored."""

    chunk: Size | None = None
    """Positions that are scored at once; with it (B, T, V) is never held, and gradients are exact all the same."""


class AdaptiveSoftmax(Output, frozen=True, tag="adaptive"):
    """Frequent symbols by themselves, rare ones in clusters with smaller vectors (Grave et al. 2017)."""

    cutoffs: list[Size] = msgspec.field(default_factory=lambda: [2000, 10000])
    """How many symbols are frequent, and where each cluster but the last one ends."""

    factor: Positive = 4.0
    """How many times smaller the vectors of a cluster are than those of the one before."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Cutoffs that do not rise, and tied clusters."""
        if sorted(set(self.cutoffs)) != self.cutoffs:
            yield "cutoffs", f"expected numbers that rise, received {self.cutoffs}"
        if self.tied:
            yield "tied", "the clusters of an adaptive softmax have vectors of several sizes, the input has one"


class SampledSoftmax(Output, frozen=True, tag="sampled"):
    """In training the right symbol against a sample of the others, importance weighted (Bengio and Senecal 2008)."""

    samples: Size = 1024
    """Symbols that are drawn for a batch, without replacement."""


class BlackOut(Output, frozen=True, tag="blackout"):
    """In training the right symbol against a weighted sample, which it is told apart from (Ji et al. 2016)."""

    samples: Size = 1024
    """Symbols that are drawn for a batch."""

    power: Share = 0.4
    """The power of the counts by which symbols are drawn."""


AnyOutput = FullSoftmax | AdaptiveSoftmax | SampledSoftmax | BlackOut


class Window(Config, frozen=True, tag_field="kind", tag="window"):
    """A net that reads the last words (Bengio et al. 2003)."""

    context: Size = 4
    """Words that it reads."""

    size: Size = 60
    """Numbers in the vector of a word."""

    hidden: Size = 100
    """Units of the hidden layer."""

    direct: bool = False
    """Connect the words' vectors to the output directly too."""

    dropout: Share = 0.0
    """Dropout on the hidden layer."""

    output: AnyOutput = msgspec.field(default_factory=FullSoftmax)
    """The distribution over the symbols."""

    units: AnyUnits = msgspec.field(default_factory=WordUnits)
    """What a text is made of."""

    init: Literal["lecture", "torch"] = "lecture"
    """The first weights."""


class MaxEnt(Config, frozen=True):
    """Hashed n-grams whose weights are added to the output of the net ("RNN + MaxEnt", Mikolov et al. 2011)."""

    order: Size = 9
    """Words of the longest n-gram, the predicted one included."""

    buckets: Size = 1 << 22
    """Weights; n-grams that fall on the same one share it."""


class LmEncoder(Encoder, frozen=True):
    """The recurrent layers over the text."""

    bidirectional: bool = False
    """Must stay false: to read from both ends would be to see the answer."""

    last: Size | None = None
    """Units of the last layer, as for tied vectors; the same as the others where it is not given."""

    output_dropout: Share | None = None
    """Dropout on the output of the last layer; the same as `dropout` where it is not given."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """An encoder that sees the answer."""
        yield from super().conflicts()
        if self.bidirectional:
            yield "bidirectional", "a language model that reads from both ends sees the answer; it must be false"


class Recurrent(Config, frozen=True, tag_field="kind", tag="recurrent"):
    """A net that remembers what it has read (Mikolov et al. 2010)."""

    size: Size = 200
    """Numbers in the vector of a symbol."""

    encoder: LmEncoder = msgspec.field(default_factory=LmEncoder)
    """The recurrent layers."""

    embedding_dropout: Share = 0.0
    """The share of symbols whose vectors are 0 throughout a batch (Gal and Ghahramani 2016)."""

    output: AnyOutput = msgspec.field(default_factory=FullSoftmax)
    """The distribution over the symbols."""

    maxent: MaxEnt | None = None
    """Hashed n-grams beside the net; `none` has none."""

    units: AnyUnits = msgspec.field(default_factory=WordUnits)
    """What a text is made of."""

    init: Literal["lecture", "awd", "torch"] = "torch"
    """The first weights: `awd` is uniform ±0.1 for vectors and ±sqrt(1/hidden) elsewhere."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Tied vectors that are not as wide as what the encoder gives."""
        given = self.encoder.last or self.encoder.hidden
        if self.output.tied and given != self.size:
            yield (
                "output.tied",
                f"the vectors have {self.size} numbers, the encoder gives {given}; set encoder.last = {self.size}",
            )


class LmTrain(Train, frozen=True):
    """How a language model is trained: several places of the text at once, a window of each at a step."""

    batch: Size = 20
    """Places of the text that are read side by side (for a window model: positions in a step, times `bptt`)."""

    bptt: Size = 35
    """Symbols of each place in a step: gradients go back so far, the state goes on."""

    bptt_jitter: bool = False
    """Draw the length of each window anew, as Merity et al. (2018) do; the rate follows the length."""

    ar: NotNegative = 0.0
    """The weight of the squared output of the last layer, dropped out, in the loss."""

    tar: NotNegative = 0.0
    """The weight of the squared change of the last layer's output from one symbol to the next in the loss."""


COUNTED = ("ngram", "snm")
"""Kinds of models that count; they have no ``[train]`` but for the seed."""


class LmRecipe(Config, frozen=True, tag_field="task", tag="lm"):
    """How to make a language model, and the score that comes out."""

    data: Data = msgspec.field(default_factory=Data)
    """The files."""

    model: NGram | SparseNonNegative | Window | Recurrent = msgspec.field(default_factory=Recurrent)
    """Counts or a net, by `kind`: `ngram`, `snm`, `window` or `recurrent`."""

    train: LmTrain = msgspec.field(default_factory=LmTrain)
    """The training; of a model that counts, only `seed` may be set."""

    cites: str | None = None
    """The publication that describes the system."""

    expects: dict[str, float] = msgspec.field(default_factory=dict)
    """The scores that the recipe must reach, by metric."""

    @property
    def task(self) -> str:
        """``lm``."""
        return tag_of(self)

    @property
    def by_gradient(self) -> bool:
        """Whether it is a net that is trained, for which torch is needed."""
        return tag_of(self.model) not in COUNTED

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Columns, sentences in batches, and settings of a training where there is none."""
        for name in sorted(self.data.columns):
            yield f"data.columns.{name}", "a language model reads text, which has no columns"
        if self.train.tokens is not None:
            yield "train.tokens", "a language model reads train.batch places with train.bptt symbols of each; remove it"
        if not self.by_gradient:
            usual = LmTrain()
            for name in self.train.__struct_fields__:
                if name != "seed" and getattr(self.train, name) != getattr(usual, name):
                    yield f"train.{name}", f"a model of kind '{tag_of(self.model)}' counts and has no steps; remove it"
