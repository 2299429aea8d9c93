"""Raw text -> sentences of syntactic words, by decisions that are learned from the file that a model is trained on."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from riverrun.text import learn
from riverrun.text.logistic import Weights, score
from riverrun.text.segment import RULES, STOPS, boundary_features, end_features, join_features, joinable, shape

if TYPE_CHECKING:
    from riverrun.text.formats.sentence import Sentence

_LONGEST = 1000  # words; a text that never ends a sentence is cut here
_PART = 1 << 16  # characters of a line that are looked at together
_CACHED = 1 << 16  # distinct chunks whose words are remembered
_CACHED_LENGTH = 40  # characters of the longest such chunk
_SPACE = re.compile(r"\s")
_CHUNK = re.compile(r"\S+")


class Surface(NamedTuple):
    """A token as it stands in the text: ``text[start:end]``, and its syntactic words."""

    start: int
    end: int
    words: tuple[str, ...]


class _Chunk(NamedTuple):
    """What is remembered of a stretch of text without spaces."""

    words: tuple[str, ...]
    first: str  # shape of the first character
    last: str
    inner: tuple[tuple[int, bool], ...]  # before which words a sentence may end, and whether it must


class _Known(NamedTuple):
    """The tokeniser's lists as sets, and the chunks of text that it has met."""

    inner: frozenset[str] | None
    clitics: frozenset[str]
    stops: frozenset[str]
    gaps: frozenset[str]
    glued: frozenset[str]
    seen: dict[str, _Chunk]


