"""CoNLL columns: any order, tabs or spaces, comments, document starts; and every message."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.errors import DataError
from riverrun.text.formats import Sentence, read_conll, write_conll
from riverrun.text.tags import recognise

CONLL_2003 = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

-DOCSTART- -X- O O

Peter NNP I-NP I-PER
"""


def _read(text: str, columns: Mapping[str, int | str] | None = None) -> list[Sentence]:
    return list(read_conll(io.StringIO(text, newline=""), columns=columns))


def _round(text: str) -> str:
    out = io.StringIO()
    write_conll(out, _read(text))
    return out.getvalue()


def test_columns_are_named_in_any_order() -> None:
    first, second = _read(CONLL_2003, {"tag": -1, "form": 0, "pos": 1})
    assert first.columns == ("form", "pos", "2", "tag")
    assert first.forms == ["EU", "rejects"]
    assert first.column("tag") == first.column(3) == ["I-ORG", "O"]
    assert first.column("pos") == ["NNP", "VBZ"]
    assert (second.forms, second.line, first.newdoc, second.newdoc) == (["Peter"], 8, True, True)
    [reversed_] = _read("I-ORG EU\nO rejects\n", {"form": 1, "tag": 0})
    assert (reversed_.forms, reversed_.column("tag"), reversed_.columns) == (
        ["EU", "rejects"],
        ["I-ORG", "O"],
        ("tag", "form"),
    )


def test_by_default_the_first_column_is_the_form_and_the_last_the_tag() -> None:
    assert _read(CONLL_2003)[0].columns == ("form", "1", "2", "tag")
    assert _read("a\nb\n\n")[0].columns == ("form",)


def test_columns_may_be_named_by_the_file() -> None:
    text = "# global.columns = ID FORM NER\n1\ta b\tB-X\n2\tc\tO\n\n"
    [own] = _read(text)
    assert own.columns == ("ID", "FORM", "NER")
    [named] = _read(text, {"form": "FORM", "tag": "NER"})
    assert (named.columns, named.forms, named.column("tag")) == (("0", "form", "tag"), ["a b", "c"], ["B-X", "O"])
    assert _round(text) == text


def test_the_number_sign_may_be_a_word() -> None:
    [sentence] = _read("# a comment\n# O\n1 O\n\n")
    assert (sentence.forms, sentence.comments) == (["#", "1"], ("# a comment",))


def test_a_no_break_space_is_part_of_a_word() -> None:
    [sentence] = _read("10\u00a0000 B-NUM\n\n")
    assert sentence.forms == ["10\u00a0000"]


def test_spaces_may_be_many_and_tabs_may_hold_spaces() -> None:
    assert _read("a   b \n")[0].columns == ("form", "tag")
    assert _read("New York\tB-LOC\n")[0].forms == ["New York"]


@pytest.mark.parametrize(
    "text",
    [
        CONLL_2003,
        "# a comment of its own\n\na O\n\n# and one at the end\n\n",
        "a\tO\nb\tO\n\t\nc\tO\n",
        "\ufeffa O\r\n\r\nb O\r\n",
        "\n\na O\n\n\n\nb O",
        CONLL_2003 + "\n-DOCSTART- -X- O O\n",
        "-DOCSTART- -X- O O\nEU NNP I-NP I-ORG\n\n",
        "a O\n\n-DOCSTART- -X- O O",
        "a     NN\tO\n bcd  VB   O \n\ne NN O\n\n".replace("\t", "   "),
        "a O\r\nb O\n\r\nc O\n\nd O\r\n\r\n",
    ],
)
def test_round_trip(text: str) -> None:
    assert _round(text) == text


@given(st.data())
def test_any_spaces_and_line_ends_come_back(data: st.DataObject) -> None:
    gap, end = st.sampled_from([" ", "  ", " \t ", "\t"]), st.sampled_from(["\n", "\r\n"])
    edge = st.sampled_from(["", " "])
    parts = ["x y", data.draw(end)]  # the first word says that the columns stand between spaces
    for _ in range(data.draw(st.integers(0, 6))):
        parts += [data.draw(edge), "a", data.draw(gap), "b", data.draw(edge), data.draw(end)]
        if data.draw(st.booleans()):
            parts += [data.draw(end) for _ in range(data.draw(st.integers(1, 2)))]
            parts += ["-DOCSTART- O", data.draw(end), data.draw(end)] * data.draw(st.integers(0, 1))
    text = "".join(parts)
    assert _round(text) == text


