"""Agreement: whether a language model finds the sentence that is right more probable than the one that is wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, get_args

from riverrun.config.struct import tag_of
from riverrun.errors import ConfigError, DataError, nearest
from riverrun.metrics.report import Report, Scores, ratio, signature
from riverrun.text.formats.minimal_pairs import MinimalPair
from riverrun.text.units import AnyUnits

VERSION = 1
UnknownPairs = Literal["excluded", "scored"]
POLICIES: tuple[str, ...] = get_args(UnknownPairs)
_TOGETHER = 256  # pairs whose sentences are scored together


@dataclass
class _Count:
    """Of some pairs, how many were scored, how many of these are right, and how many hold unknown words."""

    pairs: int = 0
    right: int = 0
    unknown: int = 0

    @property
    def scores(self) -> Scores:
        return {"accuracy": ratio(self.right, self.pairs), "pairs": self.pairs, "unknown": self.unknown}


class Agreement:
    """Counts of minimal pairs whose right sentence is more probable as a whole than the wrong one.

    Equally probable is wrong. The probability of a sentence is not divided by its length.

    A pair is unknown where the units do not know a word (or character) in which its sentences differ: the unknown ones
    of both are not the same. A model that reads them as one symbol has nothing to tell the sentences apart by.

    >>> from riverrun.text.units import Bytes
    >>> counts = Agreement(Bytes())
    >>> counts.add(MinimalPair("she runs", "she run", "verb", attractors=0), -9.5, -11.0)
    >>> counts.metrics, sorted(counts.by_type)
    ({'accuracy': 1.0, 'unknown': 0.0}, ['attractors:0', 'verb'])
    >>> counts.signature
    'agreement:sentence|unit:bytes|unknown:excluded|v1'

    Args:
        units: of the model.
        unknown: whether pairs that are unknown are ``excluded`` from the accuracy, or ``scored`` as any other; they are
            counted either way.
    """

    def __init__(self, units: AnyUnits, *, unknown: UnknownPairs = "excluded") -> None:
        if unknown not in POLICIES:
            raise ConfigError(
                f"unknown policy '{unknown}' for pairs with unknown words{nearest(unknown, POLICIES)}; "
                f"known: {', '.join(POLICIES)}"
            )
        self.units, self.unknown = units, unknown
        self._all = _Count()
        self._parts: dict[str, _Count] = {}

    def add(self, pair: MinimalPair, good: float, bad: float) -> None:
        """Count one pair, as the model read it, with the log-probabilities of its two sentences."""
        if math.isnan(good) or math.isnan(bad):
            raise DataError(f"expected log-probabilities, received {good} and {bad} for {pair.good!r} and {pair.bad!r}")
        strange = Counter(self.units.unknowns(pair.good)) != Counter(self.units.unknowns(pair.bad))
        names = [pair.construction]
        if pair.attractors is not None:
            names.append(f"attractors:{pair.attractors}")
        for count in (self._all, *(self._parts.setdefault(name, _Count()) for name in names)):
            count.unknown += strange
            if not strange or self.unknown == "scored":
                count.pairs += 1
                count.right += good > bad

    @property
    def metrics(self) -> dict[str, float]:
        """``accuracy`` of all pairs that were scored, and the share of all pairs that are ``unknown``."""
        count = self._all
        seen = count.pairs + (count.unknown if self.unknown == "excluded" else 0)
        return {"accuracy": ratio(count.right, count.pairs), "unknown": ratio(count.unknown, seen)}

    @property
    def by_type(self) -> dict[str, Scores]:
        """The accuracy of each construction, and by the number of attractors where it is known (``attractors:1``), with
        how many ``pairs`` were scored and how many are ``unknown``."""
        return {name: self._parts[name].scores for name in sorted(self._parts)}

    @property
    def signature(self) -> str:
        """What the numbers depend on."""
        return signature("agreement:sentence", version=VERSION, unit=tag_of(self.units), unknown=self.unknown)

    def report(self, task: str) -> Report:
        """The report on all that was counted; ``n`` is the number of pairs that were scored."""
        return Report(
            task=task, n=self._all.pairs, metrics=self.metrics, signature=self.signature, by_type=self.by_type
        )


def count_agreement(
    pairs: Iterable[MinimalPair],
    score: Callable[[list[str]], Sequence[float]],
    units: AnyUnits,
    *,
    prepare: Callable[[str], str] | None = None,
    unknown: UnknownPairs = "excluded",
) -> Agreement:
    """Score the sentences of all pairs, some at a time.

    Args:
        pairs: to score.
        score: the log-probability of each of several lines, the end of the line included.
        units: of the model.
        prepare: turns a sentence into a line as the model reads it; a model of words needs words between spaces, in
            lower case where it was trained so.
        unknown: as of `Agreement`.
    """
    counts = Agreement(units, unknown=unknown)
    remaining = iter(pairs)
    while group := list(islice(remaining, _TOGETHER)):
        if prepare is not None:
            group = [pair.prepared(prepare) for pair in group]
        values = score([sentence for pair in group for sentence in (pair.good, pair.bad)])
        for pair, good, bad in zip(group, values[::2], values[1::2], strict=True):
            counts.add(pair, float(good), float(bad))
    return counts
