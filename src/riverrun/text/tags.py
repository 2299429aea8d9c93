"""Tag schemes: how tags of words say which words form a span, and of what type.

A tag is ``O`` (outside), or a prefix and a type, ``B-LOC``; a prefix alone is a tag of the type ``""``.

========== ======================================================== ======================
scheme     prefixes                                                 two places, side by side
========== ======================================================== ======================
``iob1``   I; B only where a span follows another of its type       I-LOC B-LOC I-LOC
``iob2``   B at the begin of every span, then I                     B-LOC B-LOC I-LOC
``bioes``  B, I..., E at the end; S for a span of one word          S-LOC B-LOC E-LOC
========== ======================================================== ======================

Sequences that a scheme does not allow are read as conlleval reads them: B and S begin a span; so does any other prefix
behind O, behind a tag of another type, and behind E or S; E and S end one. `spans` with ``strict`` drops such spans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from riverrun.errors import DataError, nearest

Scheme = Literal["iob1", "iob2", "bioes"]

_PREFIXES: dict[str, tuple[str, ...]] = {"iob1": ("B", "I"), "iob2": ("B", "I"), "bioes": ("B", "I", "E", "S")}
_TYPED = re.compile(r"[A-Za-z]-.")
_KNOWN = re.compile(r"[BIES](-.|$)")
_OUTSIDE = ("O", "")


class Span(NamedTuple):
    """The words ``start`` to ``end`` (from 0, the end excluded) are a ``type``."""

    start: int
    end: int
    type: str


_Place = tuple[int, int]  # a sentence and a word of it, counted from 1


class Allowed(NamedTuple):
    """Which of C tags may begin, follow each other and end."""

    transitions: npt.NDArray[np.bool_]
    """(C, C), true where the column may follow the row."""
    start: npt.NDArray[np.bool_]
    """(C,), true where a sequence may begin."""
    stop: npt.NDArray[np.bool_]
    """(C,), true where a sequence may end."""


def are_spans(tags: Iterable[str]) -> bool:
    """Whether tags that occur together stand for spans at all; `recognise` then says of which scheme.

    >>> are_spans(["B-PER", "O"]), are_spans(["B", "I", "O"]), are_spans(["NOUN", "O"])
    (True, True, False)
    """
    inside = set(tags)
    outside = "O" in inside
    inside.discard("O")
    if not inside:
        return False
    if all(map(_KNOWN.match, inside)):
        return True
    return outside and (all(map(_TYPED.match, inside)) or any(tag[:2] in ("B-", "I-") for tag in inside))


def recognise(sequences: Iterable[Sequence[str]], *, where: Callable[[int, int], str] | None = None) -> Scheme | None:
    """The scheme of all these tags; None where they are no spans (parts of speech, nothing but ``O``).

    >>> recognise([["I-PER", "O", "I-LOC", "B-LOC"]]), recognise([["B-PER", "I-PER"]]), recognise([["S-PER", "O"]])
    ('iob1', 'iob2', 'bioes')
    >>> recognise([["NOUN", "VERB"]]) is None
    True

    Args:
        where: how messages call a word, from the numbers of its sentence and of itself, both counted from 1.

    Raises:
        DataError: where tags are spans but of an unknown scheme, or of several at once.
    """
    steps: dict[tuple[str, str], _Place] = {}
    seen: set[str] = set()
    for number, tags in enumerate(sequences, 1):
        seen.update(tags)
        for word, step in enumerate(zip(["O", *tags], [*tags, "O"], strict=True), 1):
            if step not in steps:
                steps[step] = number, min(word, len(tags))
    return _scheme(seen - {"O"}, steps, where) if are_spans(seen) else None


def spans(tags: Sequence[str], scheme: str, *, strict: bool = False) -> list[Span]:
    """The spans of one sequence, in order.

    >>> spans(["B-PER", "I-PER", "O", "I-LOC"], "iob2")
    [Span(start=0, end=2, type='PER'), Span(start=3, end=4, type='LOC')]
    >>> spans(["B-PER", "I-PER", "O", "I-LOC"], "iob2", strict=True)
    [Span(start=0, end=2, type='PER')]
    """
    parts = _parts(tags, scheme)
    found = []
    begin = -1
    before, type_before = _OUTSIDE
    for k, (prefix, type) in enumerate([*parts, _OUTSIDE]):
        goes_on = before in ("B", "I") and prefix in ("I", "E") and type == type_before
        if begin >= 0 and not goes_on:
            found.append(Span(begin, k, type_before))
            begin = -1
        if prefix != "O" and not goes_on:
            begin = k
        before, type_before = prefix, type
    return [span for span in found if _valid(span, parts, scheme)] if strict else found


def convert(tags: Sequence[str], source: str, target: str) -> list[str]:
    """The tags of one sequence in another scheme; the result is valid, what is not is read as conlleval reads it.

    >>> convert(["I-PER", "I-PER", "O", "I-LOC", "B-LOC"], "iob1", "bioes")
    ['B-PER', 'E-PER', 'O', 'S-LOC', 'S-LOC']
    """
    _known(target)
    out = ["O"] * len(tags)
    before: Span | None = None
    for span in spans(tags, source):
        size = span.end - span.start
        prefixes = ["I"] * size
        if target == "bioes":
            prefixes = ["S"] if size == 1 else ["B", *prefixes[2:], "E"]
        elif target == "iob2" or (before and (before.end, before.type) == (span.start, span.type)):
            prefixes[0] = "B"
        out[span.start : span.end] = [f"{prefix}-{span.type}" if span.type else prefix for prefix in prefixes]
        before = span
    return out


def allowed(tags: Sequence[str], scheme: str) -> Allowed:
    """What may follow what among these C tags, so that every sequence is valid in the scheme.

    >>> table = allowed(["O", "B-PER", "I-PER", "I-LOC"], "iob2")
    >>> table.transitions[1].tolist(), table.start.tolist(), table.stop.tolist()
    ([True, True, True, False], [True, True, False, False], [True, True, True, True])
    """
    parts = _parts(tags, scheme)
    ends = _OUTSIDE
    return Allowed(
        np.array([[_may_follow(a, b, scheme) for b in parts] for a in parts], bool).reshape(len(parts), len(parts)),
        np.array([_may_follow(ends, b, scheme) for b in parts], bool),
        np.array([_may_follow(a, ends, scheme) for a in parts], bool),
    )


def _may_follow(before: tuple[str, str], tag: tuple[str, str], scheme: str) -> bool:
    (first, first_type), (second, second_type) = before, tag
    same = first != "O" and first_type == second_type
    if scheme == "bioes":
        return second in ("I", "E") and same if first in ("B", "I") else second in ("O", "B", "S")
    return second != ("I" if scheme == "iob2" else "B") or same


def _valid(span: Span, parts: Sequence[tuple[str, str]], scheme: str) -> bool:
    """Whether a span that was found is one that the scheme allows."""
    if scheme == "bioes":
        prefixes = "".join(prefix for prefix, _ in parts[span.start : span.end])
        return prefixes == "S" or (prefixes[0] == "B" and prefixes[-1] == "E")
    return _may_follow(parts[span.start - 1] if span.start else _OUTSIDE, parts[span.start], scheme)


def _parts(tags: Sequence[str], scheme: str) -> list[tuple[str, str]]:
    """(prefix, type) of each tag."""
    prefixes = _known(scheme)
    parts = []
    for k, tag in enumerate(tags):
        if tag == "O":
            parts.append(_OUTSIDE)
        elif tag[:1] in prefixes and (len(tag) == 1 or (len(tag) > 2 and tag[1] == "-")):
            parts.append((tag[0], tag[2:]))
        else:
            raise DataError(
                f"tag {k + 1}, '{tag}', is none of the scheme {scheme}; expected O, or one of {', '.join(prefixes)} "
                "with a type, as in B-LOC"
            )
    return parts


def _known(scheme: str) -> tuple[str, ...]:
    """The prefixes of a scheme."""
    if scheme not in _PREFIXES:
        raise DataError(f"unknown tag scheme '{scheme}'{nearest(scheme, _PREFIXES)}; known: {', '.join(_PREFIXES)}")
    return _PREFIXES[scheme]


def _scheme(
    inside: set[str], steps: Mapping[tuple[str, str], _Place], where: Callable[[int, int], str] | None
) -> Scheme:
    """The scheme of tags that follow each other so: (tag, next tag) -> where it was seen first."""
    name = where or (lambda sentence, word: f"word {word} of sentence {sentence}")

    def head(place: _Place) -> str:
        return f"{where(*place)}: " if where else ""

    kinds = sorted({tag[:1] for tag in inside} - {""})
    for (_, tag), place in steps.items():
        if tag != "O" and not _KNOWN.match(tag):
            raise DataError(
                f"{head(place)}tags of no known scheme: they begin with {', '.join(kinds)}, as '{tag}' does "
                f"({name(*place)}); expected O, or B, I, E or S with a type, as in B-LOC: iob1, iob2 or bioes (in "
                "BILOU's tags write E for L and S for U)"
            )
    candidates: tuple[Scheme, ...] = ("bioes",) if {"E", "S"} & set(kinds) else ("iob1", "iob2")
    broken: dict[str, _Place] = {}
    for scheme in candidates:
        wrong = [step for step in steps if not _may_follow(_split(step[0]), _split(step[1]), scheme)]
        if not wrong:
            return scheme
        place = steps[wrong[0]]  # where it was first
        broken[f"not {scheme}, because '{wrong[0][1]}' follows '{wrong[0][0]}' ({name(*place)})"] = place
    raise DataError(
        f"{head(max(broken.values()))}tags that mix schemes, or break one: they begin with {', '.join(kinds)}, and are "
        f"{'; '.join(broken)}. O stands here for the begin and the end of a sentence too"
    )


def _split(tag: str) -> tuple[str, str]:
    return tag[:1], tag[2:]
