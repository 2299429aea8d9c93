"""CoNLL-U: what a sentence says, that nothing is lost, and every message."""

from __future__ import annotations

import io
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.errors import DataError
from riverrun.text.formats import Sentence, read_conllu, write_conllu
from riverrun.text.formats.sentence import Range


def _rows(*rows: str) -> str:
    """Lines of ten columns from lines of words: what is not given is ``_``."""
    lines = []
    for row in rows:
        cells = row.split(" ")
        lines.append(row if row.startswith("#") or not row else "\t".join(cells + ["_"] * (10 - len(cells))))
    return "\n".join(lines) + "\n"


VAMONOS = _rows(
    "# sent_id = 1",
    "# text = Vámonos al mar.",
    "0.1 nada nada PRON",
    "1-2 Vámonos",
    "1 Vamos ir VERB",
    "2 nos nosotros PRON",
    "3-4 al",
    "3 a a ADP",
    "4 el el DET",
    "4.1 gran gran ADJ",
    "5-5 mar _ _ _ _ _ _ _ SpaceAfter=No",
    "5 mar mar NOUN",
    "6 . . PUNCT",
    "",
)


def _round(text: str) -> str:
    out = io.StringIO()
    write_conllu(out, read_conllu(io.StringIO(text, newline="")))
    return out.getvalue()


class _Cut(io.StringIO):
    """A stream that gives a few characters at a time."""

    def __init__(self, text: str, size: int) -> None:
        super().__init__(text, newline="")
        self.size = size

    def read(self, size: int | None = -1, /) -> str:
        return super().read(self.size)


def test_a_sentence_says_its_words_and_what_is_around_them() -> None:
    [sentence] = read_conllu(io.StringIO(VAMONOS))
    assert sentence.forms == ["Vamos", "nos", "a", "el", "mar", "."]
    assert sentence.upos == ["VERB", "PRON", "ADP", "DET", "NOUN", "PUNCT"]
    assert sentence.column("id") == ["1", "2", "3", "4", "5", "6"]
    assert sentence.ranges == [
        Range(1, 2, "Vámonos", "_"),
        Range(3, 4, "al", "_"),
        Range(5, 5, "mar", "SpaceAfter=No"),
    ]
    assert [(node.id, node.columns[1]) for node in sentence.empty_nodes] == [("0.1", "nada"), ("4.1", "gran")]
    assert sentence.space_after == [False, True, False, True, False, True]
    assert (sentence.text, sentence.comment("sent_id"), sentence.comment("none")) == ("Vámonos al mar.", "1", None)
    assert sentence.line == 1
    assert len(sentence) == 6


def test_a_column_is_replaced_and_everything_else_stays() -> None:
    [sentence] = read_conllu(io.StringIO(VAMONOS))
    tagged = sentence.with_column("upos", ["X"] * 6)
    assert str(tagged) == str(sentence).translate({}).replace("\tVERB", "\tX").replace("\tADP", "\tX").replace(
        "\tDET", "\tX"
    ).replace("\tNOUN", "\tX").replace("\tPUNCT", "\tX").replace("2\tnos\tnosotros\tPRON", "2\tnos\tnosotros\tX")
    assert sentence.upos[0] == "VERB"
    with pytest.raises(DataError, match="column 'upos' has 1 values for 6 words"):
        sentence.with_column("upos", ["X"])
    with pytest.raises(DataError, match=r"no column 'tag'; it has id, form"):
        sentence.with_column("tag", ["X"] * 6)
    with pytest.raises(DataError, match=r"column 'upos' cannot hold 'a\\tb'"):
        sentence.with_column("upos", ["a\tb"] * 6)


