"""Sentences whose tags are known by construction, to see whether a net can remember, look ahead and find spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from riverrun.text.formats.sentence import Sentence
from riverrun.text.tags import convert


def parity(count: int, *, seed: int = 0, longest: int = 12) -> Iterator[Sentence]:
    """Zeros and ones; a word's tag says whether the ones up to it are even or odd in number.

    One bit must be kept over any distance, and no word says it.

    >>> [(s.forms, s.column("tag")) for s in parity(1, longest=4)]
    [(['1', '1', '0', '0'], ['odd', 'even', 'even', 'even'])]
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        bits = random.integers(0, 2, random.integers(1, longest + 1))
        odd = np.cumsum(bits) % 2
        yield _sentence([str(bit) for bit in bits], ["odd" if bit else "even" for bit in odd])


def last_word(count: int, *, seed: int = 0, longest: int = 12) -> Iterator[Sentence]:
    """Words, and at the end ``?`` or ``.``, which all tags say: only a net that reads backwards knows it in time.

    >>> [(s.forms, s.column("tag")) for s in last_word(1, seed=4, longest=4)]
    [(['c', 'c', '?'], ['question', 'question', 'question'])]
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        words = ["abc"[k] for k in random.integers(0, 3, random.integers(0, longest))]
        asks = bool(random.integers(0, 2))
        yield _sentence([*words, "?" if asks else "."], ["question" if asks else "told"] * (len(words) + 1))


def names(count: int, *, seed: int = 0, scheme: str = "iob1") -> Iterator[Sentence]:
    """Names of people and places among other words, side by side too, with the tags of a span scheme.

    A person is ``dr`` and one or two names; a place is a word, or ``new`` and a word. The words of names stand outside
    of names too.

    >>> [(s.forms, s.column("tag")) for s in names(1, seed=2)]
    [(['dr', 'ada', 'york', 'dr', 'eve', 'runs'], ['I-PER', 'I-PER', 'I-LOC', 'I-PER', 'I-PER', 'O'])]
    """
    random = np.random.default_rng(seed)

    def one(choices: str) -> str:
        return str(random.choice(choices.split()))

    parts: list[Callable[[], tuple[list[str], str]]] = [
        lambda: (["dr", *(one("ada eve adam") for _ in range(random.integers(1, 3)))], "PER"),
        lambda: ([one("york bern")] if random.integers(0, 2) else ["new", one("york bern")], "LOC"),
        lambda: ([one("of in past runs eve")], ""),
    ]
    for _ in range(count):
        forms: list[str] = []
        tags: list[str] = []
        for _ in range(random.integers(1, 5)):
            words, kind = parts[random.integers(0, 3)]()
            forms += words
            tags += [f"{'I' if k else 'B'}-{kind}" if kind else "O" for k in range(len(words))]
        yield _sentence(forms, convert(tags, "iob2", scheme))


def _sentence(forms: list[str], tags: list[str]) -> Sentence:
    return Sentence.of({"form": forms, "tag": tags})
