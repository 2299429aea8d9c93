"""Byte-pair encoding against the definition, written out, and against another implementation."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.text import bpe
from riverrun.text.bpe import Bpe, Pair, learn_merges, stretches

# Few letters, so that pairs repeat and overlap; space, line break, digits, marks, and characters of several bytes.
TEXTS = st.text(st.sampled_from("aaaabbbc  \n1.é😀\0\u00a0"), max_size=120)


def learned_by_counting_anew(words: Counter[str], size: int) -> list[Pair]:
    """The definition: count all pairs, merge the most frequent one, begin again."""
    cut = {word: [bytes([byte]) for byte in word.encode()] for word in words}
    pieces = [bytes([byte]) for byte in range(256)]
    merges: list[Pair] = []
    while len(pieces) < size:
        counts: Counter[Pair] = Counter()
        for word, parts in cut.items():
            for left, right in pairwise(parts):
                counts[pieces.index(left), pieces.index(right)] += words[word]
        best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if best is None or counts[best] < 2:
            break
        merges.append(best)
        left, right = pieces[best[0]], pieces[best[1]]
        pieces.append(left + right)
        for parts in cut.values():
            k = 0
            while k < len(parts) - 1:
                if (parts[k], parts[k + 1]) == (left, right):
                    parts[k : k + 2] = [left + right]
                k += 1
    return merges


def encoded_merge_by_merge(stretch: str, merges: list[Pair]) -> list[int]:
    """The definition: each merge in its order, wherever it is possible, from the left."""
    ids = list(stretch.encode())
    for new, pair in enumerate(merges, 256):
        k = 0
        while k < len(ids) - 1:
            if (ids[k], ids[k + 1]) == pair:
                ids[k : k + 2] = [new]
            k += 1
    return ids


@given(text=TEXTS, size=st.integers(256, 290))
def test_what_is_learned_is_the_definition(text: str, size: int) -> None:
    counts = Counter(stretch for part in stretches([text]) for stretch in part)
    expected = learned_by_counting_anew(counts, size)
    assert learn_merges(counts, size) == expected
    if text:
        assert Bpe.learn([text], size=size).merges == expected


@given(words=st.dictionaries(st.text("ab", min_size=1, max_size=9), st.integers(1, 9), max_size=12))
def test_what_is_learned_of_overlapping_pairs_is_the_definition(words: dict[str, int]) -> None:
    merges = learn_merges(words, 300)
    assert merges == learned_by_counting_anew(Counter(words), 300)
    shuffled = list(words.items())
    random.Random(1).shuffle(shuffled)
    assert learn_merges(dict(shuffled), 300) == merges  # the order of the words is no matter


@given(text=TEXTS, other=TEXTS)
def test_what_is_encoded_is_the_definition(text: str, other: str) -> None:
    units = Bpe.learn([text + "a"], size=290)
    expected = [
        id for part in stretches([other]) for stretch in part for id in encoded_merge_by_merge(stretch, units.merges)
    ]
    assert units.ids(other) == expected
    assert units.ids(other) == expected  # from what is held


@given(text=TEXTS, other=TEXTS)
def test_another_implementation_gives_the_same_ids(text: str, other: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    units = Bpe.learn([text + "a"], size=290)
    names = [piece.decode("latin-1") for piece in units.spelled]  # it merges characters: one for each byte
    theirs = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            {name: k for k, name in enumerate(names)}, [(names[a], names[b]) for a, b in units.merges]
        )
    )
    for part in stretches([other]):
        for stretch in part:
            assert theirs.encode(stretch.encode().decode("latin-1")).ids == units.ids(stretch)


@given(text=st.text(max_size=300) | TEXTS, size=st.integers(1, 20))
def test_a_text_is_cut_into_the_same_stretches_wherever_its_blocks_end(text: str, size: int) -> None:
    whole = [stretch for part in stretches([text]) for stretch in part]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bpe, "_BLOCK", 2)
        parts = list(stretches(text[k : k + size] for k in range(0, len(text), size)))
    assert [stretch for part in parts for stretch in part] == whole
    assert "".join(whole) == text


def test_the_cuts_of_a_text() -> None:
    (found,) = stretches(["Don't  stop at 1984,\n\tnaïve…"])
    assert found == ["Don", "'", "t", " ", " stop", " at", " 1984", ",", "\n", "\t", "naïve…"]
    (found,) = stretches(["x" * 150 + " " * 3])
    assert list(map(len, found)) == [64, 64, 22, 2, 1]


def test_a_line_break_is_alone_and_begins_a_text() -> None:
    units = Bpe.learn(["a\n\n\na\n\n\na\n\n\n"], size=300)
    assert units.ids("\n\n") == [units.bos] * 2 and (units.eos, units.unknown) == (None, None)


def test_pieces_that_occur_once_are_not_made() -> None:
    assert Bpe.learn(["abc abd"], size=1000).size == 257  # "ab" alone: with the space before it, it occurs once


@given(words=st.dictionaries(st.text("aab", min_size=1, max_size=12), st.integers(1, 9), max_size=12))
def test_no_piece_is_made_twice(words: dict[str, int]) -> None:
    pieces = Bpe(learn_merges(words, 400)).spelled  # which refuses it
    assert len(set(pieces)) == len(pieces)


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe, "_HELD", 3)
    units = Bpe.learn(["abababab"], size=258)
    text = " ".join(f"{letter}ab" for letter in "abcdefghij")
    assert units.text(units.ids(text)) == text and len(units._merged) <= 3


def test_the_longest_stretch_has_64_characters() -> None:
    assert max(len(s) for part in stretches(["😀" * 1000 + "1" * 1000 + "." * 1000 + " " * 1000]) for s in part) == 64
    assert re.fullmatch(bpe._STRETCH, " " + "a" * 64)
