"""Units: what they read and write, what they do not know, how they are learned and stored."""

from __future__ import annotations

import io
import time
from itertools import pairwise
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.config import lm
from riverrun.config.struct import tag_of
from riverrun.errors import CheckpointError, ConfigError, DataError
from riverrun.text import bpe, units
from riverrun.text.formats import read_lines, read_text
from riverrun.text.units import AnyUnits, Bytes, Chars, Words, dump_units, learn, load_units, split_words
from riverrun.text.vocab import Vocab

SAMPLE = "the cat sat on the mat .\n\n  the\tdog – naïve 😀 – sat too .\n"
SETTINGS: dict[str, lm.AnyUnits] = {
    "words": lm.WordUnits(),
    "chars": lm.CharUnits(),
    "bytes": lm.ByteUnits(),
    "bpe": lm.BpeUnits(size=270),
}
UNITS: dict[str, AnyUnits] = {kind: learn(settings, [SAMPLE]) for kind, settings in SETTINGS.items()}

# Everything that Python calls text but the halves of UTF-16, with much white space and letters that are known.
TEXTS = st.text(
    st.one_of(st.sampled_from("thecatso .\n\r\t\0\u00a0\u2028é😀"), st.characters(exclude_categories=["Cs"]))
)
CUTS = st.lists(st.integers(0, 40), max_size=6)
everywhere = pytest.mark.parametrize("kind", UNITS)


def cut(text: str, places: list[int]) -> list[str]:
    ends = [0, *sorted(min(k, len(text)) for k in places), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]


