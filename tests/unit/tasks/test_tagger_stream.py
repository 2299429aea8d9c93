"""From a file or a stream to its tags: what is taken for columns, and that everything but the tags stays as it was."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from riverrun.tasks.tagger_stream import _before_each_wait, write_answers
from riverrun.text.sources import BLOCK
from riverrun.text.tokenize import Tokenizer


def shout(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """The tag of each word is the word in capitals."""
    return [[form.upper() for form in forms] for forms in sentences]


def answered(
    source: str | Path, *, columns: dict[str, int | str] | None = None, **more: object
) -> tuple[str, list[str]]:
    """What is written, and what is noted."""
    out: io.StringIO = io.StringIO(newline="")
    notes: list[str] = []
    settings = {"format": None, "encoding": None, "as_json": False, **more}
    write_answers(shout, Tokenizer(), source, out, columns=columns or {}, notes=notes, **settings)  # type: ignore[arg-type]
    return out.getvalue(), notes


COLUMNS = {
    "tabs": "dr\tO\nada\tB-PER\n\nbern\tB-LOC\n\n",
    "aligned": "dr    NN  O\nada   NNP B-PER\n\nbern  NNP B-LOC\n\n",
    "mixed line ends": "dr O\r\nada B-PER\n\r\nbern B-LOC\r\n\n",
}


@pytest.mark.parametrize("way", ["file", "stdin"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_come_back_with_their_tags_alone_changed(tmp_path, monkeypatch, name, way):
    text = COLUMNS[name]
    if way == "file":
        source = str(tmp_path / "a.dat")
        Path(source).write_bytes(text.encode())
    else:
        source = "-"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
    expected = text.replace("O\n", "DR\n").replace("O\r", "DR\r").replace("B-PER", "ADA").replace("B-LOC", "BERN")
    assert answered(source) == (expected, [])


def test_tags_of_the_model_say_what_columns_are(tmp_path):
    path = tmp_path / "a.dat"
    path.write_text("dr N\nada N\n\n")
    assert answered(path, tags=["N", "V"])[0] == "dr DR\nada ADA\n\n"
    assert answered(path, tags=["N", "V"], columns={"tag": 1})[0] == "dr DR\nada ADA\n\n"
    assert answered(path, tags=["N", "V"], columns={"form": 1, "tag": 0})[0].startswith("dr\tDR\n")  # as text
    assert answered(path, tags=["X"])[0].split("\n")[:2] == ["dr\tDR", "N\tN"]


def test_raw_text_is_never_taken_for_columns(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("we went\nso far\n\nand back\nagain then\n\n")
    out, notes = answered(path, tags=["N", "V"], usual="conll")
    assert [line.split("\t")[0] for line in out.split() if line.islower()] == path.read_text().split()
    assert notes == []


def test_a_doubt_is_said(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("dogs\tNNS\nbark\tVBP\n\n")
    said = f"{path}: read as text, though its lines may be columns; if so, give data.format conll"
    assert answered(path, tags=["N", "V"])[1] == [said]
    assert answered(path, tags=["N", "V"], format="conll") == ("dogs\tDOGS\nbark\tBARK\n\n", [])
    assert answered(path, tags=["N", "V"], usual="conll") == ("dogs\tDOGS\nbark\tBARK\n\n", [])


def test_a_long_line_of_a_stream_takes_linear_time():
    def seconds(size: int, tries: int = 1) -> float:
        found = []
        for _ in range(tries):
            start = time.process_time()
            lines = _before_each_wait(("x" * BLOCK for _ in range(size)), lambda: None, each_line=False)
            assert [len(line) for line in lines] == [size * BLOCK]
            found.append(time.process_time() - start)
        return min(found)

    # Quadratic time would be 64 times as long: 8 is expected, noise gets the rest.
    assert seconds(8 * 60, 2) < 24 * max(seconds(60, 4), 2e-3)


def test_what_was_read_is_answered_before_more_is_waited_for():
    asked: list[str] = []

    def blocks():
        for block in ("one\ntw", "o", "\n"):
            asked.append(f"read {block!r}")
            yield block

    for line in _before_each_wait(blocks(), lambda: asked.append("flush"), each_line=True):
        asked.append(f"line {line!r}")
    first = ["read 'one\\ntw'", "line 'one'", "line ''", "flush"]
    assert asked == [*first, "read 'o'", "flush", "read '\\n'", "line 'two'", "line ''", "flush"]
