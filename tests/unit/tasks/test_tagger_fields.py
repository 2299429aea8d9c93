"""What the word vectors of a file become: rows of the vocabulary, and how much of the training data they cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from riverrun.config.tagger import Words
from riverrun.data.corpus import Corpus
from riverrun.errors import DataError
from riverrun.tasks.tagger_fields import lexicon
from riverrun.text.formats import read_vectors

FASTTEXT = Path(__file__).parents[2] / "fixtures" / "fasttext-gensim.bin"


def corpus(folder: Path, forms: list[str]) -> Corpus:
    return Corpus.build([{"form": forms, "tag": ["X"] * len(forms)}], folder, columns=("form", "tag"))


def text_file(folder: Path, **vectors: list[float]) -> str:
    path = folder / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in vectors.items()))
    return str(path)


def test_a_word_that_the_file_has_in_lower_case_only_gets_that_vector(tmp_path: Path) -> None:
    path = text_file(tmp_path, the=[1, 2], Dog=[3, 4], dog=[5, 6], cat=[7, 8])
    found = lexicon(corpus(tmp_path, ["The", "Dog", "Ox"]), Words(size=2, vectors=path, lower=False, extra=4))
    assert found.vectors is not None
    rows = dict(zip(found.field.vocab.symbols, found.vectors.matrix.tolist(), strict=True))
    assert (rows["The"], rows["Dog"], rows["cat"]) == ([1, 2], [3, 4], [7, 8])
    assert np.isnan(rows["Ox"]).all() and np.isnan(rows["<unk>"]).all()
    assert (found.vectors.covered_forms, found.vectors.covered_tokens) == (2 / 3, 2 / 3)


def test_a_word_composed_of_pieces_has_a_vector_and_does_not_count_as_covered(tmp_path: Path) -> None:
    size = read_vectors(str(FASTTEXT)).matrix.shape[1]
    known = read_vectors(str(FASTTEXT)).words[1]
    data = corpus(tmp_path, [known, known.lower() + "xyz"])
    found = lexicon(data, Words(size=size, vectors=str(FASTTEXT), lower=False))
    assert found.vectors is not None
    assert np.isfinite(found.vectors.matrix[1:]).all() and len(found.field.vocab) == 3
    assert found.vectors.covered_tokens == 0.5
    with pytest.raises(DataError, match=r"has a vector for 50\.0% of the running words"):
        lexicon(data, Words(size=size, vectors=str(FASTTEXT), lower=False, coverage=0.6))


def test_rare_words_are_read_as_unknown_more_often(tmp_path: Path) -> None:
    found = lexicon(corpus(tmp_path, ["a", "a", "a", "b"]), Words(dropout=0.5))
    rates = dict(zip(found.field.vocab.symbols, found.unknown_rates.tolist(), strict=True))
    assert rates == {"<unk>": 0.0, "a": 0.5 / 3.5, "b": 0.5 / 1.5}