class Tokenizer(msgspec.Struct, frozen=True, dict=True, tag="words", tag_field="kind"):
    """Cuts text into sentences of syntactic words, as the sentences are cut that it has learned from.

    A chunk of text without spaces is cut where a logistic regression says so (*bark.* -> *bark .*, *don't* -> *do n't*)
    or where a list of contractions does (*du* -> *de le*); words are joined again where the training sentences have
    words that hold spaces; between words, another regression says where sentences end. `msgspec.json` stores it.

    Untrained, it goes by rules that hold in most languages that set spaces.

    >>> Tokenizer().split("Dogs bark (at 11:30). Why?")
    [['Dogs', 'bark', '(', 'at', '11:30', ')', '.'], ['Why', '?']]

    Attributes:
        boundaries: when a word begins inside a chunk.
        inner: what words begin with that may begin between two letters (None: anything, as in Chinese).
        contractions: lower-cased form -> its words, for those that are not found by cutting.
        clitics: words that belong to the token before them when no space is between.
        ends: when a sentence ends.
        stops: shapes of characters after which one may end, if a space follows.
        gaps: pairs of shapes, with a space between, where it may also end.
        glued: such pairs without a space.
        joins: when two words are one word that holds a space.
    """

    boundaries: Weights = msgspec.field(default_factory=RULES.copy)
    inner: tuple[str, ...] | None = ()
    contractions: dict[str, tuple[str, ...]] = {}
    clitics: tuple[str, ...] = ()
    ends: Weights = msgspec.field(default_factory=RULES.copy)
    stops: tuple[str, ...] = tuple(sorted(STOPS))
    gaps: tuple[str, ...] = ()
    glued: tuple[str, ...] = ()
    joins: Weights = {}

    def __post_init__(self) -> None:
        # What follows from the fields, or is remembered of the text: neither compared nor stored.
        inner = None if self.inner is None else frozenset(self.inner)
        clitics, stops, gaps, glued = map(frozenset, (self.clitics, self.stops, self.gaps, self.glued))
        self.__dict__["known"] = _Known(inner, clitics, stops, gaps, glued, seen={})

    @property
    def _known(self) -> _Known:
        return self.__dict__["known"]  # type: ignore[no-any-return]  # a struct's dict is untyped

    @staticmethod
    def learn(sentences: Iterable[Sentence]) -> Tokenizer:
        """The tokeniser that cuts running text as these sentences are cut; equal sentences give an equal one.

        It learns from the first 500 000 tokens and reads no further. Where spaces stand is said by CoNLL-U's ``# text``
        and ``SpaceAfter=No``; for a file of columns alone they are guessed as most scripts set them (no space before a
        comma, after an opening bracket, before *n't*), so that punctuation and sentence ends are learned all the same.
        What too few sentences leave open stays with the rules of the untrained tokeniser.
        """
        texts = learn.texts(sentences)
        contractions = learn.contractions(texts)
        chunks = learn.chunks(texts, contractions)
        unspaced = learn.unspaced(chunks)
        inner = learn.inner_starts(chunks)
        ends = learn.ends(texts)
        return Tokenizer(
            boundaries=learn.boundaries(chunks, None if unspaced else frozenset(inner)),
            inner=None if unspaced else tuple(inner),
            contractions=contractions,
            clitics=tuple(learn.clitics(texts, contractions)),
            ends=ends.weights,
            stops=tuple(ends.stops),
            gaps=tuple(ends.gaps),
            glued=tuple(ends.glued),
            joins=learn.joins(texts),
        )

    def split(self, text: str) -> list[list[str]]:
        """The text's sentences, each a list of syntactic words; what it ends with is a sentence, finished or not."""
        return list(self.sentences([text]))

    def sentences(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The sentences of lines of text, each as soon as its end is known.

        Lines may have their ends or not; one item may hold several lines that have theirs. A blank line ends a
        paragraph and its last sentence. Else a sentence may run over line breaks; whether it ends at one is decided by
        what stands before it alone, so that a finished sentence does not wait for the next line. To answer each line at
        once, as a terminal must, call `split` for each. A sentence has at most 1000 words. Memory holds one line, one
        sentence, and the words of the last chunks met, at most 65 536.
        """
        for sentence in self._sentences(lines):
            yield self._joined(sentence)

    def tokens(self, text: str) -> list[list[Surface]]:
        """The text's sentences as tokens with their places in the text; their words are those of `split`."""
        found = chain.from_iterable(self._cut(match.group(), match.start()) for match in _CHUNK.finditer(text))
        return [self._merged(sentence, found) for sentence in self._sentences([text])]

    def _sentences(self, lines: Iterable[str]) -> Iterator[list[str]]:
        sentence: list[str] = []
        for item in lines:
            for line in item.removesuffix("\n").split("\n"):
                if not line or line.isspace():
                    if sentence:
                        yield sentence
                    sentence = []
                else:
                    sentence = yield from self._read(line, sentence)
        if sentence:
            yield sentence

    def _read(self, line: str, sentence: list[str]) -> Generator[list[str], None, list[str]]:
        """Reads a line into the open sentence, gives the sentences that end in it, returns the one still open."""
        known = self._known
        stops, gaps, seen = known.stops, known.gaps, known.seen
        last = ""
        for part in _parts(line):
            for text in part.split():
                words, first, end, inner = seen.get(text) or self._chunk(text)
                if sentence and (
                    ((last in stops or last + first in gaps) and self._ends(sentence, words[0]))
                    or len(sentence) + len(words) > _LONGEST
                ):
                    yield sentence
                    sentence = []
                if inner:
                    done = 0
                    for k, must in inner:
                        sentence += words[done:k]
                        done = k
                        if must or self._ends(sentence, words[k]):
                            yield sentence
                            sentence = []
                    sentence += words[done:]
                else:
                    sentence += words
                last = end
        if sentence and last in stops and self._ends(sentence, ""):
            yield sentence
            sentence = []
        return sentence

    def _chunk(self, text: str) -> _Chunk:
        known = self._known
        if known.inner is not None and text.isalpha() and text.lower() not in self.contractions:
            return self._remember(text, _Chunk((text,), shape(text[0]), shape(text[-1]), ()))
        tokens = list(self._cut(text, 0))
        words = tuple(chain.from_iterable(token.words for token in tokens))
        inner = []
        k = begun = 0
        for token, following in pairwise(tokens):
            k += len(token.words)
            must = k + len(following.words) - begun > _LONGEST
            if must or shape(text[token.end - 1] + text[following.start]) in known.glued:
                inner.append((k, must))
                begun = k if must else begun
        return self._remember(text, _Chunk(words, shape(text[0]), shape(text[-1]), tuple(inner)))

    def _remember(self, text: str, chunk: _Chunk) -> _Chunk:
        if len(text) <= _CACHED_LENGTH:
            seen = self._known.seen
            if len(seen) >= _CACHED:
                seen.clear()
            seen[text] = chunk
        return chunk

    def _cut(self, text: str, offset: int) -> Iterator[Surface]:
        clitics = self._known.clitics
        starts = [0, *self._boundaries(text), len(text)]
        k = 0
        while k < len(starts) - 1:
            stop = k + 1
            while stop < len(starts) - 1 and text[starts[stop] : starts[stop + 1]].lower() in clitics:
                stop += 1
            start, end = starts[k], starts[stop]
            words = self._contraction(text[start:end]) or tuple(text[a:b] for a, b in pairwise(starts[k : stop + 1]))
            yield Surface(offset + start, offset + end, words)
            k = stop

    def _boundaries(self, text: str) -> list[int]:
        inner, weights = self._known.inner, self.boundaries
        if inner is not None and text.isalpha():
            return []
        return [k for k, features in boundary_features(text, inner) if score(weights, features) > 0]

    def _contraction(self, form: str) -> tuple[str, ...] | None:
        lower = form.lower()
        words = self.contractions.get(lower)
        if words is None or len(lower) != len(form):
            return None
        if "".join(words) == lower:
            cuts = [0]
            for word in words:
                cuts.append(cuts[-1] + len(word))
            return tuple(form[a:b] for a, b in pairwise(cuts))
        if form.isupper() and len(form) > 1:
            return tuple(word.upper() for word in words)
        if form[0].isupper():
            return (words[0][:1].upper() + words[0][1:], *words[1:])
        return words

    def _ends(self, sentence: Sequence[str], following: str) -> bool:
        return score(self.ends, end_features(sentence, following)) > 0

    def _joined(self, sentence: list[str]) -> list[str]:
        if not self.joins:
            return sentence
        joined = [sentence[0]]
        for word, together in zip(sentence[1:], self._together(sentence), strict=True):
            if together:
                joined[-1] += " " + word
            else:
                joined.append(word)
        return joined

    def _together(self, words: Sequence[str]) -> Iterator[bool]:
        can = [joinable(word) for word in words]
        for k in range(len(words) - 1):
            yield can[k] and can[k + 1] and score(self.joins, join_features(words, k)) > 0

    def _merged(self, sentence: list[str], found: Iterator[Surface]) -> list[Surface]:
        """The sentence's tokens, taken from all, with those made one whose words are joined."""
        tokens: list[Surface] = []
        count = 0
        while count < len(sentence):
            tokens.append(next(found))
            count += len(tokens[-1].words)
        if not self.joins:
            return tokens
        together = [False, *self._together(sentence)]
        merged: list[Surface] = []
        k = 0
        for token in tokens:
            words: list[str] = []
            for word in token.words:
                if together[k] and words:
                    words[-1] += " " + word
                elif together[k]:
                    before = merged.pop()
                    token = Surface(before.start, token.end, ())
                    words = [*before.words[:-1], before.words[-1] + " " + word]
                else:
                    words.append(word)
                k += 1
            merged.append(Surface(token.start, token.end, tuple(words)))
        return merged


def _parts(line: str) -> Iterator[str]:
    """A long line in parts that end before a space, so that its chunks are never all in memory."""
    start = 0
    while start < len(line):
        space = _SPACE.search(line, start + _PART)
        end = space.start() if space else len(line)
        yield line[start:end]
        start = end
