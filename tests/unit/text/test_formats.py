"""Lines, running text, tables and JSON lines; and the guess which of all formats a file has."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.errors import DataError
from riverrun.text import formats
from riverrun.text.formats import guess_format, read_lines

WRITABLE = {
    "lines": ["one", "", "zwei, \u2028drei"],
    "tsv": [["a film", "pos"], ['a "film"', ""]],
    "csv": [["a, film", 'po"s'], ["two\nlines", "x"]],
    "jsonl": [{"text": "ü", "label": ["a", 1]}, {"text": None}],
}


@pytest.mark.parametrize("name", WRITABLE)
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_what_is_written_is_read(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"file.{name}{suffix}"
    getattr(formats, f"write_{name}")(path, WRITABLE[name])
    assert list(getattr(formats, f"read_{name}")(path)) == WRITABLE[name]


def test_text_is_written_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    formats.write_text(path, ["one\n", "tw", "o"])
    assert path.read_text() == "".join(formats.read_text(path)) == "one\ntwo"


@given(st.lists(st.lists(st.text("ab,\"'\n \té", max_size=3), min_size=2, max_size=2), min_size=1, max_size=4))
def test_csv_holds_any_text(rows: list[list[str]]) -> None:
    stream = io.StringIO()
    formats.write_csv(stream, rows)
    assert list(formats.read_csv(io.StringIO(stream.getvalue(), newline=""))) == rows


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tsv", "a\tb\n\na\tb\tc\n", r":3: expected 2 tab-separated columns, received 3$"),
        ("csv", 'a,b\n"c\nd",e\nf\n', r":4: expected 2 comma-separated columns, received 1$"),
        ("csv", 'a,b\n"c\n', r":2: not valid CSV: unexpected end of data$"),
        ("jsonl", '{"a": 1}\n{"a": \n', r":2: not valid JSON: Input data was truncated$"),
        ("jsonl", "\n[1]\n", r":2: expected a JSON object a line, received \[1\]$"),
        ("tsv", "\n\n", r": the file is empty; expected rows of tab-separated columns$"),
        ("csv", "\n\n", r": the file is empty; expected rows of comma-separated columns$"),
        ("jsonl", "\n \n", r": the file is empty; expected JSON objects, one a line$"),
        ("lines", "", r": the file is empty; expected text$"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / f"file.{name}"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        list(getattr(formats, f"read_{name}")(path))
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("lines", ["a\nb"], r"lines: a line cannot hold a line feed: 'a\\nb'"),
        ("tsv", [["a\tb"]], r"tsv: a cell cannot hold a tab or a line feed: 'a\\tb'; csv and jsonl can"),
    ],
)
def test_what_a_format_cannot_say_is_not_written(name: str, values: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        getattr(formats, f"write_{name}")(io.StringIO(), values)


TEXTS = {
    "conllu": "# text = Rain\n1-2\tRain" + "\t_" * 8 + "\n1\tRa" + "\t_" * 8 + "\n2\tin" + "\t_" * 8 + "\n\n",
    "conll": "Paris NNP I-LOC\nsleeps VBZ O\n\nSo do I\nThe end .\n",
    "jsonl": '{"text": "a"}\n{"text": "b"}\n',
    "scan": "IN: jump OUT: I_JUMP\n",
    "brackets": "(3 (2 It) (4 works))\n",
    "tsv": "a nice film\tpos\na bad one\tneg\n",
    "lines": "It rains. It pours.\n\nThe old man is snoring.\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_formats_are_known_by_their_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    path.write_text(TEXTS[name])
    assert guess_format(path) == name
    path.write_bytes(b"\xef\xbb\xbf" + TEXTS[name].replace("\n", "\r\n").encode())
    assert guess_format(path) == name


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.conllu", "# text = x\n", "conllu"),
        ("a", "# sent_id = 1\n", "conllu"),
        ("a", "# a heading\n", "lines"),
        ("a.conll", TEXTS["conllu"], "conllu"),  # named for columns, and CoNLL-U's are ten numbered ones
        ("a.conll", "one word\n", "conll"),
        ("train.conll.txt", "one word\n", "conll"),
        ("a.tsv", "a\tb\n", "tsv"),
        ("a.tsv", "a\tB-X\nb\tO\n\nc\tO\n", "conll"),  # a blank line between sentences: no table has it
        ("a.tsv", "", "tsv"),
        ("a.CSV", "a,b\n", "csv"),
        ("a.ndjson", "{\n", "jsonl"),
        ("a.txt", "{not json}\n", "lines"),
        ("a.txt", "[1]\n", "lines"),
        ("a.txt", "-DOCSTART-\n", "conll"),
        ("a.txt", "(an aside)\n", "lines"),
        ("a.txt", "one\n\ntwo\n", "lines"),
        ("a.txt", "Paris B-LOC\nsleeps O\n", "lines"),  # nothing says that it is not two lines of text
        ("a.txt", "Paris B-LOC", "lines"),
    ],
)
def test_the_name_decides_what_the_content_leaves_open(tmp_path: Path, name: str, text: str, expected: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert guess_format(path) == expected


def test_compression_does_not_hide_the_name(tmp_path: Path) -> None:
    formats.write_lines(tmp_path / "a.conll.gz", ["one word"])
    assert guess_format(tmp_path / "a.conll.gz") == "conll"


def test_standard_input_is_looked_at_and_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b'{"a": 1}\n')), encoding="utf-8"))
    assert guess_format("-") == "jsonl"
    assert list(read_lines("-")) == ['{"a": 1}']
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"a": 1}\n'))  # a stream that cannot be looked at
    assert guess_format("-") == "lines"


def test_the_guess_leaves_an_empty_file_to_its_reader(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        guess_format(tmp_path / "none")
    (tmp_path / "empty").write_text("")
    assert guess_format(tmp_path / "empty") == "lines"
