"""The synthetic tasks are what they say."""

from __future__ import annotations

from itertools import pairwise

import pytest

from riverrun.data.synthetic import last_word, names, parity
from riverrun.text.tags import recognise, spans


@pytest.mark.parametrize("task", [parity, last_word, names])
def test_a_seed_is_a_corpus(task):
    def corpus(seed: int) -> list[str]:
        return [str(sentence) for sentence in task(40, seed=seed)]

    assert corpus(1) == corpus(1) != corpus(2)
    assert len(corpus(1)) == 40 and all(corpus(1))


def test_parity_counts_the_ones():
    for sentence in parity(50, longest=9):
        ones = [sentence.forms[: k + 1].count("1") % 2 for k in range(len(sentence))]
        assert sentence.column("tag") == ["odd" if one else "even" for one in ones] and 1 <= len(sentence) <= 9


def test_all_tags_say_what_the_last_word_is():
    seen = set()
    for sentence in last_word(50, longest=5):
        (tag,) = set(sentence.column("tag"))
        assert {"?": "question", ".": "told"}[sentence.forms[-1]] == tag and 1 <= len(sentence) <= 5
        seen.add(tag)
    assert len(seen) == 2


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes"])
def test_names_are_in_the_scheme_and_the_same_in_each(scheme):
    rows = [sentence.column("tag") for sentence in names(80, scheme=scheme)]
    assert recognise(rows) == scheme
    expected = [spans(s.column("tag"), "iob1") for s in names(80)]
    assert [spans(row, scheme, strict=True) for row in rows] == expected
    assert any(a.end == b.start and a.type == b.type for row in expected for a, b in pairwise(row))
