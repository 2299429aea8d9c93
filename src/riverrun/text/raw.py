"""Running text as a treebank's sentences imply it: which tokens stand in it without a space, where sentences end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from riverrun.text.formats.sentence import Sentence

_CLOSING = frozenset(".,;:!?%…)]}»”。，、！？；：）】」』")
_OPENING = frozenset("([{«“„¿¡（【「『")
_APOSTROPHES = "'’"
_CLITICS = frozenset(mark + rest for mark in _APOSTROPHES for rest in ("s", "m", "d", "re", "ll", "ve"))
_NOT = frozenset(("n't", "n’t"))
_CURRENCIES = "$£€¥"
# Thai, Lao, Myanmar, Khmer, kana and Chinese characters with their punctuation: no spaces between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff64\U00020000-\U0003ffff]"
)


class Token(NamedTuple):
    """What stands in the text as one token: its form, its syntactic words, and what follows it."""

    form: str
    words: tuple[str, ...]
    space: bool  # a space follows
    ends: bool  # a sentence ends here


def paragraphs(sentences: Iterable[Sentence], longest: int | None = None) -> Iterator[list[Token]]:
    """The tokens of each paragraph, all in one where the file does not mark any; cut when ``longest`` is reached."""
    tokens: list[Token] = []
    for sentence in sentences:
        if tokens and (sentence.newpar or sentence.newdoc or (longest is not None and len(tokens) >= longest)):
            yield tokens
            tokens = []
        tokens += _tokens(sentence)
    if tokens:
        yield tokens


def _tokens(sentence: Sentence) -> list[Token]:
    forms, words, spaces = [], [], []
    alone, after = sentence.forms, sentence.space_after
    starts = {first - 1: (last, form) for first, last, form, _ in sentence.ranges}
    at = 0
    while at < len(alone):
        end, form = starts.get(at, (at + 1, alone[at]))
        if form and not form.isspace():
            forms.append(form)
            words.append(tuple(alone[at:end]))
            spaces.append(after[end - 1])
        at = end
    if not forms:
        return []
    if (text := sentence.text) is not None and (found := _spaces_in(text, forms)) is not None:
        spaces[:-1] = found
    elif all(spaces):
        spaces = _guessed_spaces(forms)
    last = len(forms) - 1
    return [Token(form, words[k], spaces[k], k == last) for k, form in enumerate(forms)]


def _spaces_in(text: str, forms: list[str]) -> list[bool] | None:
    """Whether a space follows each form but the last in the sentence's text, or None where it holds other forms."""
    spaces = []
    at = 0
    for form in forms:
        start = at
        while at < len(text) and text[at].isspace():
            at += 1
        if not text.startswith(form, at):
            return None
        spaces.append(at > start)
        at += len(form)
    return spaces[1:]


def _guessed_spaces(forms: list[str]) -> list[bool]:
    """Spaces as most scripts set them, for a file that holds forms alone.

    >>> forms = "He said ( `` I do n't see l' Aquila for $ 5 '' ) .".split()
    >>> "".join(form + " " * space for form, space in zip(forms, _guessed_spaces(forms)))
    "He said (``I don't see l'Aquila for $5''). "
    >>> _guessed_spaces(["我", "爱", "你", "。"])
    [False, False, False, False]
    """
    spaces = [not _UNSPACED.fullmatch(form[-1]) for form in forms]
    inside: dict[str, bool] = {}
    for k, form in enumerate(forms):
        opens = form in _OPENING or form == "``"
        closes = form in _CLOSING or form == "''" or form.lower() in _CLITICS or form.lower() in _NOT
        if form in ('"', "'"):
            inside[form] = opens = not inside.get(form, False)
            closes = not opens
        elif form[-1] in _APOSTROPHES and form[:-1].isalpha():
            opens = True
        elif form[-1] in _CURRENCIES and k + 1 < len(forms):
            opens = forms[k + 1][0].isdigit()
        if opens:
            spaces[k] = False
        if k and (closes or _UNSPACED.match(form)):
            spaces[k - 1] = False
    return spaces
