"""``data check``: what is counted in a file, and what is said of files that are none."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from riverrun.cli import survey
from riverrun.config.tagger import TaggerModel
from riverrun.errors import ConfigError, DataError
from riverrun.tasks.labelled import Labelled
from riverrun.tasks.tagger_fields import tag_field

CONLL = """-DOCSTART- O

John\tB-PER
Smith\tI-PER
left\tO
Paris\tB-LOC

john\tB-PER
left\tO

"""


@pytest.fixture
def conll(tmp_path: Path) -> str:
    path = tmp_path / "a.conll"
    path.write_text(CONLL, encoding="utf-8")
    return str(path)


def test_sizes_tags_and_spans(conll: str) -> None:
    found = survey.read(conll)
    assert survey.facts(found) == {
        "file": conll,
        "format": "conll",
        "sentences": 2,
        "tokens": 6,
        "distinct_forms": 5,
        "forms_seen_once": 4,
        "shortest": 2,
        "median_length": 2,
        "longest": 4,
    }
    assert survey.tags(found) == {
        "scheme": "iob2",
        "spans": {"PER": 2, "LOC": 1},
        "tags": {"B-PER": 2, "O": 2, "I-PER": 1, "B-LOC": 1},
    }


def test_sentences_of_the_same_tags_are_all_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a\tB-X\nb\tO\n\n" * 5, encoding="utf-8")
    assert survey.tags(survey.read(str(path))) == {
        "scheme": "iob2",
        "spans": {"X": 5},
        "tags": {"B-X": 5, "O": 5},
    }


def test_what_the_training_file_does_not_have(conll: str, tmp_path: Path) -> None:
    train = tmp_path / "train.conll"
    train.write_text("john\tB-PER\nparis\tO\n\n", encoding="utf-8")
    section = survey.unknown(survey.read(conll), survey.read(str(train)))
    # John Smith left Paris . john left: only the second john is known as written; john and paris in lower case.
    assert section == {
        "unknown_tokens": round(5 / 6, 4),
        "unknown_tokens_lower": round(3 / 6, 4),
        "unknown_tags": ["B-LOC", "I-PER"],
    }


def test_what_the_vectors_have(conll: str, tmp_path: Path) -> None:
    vectors = tmp_path / "v.txt"
    vectors.write_text("john 1 2 3\nParis 1 2 3\nleft 0 0 1\nother 0 0 0\n", encoding="utf-8")
    section = survey.coverage(survey.read(conll), str(vectors))
    assert section == {
        "vectors": str(vectors),
        "vector_size": 3,
        "covered_tokens": round(4 / 6, 4),
        "covered_tokens_lower": round(4 / 6, 4),
        "covered_forms_lower": round(3 / 5, 4),
    }


def test_columns_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text("1\tDogs\tdog\tNOUN\tNNS\t_\t0\troot\t_\t_\n\n", encoding="utf-8")
    assert survey.tags(survey.read(str(path)))["tags"] == {"NOUN": 1}
    assert survey.tags(survey.read(str(path), columns={"tag": "xpos"}))["tags"] == {"NNS": 1}
    conll = tmp_path / "b.conll"
    conll.write_text("x Dogs NNS\n\n", encoding="utf-8")
    found = survey.read(str(conll), columns={"form": 1, "tag": 0})
    assert (dict(found.forms), dict(found.tags)) == ({"Dogs": 1}, {"x": 1})


SENTENCE = "a\tB-X\nb\tI-X\nc\tO\n\n"


@pytest.mark.parametrize("asides", [False, True])
def test_a_mistake_in_the_tags_is_named_with_its_line(tmp_path: Path, asides: bool) -> None:
    path = tmp_path / "a.conll"
    path.write_text(SENTENCE * 3 + "# wrong\nd\tO\ne\tI-X\n\n" + SENTENCE, encoding="utf-8")
    line, tag = 15, -1
    if asides:  # CoNLL-U, with a line that is no word before the wrong one
        path = tmp_path / "a.conllu"
        word = "{}\tw\t_\t_\t{}" + "\t_" * 5 + "\n"
        good, bad = word.format(1, "B-X") + word.format(2, "I-X"), word.format(1, "O") + word.format(2, "I-X")
        path.write_text(f"{good}\n" * 3 + "# wrong\n1-2\tww" + "\t_" * 8 + f"\n{bad}\n{good}\n", encoding="utf-8")
        line, tag = 13, 4
    for read in (lambda: survey.read(str(path), columns={"tag": tag}), lambda: trained(path, tmp_path, tag)):
        with pytest.raises(DataError, match=rf"^\S+:{line}: tags that mix schemes.*'I-X' follows 'O' \(\S+:{line}\)"):
            read()


def test_the_stream_of_a_mistake_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((SENTENCE * 2 + "d\tI-X\n\n").encode())))
    with pytest.raises(DataError, match=r"^<stdin>:9: tags that mix schemes"):
        survey.read("-", format="conll")


def trained(path: Path, folder: Path, tag: int = -1) -> str | None:
    """The scheme that a training finds."""
    source = Labelled(str(path), columns={"tag": tag})
    return tag_field(source.corpus(folder / "cache"), source, TaggerModel()).source


@pytest.mark.parametrize(
    ("rows", "scheme"),
    [
        (["B I O", "O B"], "iob2"),
        (["I I O I", "I B O"], "iob1"),
        (["B E O S"], "bioes"),
        (["B-X I-X O"], "iob2"),
        (["NOUN VERB", "O O"], None),
        (["N-m V-f"], None),
        (["O O", "X"], None),
    ],
)
def test_check_and_train_find_the_same_scheme(tmp_path: Path, rows: list[str], scheme: str | None) -> None:
    path = tmp_path / "a.conll"
    path.write_text("".join("".join(f"w\t{tag}\n" for tag in row.split()) + "\n" for row in rows), encoding="utf-8")
    assert survey.read(str(path)).scheme == trained(path, tmp_path) == scheme


def test_rows_are_for_people() -> None:
    section = {"a_b": 1234, "share": 0.5, "none": None, "list": ["x", "y"], "empty": [], "by": {"N": 1000}}
    assert list(survey.rows(section)) == [
        ("a b", "1,234"),
        ("share", "50.00%"),
        ("none", "none"),
        ("list", "x y"),
        ("empty", "none"),
        ("by", 1),
        ("  N", "1,000"),
    ]


def test_another_format_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("It rains.\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"a\.txt: a tagger reads the formats conllu, conll, received lines"):
        survey.read(str(path))
    with pytest.raises(DataError, match="nothere: no such file"):
        survey.read("nothere")
