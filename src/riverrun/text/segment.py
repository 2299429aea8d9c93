"""What the tokeniser's decisions look at: shapes of characters, features of boundaries, sentence ends and joins.

Everything here looks at a bounded window, so that a text of any length takes linear time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence, Set

LETTERS = frozenset("Aaxm")
_LETTERS_AND_DIGITS = LETTERS | {"0"}
_FULL_STOPS = frozenset(".!?…。！？।؟۔")
_CLOSERS = frozenset("\"')]}»”’」』）")
STOPS = _FULL_STOPS | _CLOSERS  # after these a sentence may end in most languages

RULES = {"bias": -150, "rule": 300}
"""The weights of a tokeniser that has learned nothing: it follows the rules. Learning starts from here."""

_WINDOW = 12  # characters on either side of a boundary that its features may see
_RUN = re.compile(r"(.)\1*", re.DOTALL)


class _Shapes(dict[int, str]):
    """Code point -> shape, filled as characters are met; for `str.translate`."""

    def __missing__(self, point: int) -> str:
        character = chr(point)
        category = unicodedata.category(character)
        if category in ("Lu", "Lt"):
            shape = "A"
        elif category == "Ll":
            shape = "a"
        elif category[0] == "L":
            shape = "x"
        elif category[0] == "M" or category == "Cf":
            shape = "m"
        elif category[0] == "N":
            shape = "0"
        elif category in ("So", "Sk"):
            shape = "☺"
        else:
            shape = character
        self[point] = shape
        return shape


_SHAPES = _Shapes()  # follows from Unicode alone: a table that is computed on demand

_PIECE = re.compile(
    r"""
      (?P<url>  [Aa]{2,9}://[^\s<>"]{0,999}[^\s<>".,;:!?'’”)\]}] )
    | (?P<mail> [Aa0x._+-]{1,64}@[Aa0x-]{1,64}(?:\.[Aa0x-]{1,64}){1,9} )
    | (?P<site> [a0-]{1,64}(?:\.[a0-]{0,64}[a0]){0,9}\.[a-]{0,64}a (?:/[^\s<>"]{0,999}[^\s<>".,;:!?'’”)\]}])? )
    | (?P<face> (?<![Aax0])(?:[:;=]['^-]?(?:[()\[\]/\\|*]+|[Aa](?![Aax0m]))|\^[_.-]*\^|<0(?![Aax0])) )
    | (?P<number> 0+(?:[.,:/]0+)* )
    | (?P<acronym> (?:[Aax]m*\.){2,} )
    | (?P<word> [Aaxm0]+(?:['’-][Aaxm0]+)* )
    | (?P<mark> (?P<same>.)m*(?:(?P=same)m*)* )
    """,
    re.VERBOSE | re.DOTALL,
)


def shape(text: str) -> str:
    """Each character's kind: A upper, a lower, x another letter, m a mark, 0 a digit, ☺ a symbol; others themselves.

    >>> shape("Café 7€")
    'Aaaa 0€'
    """
    return text.translate(_SHAPES)


def outline(text: str) -> str:
    """The shape with every run of equal characters made one: what kind of word it is, whatever its length.

    >>> outline("U.S."), outline("Dogs"), outline("11:30")
    ('A.A.', 'Aa', '0:0')
    """
    return "".join(_RUN.findall(text.translate(_SHAPES)))


def pieces(shapes: str) -> list[tuple[int, str]]:
    """Where the words of a chunk begin by rules that hold in most languages, and of what kind each is.

    >>> pieces(shape("(see:don't..."))
    [(0, 'mark'), (1, 'word'), (4, 'mark'), (5, 'word'), (10, 'mark')]
    """
    return [(match.start(), match.lastgroup or "mark") for match in _PIECE.finditer(shapes)]


def alike(before: str, after: str) -> bool:
    """Whether two shapes are both letters, or both digits: seldom does a word begin between them."""
    return before == after == "0" or (before in LETTERS and after in LETTERS)


def boundary_features(chunk: str, inner: Set[str] | None) -> Iterator[tuple[int, list[str]]]:
    """The places inside a chunk where a word may begin, each with its features.

    Between two letters or two digits a word begins only where it begins with two characters that are listed in
    ``inner``, as *n'* of *don't* (None: with any): most places need no second look.
    """
    shapes = shape(chunk)
    lower = chunk.lower()
    if len(lower) != len(chunk):  # a few letters change their length, as İ does
        lower = chunk
    found = pieces(shapes)
    at = 0
    start_of_run = 0
    for i in range(1, len(chunk)):
        before, after = shapes[i - 1], shapes[i]
        same = before == after == "0" or (before in LETTERS and after in LETTERS)
        run = start_of_run
        if not same:
            start_of_run = i
        elif inner is not None and lower[i : i + 2] not in inner:
            continue
        while at + 1 < len(found) and found[at + 1][0] <= i:
            at += 1
        start, kind = found[at]
        features = _boundary(lower, shapes, i, max(run, i - _WINDOW))
        if start == i:
            features += ("rule", f"k{found[at - 1][1]}|{kind}")
        else:
            features.append("k" + kind)
        yield i, features


def _boundary(lower: str, shapes: str, i: int, run: int) -> list[str]:
    after = lower[i : i + _WINDOW]
    left, right = shapes[max(0, i - _WINDOW) : i], shapes[i : i + _WINDOW]
    end = i + 1
    last = min(len(lower), i + _WINDOW)
    digits, letters = shapes[i] == "0", shapes[i] in LETTERS
    while end < last and (shapes[end] == "0" if digits else (shapes[end] in LETTERS) == letters):
        end += 1
    left_word, right_run = lower[run:i], lower[i:end]
    left_outline, right_outline = "".join(_RUN.findall(left)), "".join(_RUN.findall(right))
    return [
        "bias",
        f"1{left[-1]}{right[0]}",
        f"2{left[-2:]}{right[0]}",
        f"3{left[-1]}{right[:2]}",
        f"5{left[-3:]}{right[:3]}",
        f"l{left_word}{right[0]}",
        f"r{left[-1]}{right_run}",
        f"p{lower[max(0, i - 2) : i]}{after[:1]}",
        f"q{lower[max(0, i - 1) : i]}{after[:2]}",
        f"o{left_outline[-4:]} {right_outline[:4]}",
        f"x{left_word} {right_run}",
        f"n{lower[i]}{lower[end : end + 4]}",
    ]


def _ends_by_rule(sentence: Sequence[str], following: str) -> bool:
    """Whether a sentence ends at a full stop, or at a bracket behind it, with no small letter after it."""
    last = sentence[-1]
    if last in _CLOSERS and len(sentence) > 1:
        last = sentence[-2]
    if last[-1] not in _FULL_STOPS or (
        len(sentence) > 1 and last == "." and len(sentence[-2]) == 1 and sentence[-2].isalpha()
    ):
        return False
    return not following[:1].islower()


def end_features(sentence: Sequence[str], following: str) -> list[str]:
    """What speaks for a sentence's end after the words so far and before the word that follows ("" at a line's end)."""
    rule = "rule" if _ends_by_rule(sentence, following) else "no"
    last = sentence[-1]
    before = sentence[-2] if len(sentence) > 1 else ""
    word, previous = last.lower()[:_WINDOW], before.lower()[:_WINDOW]
    kind, next_kind = outline(last[-_WINDOW:]), outline(following[:_WINDOW])
    following = following.lower()[:_WINDOW]
    tail = sentence[-40:]
    quotes = tail.count('"') % 2
    brackets = (tail.count("(") > tail.count(")")) + 2 * (tail.count("[") > tail.count("]"))
    size = min(len(sentence), 4) if len(sentence) < 6 else 6 + (len(sentence) > 11) + (len(sentence) > 25)
    return [
        "bias",
        rule,
        f"w{word}",
        f"k{kind}",
        f"f{following}",
        f"n{next_kind}",
        f"wn{word} {next_kind}",
        f"wf{word[-3:]} {following}",
        f"p{previous} {word}",
        f"s{size} {kind}",
        f"S{size} {kind} {next_kind}",
        f"q{quotes}{brackets} {word[-3:]} {next_kind}",
        f"a{sentence[0][:3]} {kind} {next_kind}",
    ]


def join_features(words: Sequence[str], k: int) -> list[str]:
    """What speaks for one form that holds a space: words k and k + 1 together."""
    a, b = words[k].lower()[:_WINDOW], words[k + 1].lower()[:_WINDOW]
    p = words[k - 1].lower()[:_WINDOW] if k else ""
    n = words[k + 2].lower()[:_WINDOW] if k + 2 < len(words) else ""
    ka, kb = outline(words[k][:_WINDOW]), outline(words[k + 1][:_WINDOW])
    kp = outline(words[k - 1][:_WINDOW]) if k else ""
    kn = outline(words[k + 2][:_WINDOW]) if k + 2 < len(words) else ""
    return [
        "bias",
        f"a{a}",
        f"b{b}",
        f"ab{a} {b}",
        f"k{ka} {kb}",
        f"K{kp} {ka} {kb} {kn}",
        f"pa{p} {a}",
        f"bn{b} {n}",
        f"p{p} {ka}{kb}",
        f"n{n} {ka}{kb}",
        f"ak{a} {kb}",
        f"kb{ka} {b}",
    ]


def joinable(word: str) -> bool:
    """Whether a word may be part of a form that holds a space: letters and digits alone."""
    return _LETTERS_AND_DIGITS.issuperset(word[:_WINDOW].translate(_SHAPES))