def encoded(of: AnyUnits, blocks: list[str]) -> list[int]:
    return [id for part in of.encode(blocks) for id in part.tolist()]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of tests are cut too."""
    monkeypatch.setattr(units, "_BLOCK", 3)
    monkeypatch.setattr(bpe, "_BLOCK", 3)


def test_every_kind_is_here() -> None:
    assert {tag_of(kind) for kind in get_args(AnyUnits)} == set(UNITS)
    assert {tag_of(kind) for kind in get_args(lm.AnyUnits)} == set(SETTINGS)
    assert [tag_of(found) for found in UNITS.values()] == list(UNITS)


# -- to ids and back


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
@given(text=TEXTS)
def test_any_text_comes_back(kind: str, text: str) -> None:
    found = UNITS[kind]
    ids = found.ids(text)
    assert found.text(ids) == text
    assert all(0 <= id < found.size for id in ids)
    assert found.unknowns(text) == [] and found.unknown is None


@given(text=st.text(st.sampled_from(sorted(set(SAMPLE)))))
def test_text_of_known_characters_comes_back(text: str) -> None:
    chars = UNITS["chars"]
    assert chars.text(chars.ids(text)) == text and chars.unknowns(text) == []


@given(text=TEXTS)
def test_an_unknown_character_is_listed_as_often_as_it_occurs(text: str) -> None:
    chars = UNITS["chars"]
    assert chars.unknowns(text) == [character for character in text if character not in SAMPLE]
    assert chars.text(chars.ids(text)) == "".join(c if c in SAMPLE else "\N{REPLACEMENT CHARACTER}" for c in text)


@given(lines=st.lists(st.lists(st.sampled_from(["the", "cat", "–", "naïve", "😀"]))))
def test_lines_of_known_words_come_back(lines: list[list[str]]) -> None:
    words = UNITS["words"]
    text = "\n".join(" ".join(line) for line in lines)
    ids = words.ids(text)
    assert words.text(ids) == text
    assert ids.count(words.eos) == max(0, len(lines) - 1)  # between lines, and not behind the last one


@everywhere
@given(data=st.data())
def test_pieces_are_the_same_text_and_never_half_a_character(kind: str, data: st.DataObject) -> None:
    found = UNITS[kind]
    ids = data.draw(st.lists(st.integers(0, found.size - 1)))
    decoder = found.pieces()
    for _ in range(2):  # after the end, a new text
        pieces = [*map(decoder.feed, ids), decoder.rest()]
        assert "".join(pieces) == found.text(ids)


def test_a_character_comes_with_its_last_byte() -> None:
    decoder = Bytes().pieces()
    assert [decoder.feed(byte) for byte in "é😀".encode()] == ["", "é", "", "", "", "😀"]
    assert decoder.feed("é".encode()[0]) == "" and decoder.rest() == "\N{REPLACEMENT CHARACTER}"


@everywhere
@pytest.mark.usefixtures("small_blocks")
@given(text=TEXTS, places=CUTS)
def test_a_file_has_the_same_ids_wherever_it_is_cut(kind: str, text: str, places: list[int]) -> None:
    found = UNITS[kind]
    ids = found.ids(text)
    if kind == "words" and text and not text.endswith("\n"):
        ids.append(found.eos)  # its last line has an end too
    assert encoded(found, cut(text, places)) == ids
    assert all(part.dtype == np.int32 for part in found.encode([text]))


def test_the_context_of_a_lower_case_letter_does_not_end_with_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "_BLOCK", 2)
    lower = Words.learn(["ΑΣ ΑΣΑ"], lower=True)  # a sigma at the end of a word is another letter
    assert lower.vocab.symbols[2:] == ["ας", "ασα"]
    assert encoded(lower, ["Α", "Σ", "Α ΑΣ"]) == [3, 2, lower.eos]


@everywhere
def test_a_file_of_lines_and_the_same_text_in_blocks(kind: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(SAMPLE, newline="")
    lines = (line + "\n" for line in read_lines(tmp_path / "text"))
    found = UNITS[kind]
    assert encoded(found, list(read_text(tmp_path / "text"))) == encoded(found, list(lines)) != []


def test_line_ends_of_windows_are_line_breaks() -> None:
    blocks = list(read_text(io.BytesIO(b"a b\r\nc\r\n")))
    assert encoded(Words.learn(blocks), blocks) == [2, 3, 1, 4, 1]
    assert Bytes().text(encoded(Bytes(), blocks)) == "a b\nc\n"


# -- words


def test_white_space_is_that_of_ascii() -> None:
    text = "\ta\u00a0b  c\x0b\x0cd\re\u2028f\x1cg"
    assert split_words(text) == ["a\u00a0b", "c", "d", "e\u2028f\x1cg"]
    words = Words.learn([text])
    assert [words.symbol(id) for id in words.ids(text)] == split_words(text)


def test_the_names_of_the_marks_are_no_words() -> None:
    text = "<s> a </s> <unk>\n"
    for bos_symbol, marks in (("</s>", ["<unk>", "</s>"]), ("<s>", ["<unk>", "</s>", "<s>"])):
        words = Words.learn([text], bos_symbol=bos_symbol)
        assert words.vocab.symbols == [*marks, "a"]  # without `<s>`, no row that nothing is learned of
        assert words.ids(text) == [0, words.ids("a")[0], 0, 0, words.eos]
        assert words.unknowns(text) == ["<s>", "</s>", "<unk>"]
        assert (words.bos, words.eos, words.unknown) == (marks.index(bos_symbol), 1, 0)


def test_words_in_lower_case() -> None:
    words = Words.learn(["The THE the a A B"], lower=True, min_count=2)
    assert words.vocab.symbols == ["<unk>", "</s>", "the", "a"]
    assert words.ids("A b tHe") == [3, 0, 2] and words.unknowns("A b tHe") == ["b"]


def test_the_most_frequent_words_are_kept() -> None:
    text = "c c c b b a a d"
    assert Words.learn([text], limit=2).vocab.symbols == ["<unk>", "</s>", "c", "a"]
    assert Words.learn([text], min_count=3).vocab.symbols == ["<unk>", "</s>", "c"]
    assert Words.learn(["\n"]).vocab.symbols == ["<unk>", "</s>"]


# -- characters


def test_there_is_always_a_line_break() -> None:
    chars = Chars.learn(["aab"], min_count=2)
    assert sorted(chars.vocab.symbols) == ["\n", "<unk>", "a"]
    assert chars.symbol(chars.bos) == "\n" and chars.eos is None
    assert chars.unknowns("ba\n") == ["b"]


def test_a_character_beyond_all_known_ones_and_one_below() -> None:
    chars = Chars.learn(["b"])
    assert chars.ids("\U0010ffffab\udc80") == [0, 0, 2, 0]


# -- learned and stored


@everywhere
def test_symbols_can_be_shown(kind: str) -> None:
    found = UNITS[kind]
    names = [found.symbol(id) for id in range(found.size)]
    assert len(set(names)) == found.size
    assert found.symbol(found.bos) == ("</s>" if kind == "words" else "\n")


def test_bytes_that_are_no_character_are_shown_as_numbers() -> None:
    assert (Bytes().symbol(0xC3), Bytes().symbol(0x61)) == ("\\xc3", "a")


@pytest.mark.parametrize("kind", ["words", "chars", "bpe"])
@pytest.mark.parametrize("blocks", [[], ["", ""]])
def test_nothing_can_be_learned_from_nothing(kind: str, blocks: list[str]) -> None:
    with pytest.raises(DataError, match=r"no text to learn the \w+ from; expected at least one"):
        learn(SETTINGS[kind], blocks)


@everywhere
@pytest.mark.usefixtures("small_blocks")
@given(places=CUTS)
def test_the_same_is_learned_wherever_the_text_is_cut(kind: str, places: list[int]) -> None:
    assert learn(SETTINGS[kind], cut(SAMPLE, places)) == UNITS[kind]


def test_a_recipe_says_how_words_and_characters_are_learned() -> None:
    words = learn(lm.WordUnits(min_count=2, limit=1, lower=True), ["A a b b c"], bos_symbol="<s>")
    assert words == Words(Vocab(["<unk>", "</s>", "<s>", "a"], "<unk>"), lower=True, bos_symbol="<s>")
    assert learn(lm.CharUnits(min_count=2), ["aab"]) == Chars(Vocab(["<unk>", "\n", "a"], "<unk>"))


@everywhere
def test_what_is_stored_is_the_same(kind: str) -> None:
    again = load_units(dump_units(UNITS[kind]), kind=kind)
    assert again == UNITS[kind]
    assert again.ids(SAMPLE) == UNITS[kind].ids(SAMPLE)


WORDS = '"kind":"words","vocab":{"kind":"vocab","symbols":%s,"unknown":"<unk>"}'
CHARS = '{"kind":"chars","vocab":{"kind":"vocab","symbols":%s,"unknown":"<unk>"}}'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"kind":"bytes"', "truncated"),
        ('{"kind":"tags"}', "Invalid value 'tags'"),
        ('{"kind":"bytes","a":1}', "unknown field `a`"),
        ("[]", "Expected `object`, got `array`"),
        ('{"kind":"bpe","merges":[[97,98],[256,258]]}', "merge 2 of 2: .* 257 pieces before it, received 256 and 258"),
        ('{"kind":"bpe","merges":[[-1,98]]}', "merge 1 of 1: .* received -1 and 98"),
        ('{"kind":"bpe","merges":[[97,98],[97,98]]}', "2 merges make some pieces twice"),
        ("{" + WORDS % '["<unk>","a"]' + "}", "expected a vocabulary with </s> .* received one of 2 symbols"),
        ("{" + WORDS % '["<unk>","</s>"]' + ',"bos_symbol":"<s>"}', "bos_symbol must be </s> or <s> and in the"),
        ("{" + WORDS % '["<unk>","</s>","a"]' + ',"bos_symbol":"a"}', "bos_symbol must be .* received a"),
        ("{" + WORDS % '["<unk>","</s>"]' + ',"digits":true}', "unknown field `digits`"),  # the words of a tagger
        (CHARS % r'["<unk>","\n","ab"]', "received the symbol 'ab'"),
        (CHARS % '["<unk>","a"]', "the line break among them.* received 2 symbols without one"),
        (CHARS % '["<unk>","a","a"]', "lists some of them twice"),
    ],
)
def test_a_damaged_file(data: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=rf"^m/units.json: not the units of a language model: .*{message}"):
        load_units(data.encode(), "m/units.json")


def test_units_of_another_kind() -> None:
    with pytest.raises(CheckpointError, match=r"units.json: expected units of kind 'words', received 'bytes'"):
        load_units(dump_units(Bytes()), kind="words")


@pytest.mark.parametrize("kind", ["words", "bytes", "bpe"])
def test_half_a_character_of_utf_16(kind: str) -> None:
    with pytest.raises(DataError, match=r"character 4 is U\+DC80, one half .* received 'cat\\udc80'"):
        UNITS[kind].ids("cat\udc80")


def test_too_few_pieces() -> None:
    with pytest.raises(ConfigError, match=r"model.units.size: bpe has the 256 bytes as pieces at least, received 100"):
        learn(lm.BpeUnits(size=100), ["a"])


def test_a_word_of_six_million_letters_is_read_in_linear_time() -> None:
    words = Words.learn(["x"])
    begin = time.process_time()
    assert encoded(words, ["x" * 1000] * 6000) == [0, 1]
    assert time.process_time() - begin < 1.5  # a tenth of a second; joined anew at each block, it is several


@pytest.mark.data
def test_wikitext_2_has_its_published_size(shared_data: Path) -> None:
    folder = shared_data / "lm" / "wikitext-2"
    words = learn(lm.WordUnits(), read_text(folder / "train.shuffled-articles.txt"))
    assert words.size == 33278
    tokens = {"train.shuffled-articles": 2088628, "valid": 217646, "test": 245569}
    for name, size in tokens.items():
        assert sum(map(len, words.encode(read_text(folder / f"{name}.txt")))) == size
