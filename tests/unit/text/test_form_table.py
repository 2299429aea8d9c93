"""The table of forms gives what the fields give, for every text that there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.errors import DataError
from riverrun.text.fields import CharField, FormTable, WordField
from riverrun.text.vocab import Vocab

FORMS = st.text(st.characters(), max_size=9)  # lone surrogates and the far planes too


@given(
    known=st.lists(FORMS, max_size=5), met=st.lists(st.lists(FORMS, max_size=6), max_size=4), limit=st.integers(1, 6)
)
def test_a_table_gives_what_the_fields_give(known, met, limit):
    words = WordField(Vocab(["<unk>", *dict.fromkeys(form for form in known if form != "<unk>")], "<unk>"))
    chars = CharField.count(dict.fromkeys(known, 1), limit=limit)
    table = FormTable(words, chars)
    for sentence in met:
        rows = table.rows([sentence])
        assert table.word_ids(rows).tolist() == [words.id(form) for form in sentence]
        ids, lengths = table.char_ids(rows)
        assert [row[:n] for row, n in zip(ids.tolist(), lengths.tolist(), strict=True)] == list(
            map(chars.ids, sentence)
        )
        assert not any(any(row[n:]) for row, n in zip(ids.tolist(), lengths.tolist(), strict=True))


def test_a_word_that_is_not_known_and_has_no_stand_in_is_an_error_each_time():
    table = FormTable(WordField(Vocab(["a"])), None)
    for _ in range(2):
        with pytest.raises(DataError, match="'b' is not among the 1 known symbols: a"):
            table.rows([["a", "b"]])


WRONG = [
    *(7, b"dogs", ("dogs",), float("nan")),
    None,
    ["dogs"],
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_word_that_is_no_text_is_an_error_and_is_forgotten(wrong):
    words = WordField(Vocab(["<unk>", "dogs", "bark"], "<unk>"), lower=True)
    chars = CharField.count({"dogs": 1, "bark": 1})
    for table in (FormTable(words, chars), FormTable(words, None), FormTable(None, chars)):
        table.rows([["bark"]])
        for _ in range(2):  # the second time it has not become a word that is known
            with pytest.raises(DataError, match=rf"expected words as text, received .* \({type(wrong).__name__}\)"):
                table.rows([["dogs", wrong, "cats"]])
        rows = table.rows([["cats", "bark"], ["dogs", "cats"]])
        assert table.words is None or table.word_ids(rows).tolist() == [0, 2, 1, 0]
        if table.chars:
            ids, lengths = table.char_ids(rows)
            found = [row[:n] for row, n in zip(ids.tolist(), lengths.tolist(), strict=True)]
            assert found == [chars.ids(form) for form in ("cats", "bark", "dogs", "cats")]