@pytest.mark.parametrize(
    "text",
    [
        VAMONOS,
        VAMONOS + VAMONOS,
        "\n\n" + VAMONOS,  # blank lines before the first sentence
        VAMONOS + "\n\n" + VAMONOS + "\n",  # and more than one behind it
        VAMONOS.removesuffix("\n"),  # none behind the last
        VAMONOS.removesuffix("\n\n"),  # not even the end of its last line
        VAMONOS.replace("\n\n", "\n \t\n") + VAMONOS,  # a blank line that is not empty
        "\ufeff" + VAMONOS,
        VAMONOS.replace("\n", "\r\n"),
        VAMONOS + VAMONOS.replace("\n", "\r\n") + VAMONOS,
        (VAMONOS * 2).replace("\n", "\r\n", 3),
        VAMONOS.replace("_\n", "_\r\n"),
        ("\ufeff" + VAMONOS + VAMONOS).replace("\n", "\r\n").removesuffix("\r\n"),
        _rows("#", "#x", "# 1\t", "1 #", ""),
        _rows(*(f"{k} w" for k in range(1, 1203)), ""),  # more words than ids are kept for
    ],
)
def test_round_trip(text: str) -> None:
    assert _round(text) == text


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["# a = b", "#", "# text = x"]), max_size=2),
            st.lists(st.text("abé #-.1", min_size=1, max_size=3), min_size=1, max_size=4),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.sampled_from(["\n", "\r\n"]), min_size=1, max_size=5),
    st.integers(1, 40),
)
def test_any_file_comes_back_as_it_was(
    parts: list[tuple[list[str], list[str], int]], newlines: list[str], size: int
) -> None:
    text = ""
    for comments, forms, blank in parts:
        sentence = Sentence.conllu({"form": forms}, comments=comments)
        assert sentence.forms == forms
        text += str(sentence) + "\n" * (1 + blank)
    plain = text.split("\n")
    text = "".join(line + newline for line, newline in zip(plain[:-1], cycle(newlines), strict=False))
    assert _round(text) == text
    sentences = list(read_conllu(_Cut(text, size)))
    assert "".join(each.written() for each in sentences) == text
    assert [each.forms for each in sentences] == [forms for _, forms, _ in parts]
    assert [list(each.comments) for each in sentences] == [comments for comments, _, _ in parts]
    for each in sentences:
        assert plain[each.line - 1] == (each.comments[0] if each.comments else str(each).split("\n")[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\n\n", r":1: expected 10 tab-separated columns, received 2"),
        (_rows("1 a", "2 b").replace("b\t", "b"), r":2: expected 10 tab-separated columns, received 9"),
        (_rows("1 a", "", "1 b", "2 c") + "x\n", r":5: expected 10 tab-separated columns, received 1"),
        (_rows("# c", "1 a", "3 b"), r":3: expected the number 2 in the first column, received '3'; words are"),
        (_rows("2 a"), r":1: expected the number 1 in the first column, received '2'"),
        (_rows("1 a", "1 b"), r":2: expected the number 2 in the first column, received '1'"),
        (_rows("1 a", "# late", "2 b"), r":2: expected 10 tab-separated columns, received 1"),
        (_rows("# only"), r":1: a sentence without words; expected lines of ten columns behind its comments"),
        (_rows("1 a", "1-2 ab", "2 b"), r":2: expected a multiword token that begins with word 2, received 1-2"),
        (_rows("1-3 ab", "1 a", "2 b"), r":1: expected a multiword token that ends with one of the words 1 to 2, rec"),
        (_rows("1-2 ab", "1 a", "2-3 bc", "2 b", "3 c"), r":3: expected a multiword token that begins with word 3"),
        (_rows("1 a", "3.1 e", "2 b"), r":2: expected an empty node behind word 1, received 3.1"),
        (_rows("1-2 ab", "1 a", "2 b").replace("ab\t_", "ab"), r":1: expected 10 tab-separated columns, received 9"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "train.conllu"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        list(read_conllu(path))
    assert str(error.value).startswith(str(path))


def test_a_file_without_sentences(tmp_path: Path) -> None:
    for name, text, message in [("a", "", "expected text"), ("b", "\n \n", "expected sentences in CoNLL-U")]:
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match=f"the file is empty; {message}"):
            list(read_conllu(tmp_path / name))


def test_a_file_that_is_no_column_file_ends_early() -> None:
    with pytest.raises(DataError, match=r":1: no blank line in \d+ lines; a sentence ends with a blank line"):
        list(read_conllu(io.StringIO("x" * 200 + "\n" + ("y" * 200 + "\n") * 25_000)))


def test_only_sentences_of_ten_columns_are_written() -> None:
    with pytest.raises(DataError, match=r"CoNLL-U: expected sentences with the columns id, form.*received form;"):
        write_conllu(io.StringIO(), [Sentence.of({"form": ["a"]})])
    with pytest.raises(DataError, match=r"CoNLL-U has no column 'upo' to fill; did you mean 'upos'\?"):
        Sentence.conllu({"upo": ["X"]})
    with pytest.raises(DataError, match=r"expected columns of one length, received"):
        Sentence.conllu({"form": ["a", "b"], "upos": ["X"]})


def test_columns_by_number_and_wrong_ones() -> None:
    [sentence] = read_conllu(io.StringIO(_rows("1 a b X", "")))
    assert sentence.column(3) == sentence.column(-7) == ["X"]
    with pytest.raises(DataError, match=r"Sentence at line 1: no column 'uposs'; did you mean 'upos'\?"):
        sentence.column("uposs")
    with pytest.raises(DataError, match=r"no column 10; it has 10 columns, counted from 0"):
        sentence.column(10)


def test_documents_and_paragraphs_begin_where_they_say_so() -> None:
    first, second = read_conllu(io.StringIO(_rows("# newdoc id = x", "# newpar", "1 a", "", "# text = newpar", "1 b")))
    assert (first.newdoc, first.newpar, second.newdoc, second.newpar) == (True, True, False, False)
    assert repr(second).startswith("Sentence('b', columns=('id', ")


def _treebanks(folder: Path) -> list[Path]:
    return sorted((folder / "ud").rglob("*.conllu"))


def _same_bytes(path: Path, copy: Path) -> bool:
    write_conllu(copy, read_conllu(path))
    return path.read_bytes() == copy.read_bytes()


@pytest.mark.data
def test_treebanks_come_back_byte_for_byte(shared_data: Path, tmp_path: Path) -> None:
    files = [path for path in _treebanks(shared_data) if path.name.endswith("-dev.conllu")]
    assert len(files) >= 3
    assert [path.name for path in files if not _same_bytes(path, tmp_path / "copy")] == []


@pytest.mark.data
@pytest.mark.slow
def test_all_treebanks_come_back_byte_for_byte(shared_data: Path, tmp_path: Path) -> None:
    files = _treebanks(shared_data)
    assert len(files) >= 9
    assert [path.name for path in files if not _same_bytes(path, tmp_path / "copy")] == []
