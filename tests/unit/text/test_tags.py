"""Tag schemes: what spans they say, how they are told apart and converted, and what may follow what."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.errors import DataError
from riverrun.text.tags import Span, allowed, convert, recognise, spans

SCHEMES = ("iob1", "iob2", "bioes")
# One sentence in each scheme: two people side by side, a place of three words, a place of one.
SAME = {
    "iob1": "I-PER B-PER I-PER O I-LOC I-LOC I-LOC O I-LOC I-PER",
    "iob2": "B-PER B-PER I-PER O B-LOC I-LOC I-LOC O B-LOC B-PER",
    "bioes": "S-PER B-PER E-PER O B-LOC I-LOC E-LOC O S-LOC S-PER",
}
SPANS = [(0, 1, "PER"), (1, 3, "PER"), (4, 7, "LOC"), (8, 9, "LOC"), (9, 10, "PER")]


def all_tags(scheme: str, types: str = "XY") -> list[str]:
    prefixes = "BIES" if scheme == "bioes" else "BI"
    return ["O", *(f"{prefix}-{type}" for prefix in prefixes for type in types)]


def any_tags(scheme: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(all_tags(scheme)), max_size=8)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_sentence_in_every_scheme(scheme: str) -> None:
    tags = SAME[scheme].split()
    assert recognise([tags]) == scheme
    for strict in (False, True):
        assert spans(tags, scheme, strict=strict) == SPANS
    for target in SCHEMES:
        assert convert(tags, scheme, target) == SAME[target].split()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tags_without_a_type(scheme: str) -> None:
    tags = [tag.partition("-")[0] for tag in SAME[scheme].split()[:5]] + ["O"]
    if scheme == "bioes":
        tags[4] = "S"
    assert recognise([tags]) == scheme
    assert spans(tags, scheme) == [Span(0, 1, ""), Span(1, 3, ""), Span(4, 5, "")]
    assert convert(tags, scheme, "iob2") == ["B", "B", "I", "O", "B", "O"]


def test_a_type_may_hold_hyphens() -> None:
    assert spans(["B-creative-work", "I-creative-work"], "iob2") == [(0, 2, "creative-work")]


@pytest.mark.parametrize(
    ("tags", "scheme", "found"),
    [
        ("I-X I-X O I-X", "iob2", [(0, 2), (3, 4)]),  # a span begins behind O, whatever its prefix
        ("B-X I-Y", "iob2", [(0, 1), (1, 2)]),  # and behind another type
        ("O B-X I-X", "iob1", [(1, 3)]),
        ("B-X I-X", "bioes", [(0, 2)]),  # a span without its end
        ("I-X E-X E-X", "bioes", [(0, 2), (2, 3)]),
        ("S-X I-X", "bioes", [(0, 1), (1, 2)]),
        ("E-X I-X B-X", "bioes", [(0, 1), (1, 2), (2, 3)]),
        ("B-X S-X", "bioes", [(0, 1), (1, 2)]),
        ("", "bioes", []),
    ],
)
def test_what_a_scheme_does_not_allow_is_read_as_conlleval_does(
    tags: str, scheme: str, found: list[tuple[int, int]]
) -> None:
    assert [span[:2] for span in spans(tags.split(), scheme)] == found
    kept = [span[:2] for span in spans(tags.split(), scheme, strict=True)]
    assert set(kept) < set(found) or not found


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_strict_spans_are_what_is_written_as_the_scheme_says(scheme: str, data: st.DataObject) -> None:
    tags = data.draw(any_tags(scheme))
    lenient, strict = spans(tags, scheme), spans(tags, scheme, strict=True)
    assert set(strict) <= set(lenient)
    legal = is_legal(tags, scheme)
    assert (strict == lenient) or not legal
    # Spans are in order, do not overlap, and together they cover all that is not O.
    assert [k for span in lenient for k in range(span.start, span.end)] == [k for k, t in enumerate(tags) if t != "O"]


def is_legal(tags: list[str], scheme: str) -> bool:
    """Whether tags are those of some spans: written down for the spans that are found in them, they are the same."""
    return convert(tags, scheme, scheme) == tags


@pytest.mark.parametrize(("source", "target"), [*product(SCHEMES, SCHEMES)])
@given(data=st.data())
def test_converting_keeps_the_spans(source: str, target: str, data: st.DataObject) -> None:
    tags = data.draw(any_tags(source))
    converted = convert(tags, source, target)
    assert spans(converted, target) == spans(converted, target, strict=True) == spans(tags, source)
    back = convert(converted, target, source)
    assert back == convert(tags, source, source)
    assert is_legal(converted, target)
    assert recognise([converted]) == (target if set(tags) - {"O"} else None)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_allowed_is_exactly_what_is_legal(scheme: str) -> None:
    tags = all_tags(scheme)
    table = allowed(tags, scheme)
    assert table.transitions.shape == (len(tags), len(tags))
    assert {table.transitions.dtype, table.start.dtype, table.stop.dtype} == {np.dtype(bool)}
    for length in (1, 2, 3):
        for ids in product(range(len(tags)), repeat=length):
            steps = [table.transitions[a, b] for a, b in pairwise(ids)]
            verdict = all([table.start[ids[0]], *steps, table.stop[ids[-1]]])
            assert verdict == is_legal([tags[k] for k in ids], scheme), [tags[k] for k in ids]


def test_allowed_of_no_tags() -> None:
    table = allowed([], "bioes")
    assert (table.transitions.shape, table.start.shape, table.stop.shape) == ((0, 0), (0,), (0,))


@pytest.mark.parametrize(
    "sequences",
    [
        [],
        [[]],
        [["O", "O"]],
        [["NOUN", "VERB", "X"]],
        [["PRP$", "-LRB-", "NN", "O"]],  # a part of speech may be called O
        [["A", "N", "O", "S"]],
        [["N-m", "S-f", "V-p"]],
        [["B", "A"]],
        [["I", "L", "V"], ["N"]],
        [["_"]],
        [[""]],
    ],
)
def test_tags_that_are_no_spans(sequences: list[list[str]]) -> None:
    assert recognise(sequences) is None


def test_tags_without_anything_outside_may_be_spans() -> None:
    assert recognise([["B-NP", "I-NP"], ["B-VP"]]) == "iob2"
    assert recognise([["S-NP"]]) == "bioes"


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        (
            [["O", "B-X"], ["O", "I-X"]],
            r"mix schemes, or break one: they begin with B, I, and are not iob1, because 'B-X' follows 'O' \(word 2 of "
            r"sentence 1\); not iob2, because 'I-X' follows 'O' \(word 2 of sentence 2\)",
        ),
        (
            [["B-X", "O", "S-X"]],
            r"begin with B, S, and are not bioes, because 'O' follows 'B-X' \(word 2 of sentence 1\)",
        ),
        ([["S-X", "B-X"]], r"not bioes, because 'O' follows 'B-X' \(word 2 of sentence 1\)"),
        ([["S-X"], ["B-X", "E-Y"]], r"not bioes, because 'E-Y' follows 'B-X' \(word 2 of sentence 2\)"),
        (
            [["O"], ["B-X", "L-X", "O", "U-X"]],
            r"no known scheme: they begin with B, L, U, as 'L-X' does \(word 2 of sentence 2\); expected O, or B, I, E "
            r"or S with a type.*BILOU's tags write E for L and S for U",
        ),
        ([["O", "b-loc", "i-loc"]], r"begin with b, i, as 'b-loc' does \(word 2 of sentence 1\)"),
        ([["O", "B-LOC", "LOC"]], r"begin with B, L, as 'LOC' does \(word 3 of sentence 1\)"),
        ([["O", "B-LOC", ""]], r"as '' does \(word 3 of sentence 1\)"),
    ],
)
def test_mixed_and_unknown_schemes_are_named(sequences: list[list[str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        recognise(sequences)


def test_mistakes_are_named_as_the_caller_names_words() -> None:
    lines = [[10, 11], [20, 22]]

    def where(sentence: int, word: int) -> str:
        return f"a:{lines[sentence - 1][word - 1]}"

    # The file is wrong from the last of the places on: there the last scheme is broken.
    with pytest.raises(DataError, match=r"^a:22: tags that mix.*'B-X' follows 'O' \(a:11\); .*'I-X' .* 'O' \(a:22\)"):
        recognise([["O", "B-X"], ["O", "I-X"]], where=where)
    with pytest.raises(DataError, match=r"^a:22: tags of no known scheme: .*, as 'L-X' does \(a:22\)"):
        recognise([["O", "O"], ["B-X", "L-X"]], where=where)
    assert recognise([["O", "B-X"]], where=where) == "iob2"


def test_a_tag_or_scheme_that_is_not_known() -> None:
    with pytest.raises(DataError, match=r"tag 2, 'E-X', is none of the scheme iob2; expected O, or one of B, I with a"):
        spans(["O", "E-X"], "iob2")
    for wrong in ("B-", "BX", "", "B_X", "O-X"):
        with pytest.raises(DataError, match=rf"tag 1, '{wrong}', is none of the scheme bioes"):
            spans([wrong], "bioes")
    for call in (lambda: spans([], "iob"), lambda: convert([], "iob1", "iob"), lambda: allowed([], "iob")):
        with pytest.raises(
            DataError, match=r"unknown tag scheme 'iob'; did you mean 'iob[12]'\?; known: iob1, iob2, bio"
        ):
            call()
