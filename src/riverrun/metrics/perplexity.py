"""Perplexity and bits: how well a language model predicts a text, and by what the number is divided.

Numbers of two models can be compared where they are about the same text, divided by the same, with the same treatment
of what the models do not know. So the signature says all three, and `comparable` refuses the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np

from riverrun.config.struct import tag_of
from riverrun.errors import ConfigError, DataError, nearest
from riverrun.metrics.report import Report, signature
from riverrun.text.units import SPACE, START, AnyUnits, Words, gathered, split_words
from riverrun.text.utf8 import utf8

VERSION = 1
Unknown = Literal["scored", "excluded", "charged"]
POLICIES: tuple[str, ...] = get_args(Unknown)
_SPELLING = math.log(257)  # of each byte of an unknown word, and of its end: 256 bytes and the end, all alike


class Perplexity:
    r"""Sums of log-probabilities, and counts of what they are divided by.

    With L the sum of the natural logarithms of all symbols' probabilities:

    - ``perplexity`` is exp(-L / symbols), where the end of a line of words is a symbol;
    - ``word_perplexity`` is exp(-L / (words + lines)), words between white space, whatever the units are: each line
      counts for one more, its end, as it does in published perplexities of words;
    - ``bits_per_char`` and ``bits_per_byte`` are -L / (log(2) characters) and -L / (log(2) bytes of UTF-8), line
      breaks included;
    - ``unknown`` is the share of the symbols that were not known.

    Words, lines, characters and bytes are counted on the text as it stands in the file, a last line without a line
    break as if it had one. Unknown symbols are

    - ``scored`` with the probability of the one symbol that stands for all of them, which flatters the model;
    - ``excluded``: neither their probability nor they themselves (as symbols, words, characters, bytes) are counted;
    - ``charged``: they are scored, and cost their spelling too, log 257 for each byte and for their end, which is a
      probability of each unknown word again.

    >>> from riverrun.text.units import Bytes
    >>> scores = Perplexity(Bytes(), context="carried")
    >>> scores.add(np.log([0.5, 0.5, 0.25, 0.25]), Bytes().ids("a b\n"))
    >>> scores.read(["a b\n"])
    >>> scores.metrics["word_perplexity"], scores.metrics["bits_per_char"]
    (4.0, 1.5)
    >>> scores.signature
    'perplexity:bytes|per:words+lines|unknown:none|context:carried|vocabulary:256|v1'

    Args:
        units: of the model.
        context: what a symbol was predicted from: all that stands before it (``carried``), what stands before it in
            its line (``line``), or so many symbols (``window:4``).
        unknown: ``scored``, ``excluded`` or ``charged``.
        normalised: False where the scores are no probabilities, as those of stupid backoff.
    """

    def __init__(
        self,
        units: AnyUnits,
        *,
        context: str,
        unknown: Unknown = "scored",
        normalised: bool = True,
    ) -> None:
        if unknown not in POLICIES:
            raise ConfigError(
                f"unknown policy '{unknown}' for unknown symbols{nearest(unknown, POLICIES)}; "
                f"known: {', '.join(POLICIES)}"
            )
        self.units, self.context, self.unknown, self.normalised = units, context, unknown, normalised
        self.symbols = self.unknowns = self.words = self.lines = self.characters = self.bytes = 0
        self._sum = 0.0
        self._known_sum = 0.0
        self._met: list[int] = [0, 0]  # characters and bytes of the unknown symbols
        self._missed = 0  # unknown symbols in the text that was read

    def add(self, log_probs: Any, ids: Any) -> None:
        """Count symbols (n,) with the natural logarithms of their probabilities (n,)."""
        values, symbols = np.asarray(log_probs, np.float64), np.asarray(ids)
        if values.shape != symbols.shape:
            raise DataError(f"expected a log-probability for each symbol, received {values.shape} for {symbols.shape}")
        if not (values <= 1e-6).all():  # not a number, neither; single precision may be a little above 0
            wrong = values[~(values <= 1e-6)][0]
            raise DataError(f"expected natural logarithms of probabilities, 0 at most, received {wrong}")
        strange = symbols == self.units.unknown if self.units.unknown is not None else np.zeros(values.shape, bool)
        self.symbols += values.size
        self.unknowns += int(strange.sum())
        self._sum += float(values.sum())
        self._known_sum += float(values[~strange].sum())

    def read(self, blocks: Iterable[str]) -> None:
        """Count the text whose symbols were added: whole lines, in blocks that are cut anywhere.

        Args:
            blocks: of text with its line breaks; where the last line has none, it counts as if it had.
        """
        last = "\n"
        for text in gathered(blocks, SPACE):
            self._count(text)
            last = text[-1]
        if last != "\n":
            self._count("\n")

    def _count(self, text: str) -> None:
        self.words += len(split_words(text))
        self.lines += text.count("\n")
        self.characters += len(text)
        self.bytes += len(utf8(text))
        strange = self.units.unknowns(text)
        self._missed += len(strange)
        self._met[0] += sum(map(len, strange))
        self._met[1] += sum(len(utf8(symbol)) for symbol in strange)

    @property
    def total(self) -> float:
        """The sum of the natural logarithms, by the policy for what is unknown."""
        if self.unknown == "excluded":
            return self._known_sum
        if self.unknown == "charged":
            return self._sum - _SPELLING * (self._met[1] + self._missed)
        return self._sum

    @property
    def metrics(self) -> dict[str, float]:
        """Perplexities and bits; infinite, which JSON writes as null, where a symbol has probability 0."""
        left_out = self.unknowns if self.unknown == "excluded" else 0
        if self.symbols == left_out or not self.lines:
            raise DataError(
                f"no text was scored, which has no perplexity; expected a line with something known, received "
                f"{self.lines} lines and {self.symbols} symbols, {left_out} of them unknown and excluded"
            )
        if self.unknowns != self._missed:
            raise DataError(
                f"the symbols that were scored hold {self.unknowns} unknown ones and the text {self._missed}; expected "
                "the symbols of this text"
            )
        characters, size = self._met if left_out else (0, 0)
        words = left_out if isinstance(self.units, Words) else 0
        bits = -self.total / math.log(2)
        return {
            "perplexity": _exp(-self.total / (self.symbols - left_out)),
            "word_perplexity": _exp(-self.total / (self.words + self.lines - words)),
            "bits_per_char": bits / (self.characters - characters),
            "bits_per_byte": bits / (self.bytes - size),
            "unknown": self.unknowns / self.symbols,
        }

    @property
    def _predicted(self) -> int:
        """How many symbols a model may predict: ``<s>`` is not one of them."""
        return self.units.size - (isinstance(self.units, Words) and self.units.bos_symbol == START)

    @property
    def signature(self) -> str:
        """What the numbers depend on; ``unknown`` is ``none`` where nothing was unknown."""
        more = {} if self.normalised else {"scores": "unnormalised"}
        if isinstance(self.units, Words) and self.units.lower:
            more["case"] = "lower"
        return signature(
            f"perplexity:{tag_of(self.units)}",
            version=VERSION,
            per="words+lines",
            unknown=self.unknown if self.unknowns else "none",
            context=self.context,
            vocabulary=str(self._predicted),
            **more,
        )

    def report(self, task: str) -> Report:
        """The report on all that was counted; ``n`` is the number of symbols that were scored."""
        return Report(task=task, n=self.symbols, metrics=self.metrics, signature=self.signature)


def comparable(first: Report, second: Report, *, metric: str = "perplexity") -> None:
    """Raise a ConfigError, with the parts of the signatures that differ, where a metric of two reports on the same text
    cannot be compared.

    Perplexities of symbols need the same units and vocabulary. The others are divided by the text alone; they need the
    same treatment of what is unknown, where nothing unknown is as good as an unknown word that is charged. How much
    context a model was given is part of what is compared.

    Args:
        first: of a model.
        second: of another one.
        metric: ``perplexity``, ``word_perplexity``, ``bits_per_char`` or ``bits_per_byte``.

    >>> first = Report(task="lm", n=1, metrics={}, signature="perplexity:words|unknown:scored|v1")
    >>> second = Report(task="lm", n=1, metrics={}, signature="perplexity:chars|unknown:none|v1")
    >>> comparable(first, second, metric="bits_per_char")
    Traceback (most recent call last):
    ...
    riverrun.errors.ConfigError: bits_per_char cannot be compared: unknown is scored in one report and none in the other
    """
    parts = [_parts(report.signature) for report in (first, second)]
    apart = []
    for name in dict.fromkeys([*parts[0], *parts[1]]):
        values = [found.get(name, "none") for found in parts]
        if metric != "perplexity":
            if name in ("unit", "vocabulary"):
                continue
            values = ["none" if (name, value) == ("unknown", "charged") else value for value in values]
        if name != "context" and values[0] != values[1]:
            apart.append(f"{name} is {values[0]} in one report and {values[1]} in the other")
    if metric == "perplexity" and not apart and first.n != second.n:
        apart = [f"one text has {first.n} symbols, the other {second.n}"]
    if apart:
        raise ConfigError(f"{metric} cannot be compared: {', '.join(apart)}")


def _parts(text: str) -> dict[str, str]:
    """The parts of a signature by name."""
    metric, *settings, version = text.split("|")
    name, _, unit = metric.partition(":")
    return {"metric": name, "unit": unit, "version": version, **dict(part.split(":", 1) for part in settings)}


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf  # what is above does not fit a double
