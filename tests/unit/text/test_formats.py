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
from riverrun.text.formats.guess import guess_untagged

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


# name, content, what is said of the model, what it is when it is to be tagged
UNTAGGED = {
    "tags of spans": ("a.dat", "EU NNP B-ORG\nsays VBZ O\n\n", {}, "conll"),
    "with tabs, and no blank line yet": ("a", "EU\tB-ORG\n", {}, "conll"),
    "tags of the model": ("a", "dogs N\nbark V\n\nbark V\n", {"tags": ["N", "V"]}, "conll"),
    "in a column that is named": ("a", "dogs N x\nbark V y\n", {"tags": ["N", "V"], "column": 1}, "conll"),
    "no tag at all": ("a", "dogs _\nbark _\n", {}, "conll"),
    "a column less in one line": ("a", "dogs O\nbark O\nbark\n", {}, "conll"),
    "many spaces": ("a", "dogs   O\nbark  \tO\n", {}, "conll"),
    "a document": ("a", "-DOCSTART- -X-\n\ndogs N\n", {}, "conll"),
    "a name": ("a.iob", "dogs N\nbark V\n", {}, "conll"),
    "a name, compressed": ("a.bio.txt", "dogs\n", {}, "conll"),
    "a table with blank lines": ("a.tsv", "dogs\tN\n\nbark\tV\n", {}, "conll"),
    "a model of columns": ("a", "Name:\tX\nAge:\t3\n\n", {"usual": "conll"}, "conll"),
    "one line, for a model of columns": ("a", "dogs O\n", {"usual": "conll"}, "conll"),
    "CoNLL-U": ("a.txt", TEXTS["conllu"], {}, "conllu"),
    "a comment of CoNLL-U alone": ("a", "# sent_id = 1\n", {}, "conllu"),
    "CoNLL-U by its name": ("a.conllu", "", {}, "conllu"),
    # Raw text, whatever it looks like.
    "two words a line": ("a", "So do\nI think\n\nSo be\nit then\n", {"tags": ["N", "V"], "usual": "conll"}, "text"),
    "one line and a blank one": ("a", "dr ada runs .\n\n", {"usual": "conll"}, "text"),
    "a line that ends like a tag": ("a", "The vitamin B-12\n\n", {"tags": ["N"]}, "text"),
    "a tag in the wrong column": ("a", "N dogs\nV bark\n", {"tags": ["N", "V"]}, "text"),
    "a text with tabs": ("a", "Name:\tX\nAge:\t3\n\n", {"tags": ["N", "V"]}, "text"),
    "a few tags": ("a", "we say O\nor we do\nor not so\n", {}, "text"),
    "a column that is not there": ("a", "dogs O\nbark O\n", {"column": 3}, "text"),
    "an aside": ("a", "(see (above))\n", {}, "text"),
    "a list": ("a", "# a heading\n", {}, "text"),
    "nothing": ("a", "\n", {}, "text"),
}


@pytest.mark.parametrize("name", UNTAGGED)
def test_what_is_to_be_tagged_is_text_unless_something_says_otherwise(tmp_path: Path, name: str) -> None:
    file, text, model, expected = UNTAGGED[name]
    path = tmp_path / file
    path.write_text(text)
    notes: list[str] = []
    assert guess_untagged(path, **model, notes=notes) == expected  # type: ignore[arg-type]
    doubt = [f"{path}: read as text, though its lines may be columns; if so, give data.format conll"]
    assert notes == (doubt if name == "a text with tabs" else [])


@pytest.mark.parametrize("name", [name for name, (file, *_) in UNTAGGED.items() if "." not in file])
def test_of_standard_input_too(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _, text, model, expected = UNTAGGED[name]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode())), encoding="utf-8"))
    assert guess_untagged("-", **model) == expected  # type: ignore[arg-type]
    assert sys.stdin.read() == text  # nothing was taken


def test_a_file_is_looked_at_in_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("カフェ\tO\n\n".encode("utf-16-le"))
    assert guess_format(path, encoding="utf-16-le") == guess_untagged(path, encoding="utf-16-le") == "conll"
    path.write_bytes("カフェ\n".encode("shift_jis"))
    assert guess_untagged(path, encoding="shift_jis") == "text"


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
