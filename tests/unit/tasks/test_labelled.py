"""Files of labelled words: which columns, what is held out, and where a wrong tag stands."""

from __future__ import annotations

from itertools import pairwise

import pytest

from riverrun.errors import ConfigError, DataError
from riverrun.tasks.labelled import Labelled, held_out, train_and_dev
from riverrun.tasks.tagger_fields import check_tags
from riverrun.text.fields import TagField
from riverrun.text.vocab import Vocab

WORD = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"


def test_columns_by_format_name_and_number(tmp_path):
    (tmp_path / "a.conllu").write_text(WORD.format(1, "dogs", "NOUN") + "\n")
    (tmp_path / "a.conll").write_text("dogs NNS X O\n\n")
    for name, columns, expected in [
        ("a.conllu", {}, (["dogs"], ["NOUN"])),
        ("a.conllu", {"tag": "form"}, None),
        ("a.conllu", {"tag": 0}, (["dogs"], ["1"])),
        ("a.conll", {}, (["dogs"], ["O"])),
        ("a.conll", {"tag": 1}, (["dogs"], ["NNS"])),
        ("a.conll", {"form": -2, "tag": -3}, (["X"], ["NNS"])),
        ("a.conll", {"tag": -4}, None),
    ]:
        labelled = Labelled(str(tmp_path / name), columns=columns)
        if expected is None:
            with pytest.raises(DataError, match=r":1: the words and their tags are the same column"):
                list(labelled.pairs())
        else:
            assert list(labelled.pairs()) == [expected]
    with pytest.raises(DataError, match=r"a\.conllu:1: no column 'uops'; did you mean 'upos'\?"):
        list(Labelled(str(tmp_path / "a.conllu"), columns={"tag": "uops"}).pairs())
    with pytest.raises(ConfigError, match="a tagger reads the formats conllu, conll, received tsv"):
        Labelled(str(tmp_path / "a.conll"), "tsv")


def test_a_file_is_looked_at_when_it_is_named(tmp_path):
    (tmp_path / "a").write_bytes("カフェ\tX\n\n".encode("utf-16-le"))
    assert list(Labelled(str(tmp_path / "a"), encoding="utf-16-le").pairs()) == [(["カフェ"], ["X"])]
    for format in (None, "conll"):
        with pytest.raises(DataError, match=r"nothere: no such file"):
            Labelled(str(tmp_path / "nothere"), format)
    assert Labelled("-", "conll").name == "<stdin>"


def test_notes_are_noted_once(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes("été\tX\n\n".encode("latin-1"))
    labelled = Labelled(str(path))
    assert list(labelled.pairs()) == list(labelled.pairs()) == [(["été"], ["X"])]
    assert len(labelled.notes) == 1 and "read as Latin-1" in labelled.notes[0]


@pytest.mark.parametrize("share", [0.1, 0.25, 1 / 3, 0.5])
def test_a_share_is_held_out_evenly(share):
    held = [number for number in range(3000) if held_out(share)(number)]
    assert len(held) == pytest.approx(3000 * share, abs=1)
    gaps = {b - a for a, b in pairwise(held)}
    assert max(gaps) - min(gaps) <= 1


def test_no_sentence_is_in_both_parts_and_none_is_lost(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("".join(f"w{k}\tX\n\n" for k in range(95)))
    kept, rest = train_and_dev(Labelled(str(path)), None, tmp_path / "cache", 0.1)
    words = [set(corpus.symbols["form"]) for corpus in (kept, rest)]
    assert words[0] | words[1] == {f"w{k}" for k in range(95)} and not words[0] & words[1]
    assert (len(kept), len(rest)) == (86, 9)


def test_a_cache_is_opened_only_for_the_same_file_read_the_same_way(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("a\tX\tY\n\nb\tX\tY\n\n")

    def symbols(**more) -> tuple[list[str], list[str]]:
        corpus = Labelled(str(path), **more).corpus(tmp_path / "cache")
        return corpus.symbols["form"], corpus.symbols["tag"]

    assert symbols() == (["a", "b"], ["Y"])
    assert symbols(columns={"tag": 1}) == (["a", "b"], ["X"])
    assert symbols() == (["a", "b"], ["Y"])
    path.write_text("c\tX\tZ\n\n")
    assert symbols() == (["c"], ["Z"])
    assert len(Labelled(str(path)).corpus(tmp_path / "cache", lambda number: False, kept="none")) == 0
    assert len(Labelled(str(path)).corpus(tmp_path / "cache")) == 1


@pytest.mark.parametrize("shares", [(0.0009, None), (None, 0.0009), (0.0009, 0.0008), (0.1, 0.0009)])
def test_a_cache_of_another_share_is_not_opened(tmp_path, shares):
    # Of a share this small, the first sentence that is held out is one of the second thousand.
    path, dev = tmp_path / "a.conll", tmp_path / "dev.conll"
    path.write_text("".join(f"w{k}\tX\n\n" for k in range(2500)))
    dev.write_text("d\tX\n\n")
    for share in shares:
        given = None if share else Labelled(str(dev))
        kept, rest = train_and_dev(Labelled(str(path)), given, tmp_path / "cache", share or 0.1)
        held = {f"w{k}" for k in range(2500) if share and held_out(share)(k)}
        assert set(rest.symbols["form"]) == (held or {"d"})
        assert set(kept.symbols["form"]) == {f"w{k}" for k in range(2500)} - held


@pytest.mark.parametrize("before", ["", "# a comment\n", "# a\n# b\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n"])
@pytest.mark.parametrize("first", ["", "\n\n", WORD.format(1, "a", "NOUN") + "\n\n\n"])
def test_the_line_of_an_unknown_tag_is_right_whatever_stands_before_it(tmp_path, before, first):
    path = tmp_path / "dev.conllu"
    text = (
        first + before + WORD.format(1, "a", "NOUN") + "1.1" + WORD.format("", "x", "X") + WORD.format(2, "b", "INTJ")
    )
    path.write_text(text + "\n" + WORD.format(1, "c", "INTJ") + "\n")
    labelled = Labelled(str(path))
    number = text.count("\n")
    with pytest.raises(DataError, match=rf"dev\.conllu:{number}: the tag 'INTJ' is never seen .*\(1 such tag: INTJ\)"):
        check_tags(labelled.corpus(tmp_path / "cache"), labelled, TagField(Vocab(["NOUN"])))