@given(
    st.lists(
        st.lists(st.tuples(*[st.text("ab-#é", min_size=1, max_size=3)] * 3), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["\t", " "]),
)
def test_what_is_written_is_read(rows: list[list[tuple[str, str, str]]], separator: str) -> None:
    # A file that begins with a paragraph of lines with # begins with comments.
    rows[0][0] = ("x", *rows[0][0][1:])
    names = ("form", "1", "tag")
    sentences = [
        Sentence.of(dict(zip(names, map(list, zip(*each, strict=True)), strict=True)), separator=separator)
        for each in rows
    ]
    out = io.StringIO()
    write_conll(out, sentences)
    read = _read(out.getvalue())
    assert [each.columns for each in read] == [names] * len(rows)
    assert [list(zip(*(each.column(name) for name in names), strict=True)) for each in read] == rows
    assert _round(out.getvalue()) == out.getvalue()


def test_a_new_column_stands_at_the_end() -> None:
    [sentence] = _read("a X\nb Y\n\n")
    assert str(sentence.with_column("predicted", ["1", "2"])) == "a X 1\nb Y 2\n"
    assert str(sentence.with_column("form", ["c", "d"])) == "c X\nd Y\n"
    with pytest.raises(DataError, match="cannot hold '1 2'"):
        sentence.with_column("predicted", ["1 2", "3"])


def test_a_column_is_filled_and_everything_else_stays_as_it_was() -> None:
    text = "# c\r\nEU      NNP  I-NP  ?\n rejects VBZ\tI-VP  ? \r\n\na b c ?\r\n"
    filled = [each.with_column("tag", ["I-ORG", "O"][: len(each)]).written() for each in _read(text)]
    assert "".join(filled) == text.replace("?", "I-ORG").replace(" I-ORG \r", " O \r")
    [words] = _read("dr \nada\r\n\n")
    assert words.with_column("tag", ["X", "Y"]).written() == "dr X\nada Y\r\n\n"


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a B\nb\n", None, r":2: expected 2 space-separated columns, received 1$"),
        ("a\tB\n\nb\tB\tC\n", None, r":3: expected 2 tab-separated columns, received 3$"),
        (
            "-DOCSTART- -X-\n\na B\n# late\nb\n",
            None,
            r":5: expected 2 space-separated columns, received 1$",
        ),
        ("a B\n", {"tag": 2}, r":1: data.columns: 'tag' is column 2, but there are 2, counted from 0$"),
        ("a B\n", {"tag": -3}, r":1: data.columns: 'tag' is column -3, but there are 2"),
        ("a B\n", {"form": 0, "tag": -2}, r":1: data.columns: 'form' and 'tag' are both column 0 of 2$"),
        ("a B\n", {"tag": "ner"}, r":1: data.columns: 'tag' is column 'ner', but the file names no columns; give its"),
        (
            "# global.columns = FORM NER\na B\n",
            {"tag": "NEER"},
            r":2: data.columns: 'tag' is column 'NEER', which the file does not have; did you mean 'NER'\?$",
        ),
        ("# global.columns = A B C\na B\n", None, r":2: '# global.columns =' names 3 columns, but there are 2$"),
    ],
)
def test_mistakes_are_named_with_their_line(
    tmp_path: Path, text: str, columns: Mapping[str, int | str] | None, message: str
) -> None:
    path = tmp_path / "train.conll"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        list(read_conll(path, columns=columns))
    assert str(error.value).startswith(str(path))


def test_a_number_may_be_written_as_text() -> None:
    assert _read("a B C\n", {"form": "0", "tag": "-1"})[0].columns == ("form", "1", "tag")


def test_a_file_without_sentences(tmp_path: Path) -> None:
    path = tmp_path / "empty.conll"
    path.write_text("-DOCSTART- O\n\n# nothing\n")
    with pytest.raises(DataError, match=r"the file is empty; expected sentences in columns$"):
        list(read_conll(path))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sentences", "scheme"),
    [
        ("ner/wnut17/wnut17train.conll", 3394, "iob2"),
        ("ner/wnut17/emerging.dev.conll", 1009, "iob2"),
        ("ner/wikigold/wikigold.conll.txt", 1696, "iob1"),
        ("pos/wsj-sample/wsj-sample.txt.gz", 3914, None),
    ],
)
def test_real_files(shared_data: Path, tmp_path: Path, name: str, sentences: int, scheme: str | None) -> None:
    read = list(read_conll(shared_data / name))
    assert len(read) == sentences
    assert recognise(sentence.column("tag") for sentence in read) == scheme
    if not name.endswith(".gz"):
        write_conll(tmp_path / "copy", read)
        assert (tmp_path / "copy").read_bytes() == (shared_data / name).read_bytes()
