"""ARPA files: read and written again they are the same, and every mistake in them is found with its line."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest

from riverrun.classic.arpa import read_arpa, write_arpa
from riverrun.classic.counts import count
from riverrun.classic.ngram import NGram
from riverrun.classic.smoothing import smooth
from riverrun.errors import ConfigError, DataError
from riverrun.text.vocab import Vocab

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"

GOOD = """\
\\data\\
ngram 1=5
ngram 2=4
ngram 3=1

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.3
-0.5\t</s>
-0.6\ta\t-0.2
-0.7\tb\t-0.1

\\2-grams:
-0.2\t<s> a\t-0.4
-0.3\ta b
-0.4\tb a
-0.5\ta </s>

\\3-grams:
-0.1\t<s> a b

\\end\\
"""


def read(text: str) -> tuple[NGram, Vocab]:
    return read_arpa(io.StringIO(text), dtype=np.float64)


def log10(model: NGram, vocab: Vocab, line: str) -> list[float]:
    ids = np.array(vocab.ids((line + " </s>").split()))
    return (next(model.read(ids))[1] / np.log(10)).round(6).tolist()


def test_what_the_numbers_mean() -> None:
    model, vocab = read(GOOD)
    assert vocab.symbols == ["<unk>", "<s>", "</s>", "a", "b"] and vocab.unknown == "<unk>"
    assert (model.bos, model.eos, model.unknown, model.order) == (1, 2, 0, 3)
    assert log10(model, vocab, "a b") == [-0.2, -0.1, -0.1 - 0.5]  # b </s>: b has a weight, a b has none
    assert log10(model, vocab, "b c") == [-0.3 - 0.7, -0.1 - 1.5, -0.5]


@pytest.mark.parametrize("name", ["ngram-toy", "ngram-toy-pruned"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_read_and_written_again_it_is_the_same(name: str, suffix: str, tmp_path: Path) -> None:
    model, vocab = read_arpa(FIXTURES / f"{name}.arpa", dtype=np.float64)
    path = tmp_path / f"again.arpa{suffix}"
    write_arpa(path, model, vocab)
    again, same = read_arpa(path, dtype=np.float64)
    assert same == vocab
    for part in ("base", "word", "first"):
        np.testing.assert_array_equal(getattr(again.trie, part), getattr(model.trie, part))
    np.testing.assert_allclose(again.log_prob, model.log_prob, rtol=1e-8)  # nine digits are written
    np.testing.assert_allclose(again.log_backoff, model.log_backoff, rtol=1e-8)
    write_arpa(tmp_path / "third.arpa", again, vocab)
    third, _ = read_arpa(tmp_path / "third.arpa", dtype=np.float64)
    np.testing.assert_array_equal(third.log_prob, again.log_prob)


def test_bos_is_written_as_what_is_never_predicted(tmp_path: Path) -> None:
    model, vocab = read(GOOD.replace("-99\t<s>", "0\t<s>"))
    write_arpa(tmp_path / "model.arpa", model, vocab)
    assert "\n-99\t<s>\t-0.3\n" in (tmp_path / "model.arpa").read_text()


@pytest.mark.parametrize("seed", range(3))
def test_words_with_the_first_and_the_last_id_follow_others(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    symbols = ["a", "<s>", "</s>", "<unk>", "b", "c"]
    ids = np.random.default_rng(seed).choice([0, 2, 4, 5], 300)
    counts = count(ids, order=4, size=6, bos=1, eos=2, unknown=3)
    model = smooth(counts, "witten-bell", dtype=np.float64)
    write_arpa(tmp_path / "model.arpa", model, Vocab(symbols))
    again, vocab = read_arpa(tmp_path / "model.arpa", dtype=np.float64)
    assert vocab.symbols == symbols
    np.testing.assert_array_equal(again.trie.word, model.trie.word)
    np.testing.assert_allclose(again.log_prob, model.log_prob, rtol=1e-8)


def test_lines_in_any_order_and_any_white_space_of_ascii() -> None:
    expected, vocab = read(GOOD)
    head, rest = GOOD.split("\\2-grams:\n")
    grams, tail = rest.split("\n\n", 1)
    shuffled = "\n".join("  " + line.replace("\t", " \t ") + " " for line in reversed(grams.split("\n")))
    tail = tail.replace("a b\n\n", "a b\n")
    text = f"\n{head.replace('ngram 1=5', 'ngram  1 = 5')}\\2-grams:\n{shuffled}\n\n\n{tail}\n\n".replace("\n", "\r\n")
    found, same = read(text)
    assert same == vocab
    np.testing.assert_array_equal(found.log_prob, expected.log_prob)
    np.testing.assert_array_equal(found.trie.word, expected.trie.word)


def test_a_no_break_space_is_part_of_a_word() -> None:
    model, vocab = read(GOOD.replace("\tb", "\tb\u00a0c").replace(" b", " b\u00a0c"))
    assert "b\u00a0c" in vocab.symbols and model.trie.walk([vocab.id("a"), vocab.id("b\u00a0c")]) >= 0


def test_text_before_the_data_is_passed_over() -> None:
    assert read("made by hand\n\n" + GOOD)[1] == read(GOOD)[1]


def test_unknown_words_where_the_file_says_nothing_of_them() -> None:
    model, vocab = read(GOOD.replace("ngram 1=5", "ngram 1=4").replace("-1.5\t<unk>\n", ""))
    assert vocab.symbols[-1] == "<unk>" and model.unknown == 4 == vocab.id("anything")
    assert model.notes == ("no <unk> among the 1-grams: unknown words have the log probability -100",)
    assert log10(model, vocab, "c")[0] == -100.3
    model, vocab = read(GOOD.replace("<unk>", "<UNK>"))
    assert vocab.unknown == "<UNK>" and model.unknown == 0 and model.notes == ()


def test_only_single_words() -> None:
    text = "\\data\\\nngram 1=3\n\n\\1-grams:\n-0.5\t<s>\n-0.5\t</s>\n-0.5\t<unk>\n\n\\end\\\n"
    model, vocab = read(text)
    assert model.order == 1 and log10(model, vocab, "x") == [-0.5, -0.5]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\\n", "", r":21: the file ends here; expected a line '.data."),
        ("ngram 1=5\n", "", r":2: expected the number of 1-grams, received that of 2-grams"),
        ("ngram 1=5", "ngram one=5", r":2: expected 'ngram 1=' and a number, or '.1-grams:', received 'ngram one=5'"),
        ("ngram 1=5\nngram 2=4\nngram 3=1\n", "", r":3: the header does not say how many 1-grams there are"),
        ("ngram 1=5", "ngram 1=6", r":12: the header says 6 1-grams, received 5"),
        ("ngram 1=5", "ngram 1=900000000000", r":12: the header says 900000000000 1-grams, received 5"),
        ("ngram 2=4", "ngram 2=3", r":17: expected '.3-grams:', received '-0.5.a </s>'; there are more n-grams above"),
        ("ngram 3=1", "ngram 3=2", r":21: the header says 2 3-grams, received 1"),
        ("ngram 2=4\n", "ngram 2=5\n", r":18: the header says 5 2-grams, received 4"),
        ("\\2-grams:", "\\3-grams:", r":13: expected '.2-grams:', received '.3-grams:'"),
        ("-0.3\ta b\n", "-0.3\ta b a a\n", r":15: expected a log probability and 2 words, .*received 5 fields"),
        ("-0.3\ta b\n", "-0.3\ta\n", r":15: expected a log probability and 2 words, .*received 2 fields"),
        ("<s> a b\n", "<s> a b\t-0.1\n", r":20: expected a log probability and 3 words, received 5 fields"),
        ("-0.3\ta b", "minus\ta b", r":15: expected a number, received 'minus'"),
        ("-0.3\ta b", "nan\ta b", r":15: expected a number, received 'nan'"),
        ("-0.3\ta b", "-inf\ta b", r":15: expected a number, received '-inf'"),
        ("<s> a\t-0.4", "<s> a\tx", r":14: expected a number, received 'x'"),
        ("-0.3\ta b", "0.3\ta b", r":15: expected a log probability of at most 0, received 0.3"),
        ("-0.3\ta b", "-0.3\ta c", r":15: the word 'c' is not among the 1-grams"),
        ("-0.4\tb a", "-0.4\ta b", r":16: the n-gram 'a b' is there twice"),
        ("-0.7\tb", "-0.7\ta", r":11: the 1-gram 'a' is there twice"),
        ("-99\t<s>\t", "-99\t<b>\t", r":7: there is no <s> among the 1-grams"),
        ("</s>", "</b>", r":7: there is no </s> among the 1-grams"),
        ("-0.1\t<s> a b", "-0.1\tb b a", r":20: the n-gram 'b b a' is there, but not what it begins with"),
        ("-0.6\ta\t-0.2", "-0.6\ta", r":10: longer n-grams begin with 'a': it needs a back-off weight"),
        ("-0.2\t<s> a\t-0.4", "-0.2\t<s> a", r":14: longer n-grams begin with '<s> a': it needs a back-off weight"),
        ("\\end\\\n", "", r":21: the file ends here; expected '.end.'"),
        ("\\end\\\n", "\\end\\\nmore\n", r":23: expected nothing behind '.end.', received 'more'"),
    ],
)  # fmt: skip
def test_mistakes_are_found_with_their_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.arpa"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(DataError, match="model.arpa" + message):
        read_arpa(path)


def test_mistakes_far_down_are_found_with_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riverrun.classic.arpa._BLOCK", 2)
    for old, new, line in (("-0.4\tb a", "x\tb a", 16), ("-0.7\tb", "-0.7\ta", 11), ("-0.5\ta </s>", "-0.5 a c", 17)):
        (tmp_path / "model.arpa").write_text(GOOD.replace(old, new))
        with pytest.raises(DataError, match=f"model.arpa:{line}: "):
            read_arpa(tmp_path / "model.arpa")
    (tmp_path / "model.arpa").write_text(GOOD)
    assert log10(*read_arpa(tmp_path / "model.arpa"), "a b") == [-0.2, -0.1, -0.6]


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "model.arpa").write_text("")
    with pytest.raises(DataError, match=r"model.arpa"):
        read_arpa(tmp_path / "model.arpa")


def test_models_that_cannot_be_written(tmp_path: Path) -> None:
    model, vocab = read(GOOD)
    path = tmp_path / "model.arpa"
    for change in ({"flat": True, "smoothing": "add-k"}, {"smoothing": "stupid-backoff"}):
        with pytest.raises(ConfigError, match="cannot be written as ARPA, which has probabilities"):
            write_arpa(path, dataclasses.replace(model, **change), vocab)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a model of running text cannot be written"):
        write_arpa(path, dataclasses.replace(model, eos=None), vocab)
    with pytest.raises(ConfigError, match="vocab: expected the 5 symbols of the model, received 2"):
        write_arpa(path, model, Vocab(["a", "b"]))
    with pytest.raises(ConfigError, match="vocab: expected <s> as the bos of the model, received 'x'"):
        write_arpa(path, model, Vocab(["<unk>", "x", "</s>", "a", "b"]))
    for bad in ("b c", "", "b\n"):
        with pytest.raises(DataError, match="cannot be written as ARPA, where white space parts the words"):
            write_arpa(path, model, Vocab(["<unk>", "<s>", "</s>", "a", bad]))
    assert not path.exists()
