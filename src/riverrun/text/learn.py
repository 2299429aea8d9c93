"""What the tokeniser learns from sentences: yes-or-no decisions, and lists of what is worth a decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from riverrun.text.logistic import Example, Weights, fit
from riverrun.text.raw import Token, paragraphs
from riverrun.text.segment import (
    LETTERS,
    RULES,
    STOPS,
    alike,
    boundary_features,
    end_features,
    join_features,
    joinable,
    shape,
)

if TYPE_CHECKING:
    from riverrun.text.formats.sentence import Sentence

_TOKENS = 500_000  # read at most, so that a corpus of any size takes bounded memory and about a minute
_CONTRACTIONS = 2000  # the most frequent are kept
_JOINS = 200_000  # places between words that joining is learned from
_JOIN_FEATURES = 10_000  # a lexicon, more or less: which syllables are words together

_Text = list[Token]
_Chunk = tuple[str, tuple[int, ...]]  # text without spaces, and where words begin in it after its start


class Ends(NamedTuple):
    """How sentences end: see the fields of `Tokenizer`."""

    stops: list[str]
    gaps: list[str]
    glued: list[str]
    weights: Weights


def texts(sentences: Iterable[Sentence]) -> list[_Text]:
    """The paragraphs to learn from; where every sentence is a paragraph of its own, all are one, in their order."""
    found: list[_Text] = []
    size = 0
    for paragraph in paragraphs(sentences, _TOKENS):
        found.append(paragraph)
        size += len(paragraph)
        if size >= _TOKENS:
            break
    ends = sum(token.ends for text in found for token in text)
    return found if ends > 1.1 * len(found) else [[token for text in found for token in text]]


def contractions(texts: list[_Text]) -> dict[str, tuple[str, ...]]:
    """Lower-cased forms whose words cannot be found by cutting: those with other letters (*du*: *de le*), or without
    any mark between (*cannot*). A form that is one word as often stays one; so does a typo that was met once."""
    forms: Counter[str] = Counter()
    cuts: dict[str, Counter[tuple[str, ...]]] = {}
    for text in texts:
        for form, words, _, _ in text:
            lower = form.lower()
            forms[lower] += 1
            if len(words) > 1 and ("".join(words) != form or form.isalpha()):
                cuts.setdefault(lower, Counter())[tuple(word.lower() for word in words)] += 1
    found: dict[str, tuple[str, ...]] = {}
    for form in sorted(cuts, key=lambda form: (-forms[form], form)):
        words, count = min(cuts[form].items(), key=lambda item: (-item[1], item[0]))
        if 2 * count > forms[form] and (count > 1 or "".join(words) != form):
            found[form] = words
    return dict(list(found.items())[:_CONTRACTIONS])


def chunks(texts: list[_Text], contractions: dict[str, tuple[str, ...]]) -> Counter[_Chunk]:
    """How often each stretch of text between two spaces was met, with the places where it is cut."""
    counts: Counter[_Chunk] = Counter()
    for text in texts:
        for chunk in _chunks(text, contractions):
            counts[chunk] += 1
    return counts


def _chunks(text: _Text, contractions: dict[str, tuple[str, ...]]) -> Iterator[_Chunk]:
    chunk = ""
    starts: list[int] = []
    for token in text:
        for k, stretch in enumerate(token.form.split()):
            if k:  # the form holds a space
                yield chunk, tuple(starts)
                chunk, starts = "", []
            cuttable = "".join(token.words) == stretch and stretch.lower() not in contractions
            for part in token.words if cuttable else (stretch,):
                if chunk:
                    starts.append(len(chunk))
                chunk += part
        if token.space and chunk:
            yield chunk, tuple(starts)
            chunk, starts = "", []
    if chunk:
        yield chunk, tuple(starts)


def unspaced(chunks: Counter[_Chunk]) -> bool:
    """Whether words of letters stand side by side, as in Chinese: one pair of letters in 50 is such a border."""
    pairs = borders = 0
    for (text, starts), count in chunks.items():
        shapes = shape(text)
        pairs += count * sum(alike(before, after) for before, after in pairwise(shapes))
        words = [LETTERS.issuperset(shapes[a:b]) for a, b in pairwise((0, *starts, len(text)))]
        borders += count * sum(left and right for left, right in pairwise(words))
    return borders > 0.02 * pairs


def inner_starts(chunks: Counter[_Chunk]) -> list[str]:
    """The lower-cased two characters that words begin with which begin between two letters, or two digits."""
    found = set()
    for text, starts in chunks:
        lower = text.lower()
        if not text.isalpha() and len(lower) == len(text):
            shapes = shape(text)
            found |= {lower[k : k + 2] for k in starts if alike(shapes[k - 1], shapes[k])}
    return sorted(found)


def boundaries(chunks: Counter[_Chunk], inner: frozenset[str] | None) -> Weights:
    """When a word begins at a place inside a chunk."""

    def examples() -> Iterator[Example]:
        for (text, starts), count in chunks.items():
            if inner is None or not text.isalpha():
                cuts = set(starts)
                for k, features in boundary_features(text, inner):
                    yield features, k in cuts, count

    return fit(examples(), prior=RULES)


def clitics(texts: list[_Text], contractions: dict[str, tuple[str, ...]]) -> list[str]:
    """Lower-cased words that are more often a later part of a multiword token than a token of their own, set close."""
    inside: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    for text in texts:
        glued = False
        for form, words, space, _ in text:
            if glued:
                outside[words[0].lower()] += 1
            if "".join(words) == form and form.lower() not in contractions:
                inside.update(word.lower() for word in words[1:])
            glued = not space
    return sorted(word for word, count in inside.items() if count > max(1, outside[word]))


def ends(texts: list[_Text]) -> Ends:
    """After which characters a sentence may end, and when it does."""
    pairs: tuple[Counter[str], Counter[str]] = Counter(), Counter()  # without, with a space between
    endings: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for text in texts:
        for token, following in pairwise(text):
            pair = shape(token.form[-1] + following.form[0])
            pairs[token.space][pair] += 1
            endings[token.space][pair] += token.ends
    last: Counter[str] = Counter()
    last_ends: Counter[str] = Counter()
    for pair, count in pairs[True].items():
        last[pair[0]] += count
        last_ends[pair[0]] += endings[True][pair]
    stops = STOPS | {mark for mark, n in last_ends.items() if n > 1 and n > 0.02 * last[mark] and not alike(mark, mark)}
    gaps, glued = (
        {pair for pair, n in endings[space].items() if n > 1 and n >= share * pairs[space][pair]}
        for space, share in ((True, 0.01), (False, 0.02))
    )
    gaps = {pair for pair in gaps if pair[0] not in stops}

    def examples() -> Iterator[Example]:
        for text in texts:
            sentence: list[str] = []
            for token, following in pairwise(text):
                sentence += token.words
                pair = shape(token.form[-1] + following.form[0])
                if (pair[0] in stops or pair in gaps) if token.space else pair in glued:
                    yield end_features(sentence, following.words[0]), token.ends, 1
                    if token.space:  # a line may end here
                        yield end_features(sentence, ""), token.ends, 1
                if token.ends:
                    sentence = []

    return Ends(sorted(stops), sorted(gaps), sorted(glued), fit(examples(), prior=RULES))


def joins(texts: list[_Text]) -> Weights:
    """When two words are one form that holds a space; nothing where such forms are rarer than one in 200."""
    spaced = sum(" " in word for text in texts for token in text for word in token.words)
    if spaced < 0.005 * sum(map(len, texts)):
        return {}

    def examples() -> Iterator[Example]:
        left = _JOINS
        for text in texts:
            words: list[str] = []
            inside: list[bool] = []
            for token in text:
                for word in token.words:
                    parts = word.split() or [word]
                    words += parts
                    inside += [True] * (len(parts) - 1) + [False]
                if token.ends and left > 0:
                    can = [joinable(word) for word in words]
                    for k in range(len(words) - 1):
                        if can[k] and can[k + 1]:
                            yield join_features(words, k), inside[k], 1
                            left -= 1
                    words, inside = [], []

    return fit(examples(), limit=_JOIN_FEATURES)
