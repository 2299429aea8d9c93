"""Corpora and encoders: what they refuse, and what they leave out."""

from __future__ import annotations

import os

import numpy as np
import pytest

from riverrun.data.corpus import Corpus
from riverrun.data.sentences import SentenceEncoder, SentenceFields
from riverrun.errors import DataError
from riverrun.text.fields import CharField, TagField, WordField
from riverrun.text.vocab import Vocab

WORDS = WordField(Vocab(["<unk>", "a"], "<unk>"))
TAGS = TagField(Vocab(["X", "Y"]))


def test_columns_of_different_lengths(tmp_path):
    rows = [{"form": ["a"], "tag": ["X"]}, {"form": ["a", "b"], "tag": ["X"]}]
    with pytest.raises(DataError, match=r"sentence 2: columns of different lengths \[1, 2\]"):
        Corpus.build(rows, tmp_path, columns=("form", "tag"))


def test_an_empty_corpus(tmp_path):
    corpus = Corpus.build([], tmp_path, columns=("form", "tag"))
    assert (len(corpus), corpus.tokens, corpus.symbols) == (0, 0, {"form": [], "tag": []})
    assert corpus.take(np.zeros(0, int), "form").tolist() == [] and list(corpus.column("tag")) == []
    assert corpus.recode("tag", lambda tags: tags).tokens == 0


def test_a_corpus_that_is_built_over_one_in_use_leaves_it_readable(tmp_path):
    before = Corpus.build([{"form": [f"a{k}"] * 40} for k in range(2000)], tmp_path, columns=("form",))
    inode = (tmp_path / "form.ids").stat().st_ino
    after = Corpus.build([{"form": ["b"]}], tmp_path, columns=("form",))
    # To read from a mapped file that was shortened ends the process; so the file is looked at first.
    assert (tmp_path / "form.ids").stat().st_ino != inode
    assert before.sentence(1999) == {"form": ["a1999"] * 40}
    assert after.sentence(0) == {"form": ["b"]} == Corpus.open(tmp_path).sentence(0)


def test_a_corpus_that_could_not_be_built_leaves_the_one_before(tmp_path):
    Corpus.build([{"form": ["a"]}], tmp_path, columns=("form",))
    names = sorted(os.listdir(tmp_path))
    with pytest.raises(DataError, match="sentence 2: columns of different lengths"):
        Corpus.build([{"form": ["b"], "tag": ["X"]}, {"form": [], "tag": ["X"]}], tmp_path, columns=("form", "tag"))
    assert sorted(os.listdir(tmp_path)) == names
    assert Corpus.open(tmp_path).sentence(0) == {"form": ["a"]}


def test_other_columns_are_left_out(tmp_path):
    corpus = Corpus.build([{"form": ["a"], "tag": ["X"]}], tmp_path, columns=("tag",))
    assert corpus.sentence(0) == {"tag": ["X"]}


def test_tags_must_be_as_many_as_words_and_known():
    encoder = SentenceEncoder(SentenceFields(WORDS, None, TAGS))
    with pytest.raises(DataError, match="as many tags as it has words"):
        encoder.encode([["a", "a"], ["a"]], [["X"], ["X", "Y"]])
    with pytest.raises(DataError, match="'Z' is not among the 2 known symbols: X, Y"):
        encoder.encode([["a"]], [["Z"]])


def test_a_batch_has_the_fields_that_there_are():
    chars = CharField.count({"ab": 1})
    assert sorted(SentenceEncoder(SentenceFields(WORDS, None, TAGS)).encode([["a"]])) == ["words"]
    only = SentenceEncoder(SentenceFields(None, chars, TAGS)).encode([["ab", "ab"], []], [["X", "Y"], []])
    assert sorted(only) == ["chars", "chars.index", "tags"]
    assert len(only["chars"]) == 1 and only["tags"].lengths.tolist() == [2, 0]
    empty = SentenceEncoder(SentenceFields(WORDS, chars, TAGS)).encode([])
    assert {name: array.shape for name, array in empty.flat().items()} == {
        "words": (0, 0), "words.lengths": (0,), "chars": (0, 0), "chars.lengths": (0,),
        "chars.index": (0, 0), "chars.index.lengths": (0,),
    }  # fmt: skip
