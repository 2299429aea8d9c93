"""fastText's binary models: against a plain computation, against vectors that other programs gave, and every message.

The two files in tests/fixtures hold words of six short sentences in five languages: fasttext-gensim.bin is by gensim
4.4, fasttext-classifier.bin by fastText 0.9.2 (a classifier: with labels, and with </s>).
"""

from __future__ import annotations

import gzip
import io
import os
import re
import struct
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from riverrun.errors import DataError
from riverrun.text.formats import read_vectors

FIXTURES = Path(__file__).parents[2] / "fixtures"
WORDS = ["</s>", "the", "über", "日本語", "e\u0301tude", "aaaaaa", "a", "🙂"]
UNKNOWN = ["unter", "日本", "течение", "aaaaaaa", "cafés", "🙂🙂", "x"]


class Model(NamedTuple):
    """What such a file holds; written out as fastText does."""

    matrix: npt.NDArray[np.float32]
    words: list[bytes]
    labels: list[bytes]
    minn: int
    maxn: int
    bucket: int
    version: int = 12
    kind: int = 2
    pruned: int = -1
    quantised: bool = False

    def bytes(self) -> bytes:
        dim = self.matrix.shape[1]
        args = struct.pack("<12id", dim, 5, 5, 1, 5, 1, 2, self.kind, self.bucket, self.minn, self.maxn, 100, 1e-4)
        entries = [*((word, 0) for word in self.words), *((label, 1) for label in self.labels)]
        counts = struct.pack("<3i2q", len(entries), len(self.words), len(self.labels), 1000, self.pruned)
        dictionary = b"".join(word + b"\0" + struct.pack("<qb", 9, kind) for word, kind in entries)
        dictionary += bytes(8 * max(0, self.pruned))
        output = np.ones((3, dim), "<f4")
        head = b"\xba\x16\x4f\x2f" + struct.pack("<i", self.version)
        matrix = struct.pack("<?2q", self.quantised, *self.matrix.shape) + self.matrix.astype("<f4").tobytes()
        second = struct.pack("<?2q", False, *output.shape) + output.tobytes()
        return head + args + counts + dictionary + matrix + second

    def write(self, path: Path) -> Path:
        data = self.bytes()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path

    def vector(self, word: bytes) -> npt.NDArray[np.float64] | None:
        """The definition, in plain steps."""
        rows = [self.words.index(word)] if word in self.words else []
        if word != b"</s>":
            text = f"<{word.decode()}>"
            for start in range(len(text)):
                for end in range(start + 1, len(text) + 1):
                    gram = text[start:end]
                    if self.minn <= len(gram) <= self.maxn and (start, gram) != (0, "<") and gram != ">":
                        rows.append(len(self.words) + _fnv(gram.encode()) % self.bucket)
        return self.matrix[rows].astype(np.float64).mean(axis=0) if rows else None


def _fnv(data: bytes) -> int:
    code = 2166136261
    for (byte,) in struct.iter_unpack("<b", data):  # signed
        code = (code ^ (byte % 2**32)) * 16777619 % 2**32
    return code


def _model(minn: int = 3, maxn: int = 6, bucket: int = 50, dim: int = 5, words: list[str] = WORDS) -> Model:
    names = [word.encode() for word in words]
    matrix = np.random.default_rng(1).normal(size=(len(names) + bucket, dim)).astype(np.float32)
    return Model(matrix, names, [], minn, maxn, bucket)


MODELS = {
    "as fastText sets them": _model(),
    "single characters": _model(1, 3),
    "from none on": _model(0, 2),
    "one length": _model(5, 5, bucket=1000),
    "one bucket": _model(2, 30, bucket=1),
    "no n-grams": _model(0, 0, bucket=0),
    "no n-grams but buckets": _model(0, 0, bucket=20),
    "one number": _model(dim=1),
}


@pytest.mark.parametrize("name", ["a.bin", "a.bin.gz"])
@pytest.mark.parametrize("case", MODELS)
def test_vectors_are_the_means_of_their_rows(tmp_path: Path, case: str, name: str) -> None:
    model = MODELS[case]
    path = model.write(tmp_path / name)
    vectors = read_vectors(path, size=model.matrix.shape[1])
    assert vectors.words == WORDS
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_allclose(vectors.matrix, [model.vector(word) for word in model.words], rtol=0, atol=1e-6)
    vectors = read_vectors(path, wanted={*UNKNOWN, "the", "🙂"})
    composed = sorted(word for word in UNKNOWN if model.vector(word.encode()) is not None)
    assert vectors.words == ["the", "🙂", *composed]
    for word, row in zip(vectors.words, vectors.matrix, strict=True):
        np.testing.assert_allclose(row, model.vector(word.encode()), rtol=0, atol=1e-6, err_msg=word)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "fasttext-gensim.bin",
            {
                "river": [-0.00696719, 0.02318308, 0.05629773, 0.03629952],
                "über": [-0.03583664, 0.02020974, -0.00113571, 0.00181532],
                "日本語": [0.05240786, -0.03357732, -0.06574824, 0.02013770],
                "rivers": [-0.00676537, 0.00902280, 0.03432108, 0.01584162],
                "überall": [-0.01815949, -0.01630173, -0.02000014, -0.00771719],
                "кафе": [-0.09686448, 0.01955471, -0.07321971, -0.02550948],
            },
        ),
        (
            "fasttext-classifier.bin",
            {
                "</s>": [-0.24563886, 0.18346459, -0.20459647, -0.01110121],
                "river": [-0.08781894, -0.01476138, -0.13613963, 0.10916609],
                "über": [0.12364652, 0.02771764, 0.16363966, -0.12538195],
                "日本語": [-0.30469522, -0.06336614, -0.42510390, 0.34028235],
                "rivers": [-0.04339042, -0.01374893, -0.05542867, 0.04365994],
                "überall": [-0.01912091, -0.00697321, -0.02454037, 0.01980157],
                "кафе": [-0.08282569, -0.02104275, -0.10895204, 0.08477732],
            },
        ),
    ],
)
def test_vectors_are_those_of_other_programs(name: str, expected: dict[str, list[float]]) -> None:
    vectors = read_vectors(FIXTURES / name, wanted=set(expected), size=4)
    assert set(vectors.words) == set(expected)
    for word, row in zip(vectors.words, vectors.matrix, strict=True):
        np.testing.assert_allclose(row, expected[word], rtol=0, atol=1e-6, err_msg=word)


def test_labels_are_no_words() -> None:
    words = read_vectors(FIXTURES / "fasttext-classifier.bin").words
    assert (len(words), words[0]) == (34, "</s>")
    assert not any(word.startswith("__label__") for word in words)


def test_extra_words_are_the_first_ones_and_composed_ones_stand_last(tmp_path: Path) -> None:
    path = _model().write(tmp_path / "a.bin")
    assert read_vectors(path, wanted={"über", "under", "die"}, extra=2).words == ["</s>", "the", "über", "die", "under"]
    assert read_vectors(path, wanted=set()).matrix.shape == (0, 5)


def test_a_word_without_a_row_and_without_n_grams_is_left_out(tmp_path: Path) -> None:
    path = _model(words=["the"]).write(tmp_path / "a.bin")
    assert read_vectors(path, wanted={"", "</s>", "y", "yy"}).words == ["y", "yy"]
    assert read_vectors(_model(4, 6, words=["the"]).write(path), wanted={"", "</s>", "y", "yy"}).words == ["yy"]


def test_a_word_may_hold_bytes_that_are_no_text(tmp_path: Path) -> None:
    names = [b"\xff", b"a\xe3\x81", b"\xfe", b"\x80x"]
    path = _model(words=["0", "1", "2", "3"])._replace(words=names).write(tmp_path / "a.bin")
    vectors = read_vectors(path)
    assert vectors.words == ["\ufffd", "a\ufffd", "\ufffdx"]  # of two that read alike the first one
    some = read_vectors(path, wanted={chr(0xD800), "\ufffd"}, extra=1)
    assert some.words == ["\ufffd", chr(0xD800)]
    assert (len(vectors.matrix), len(some.matrix)) == (3, 2)
    np.testing.assert_array_equal(some.matrix[0], vectors.matrix[0])


def test_a_matrix_can_be_written_to(tmp_path: Path) -> None:
    path = _model().write(tmp_path / "a.bin")
    before = path.read_bytes()
    matrix = read_vectors(path).matrix
    matrix += 1
    assert path.read_bytes() == before


def test_an_old_classifier_has_no_n_grams(tmp_path: Path) -> None:
    model = _model()._replace(version=11, kind=3)
    np.testing.assert_array_equal(read_vectors(model.write(tmp_path / "a.bin")).matrix, model.matrix[: len(WORDS)])
    model = _model()._replace(version=11)
    vectors = read_vectors(model.write(tmp_path / "b.bin"))
    np.testing.assert_allclose(vectors.matrix[1], model.vector(b"the"), rtol=0, atol=1e-6)


def test_it_is_told_apart_by_its_content_not_its_name(tmp_path: Path) -> None:
    data = b"1 2\nthe " + struct.pack("<2f", 1, 2)
    (tmp_path / "cc.en.300.bin").write_bytes(data)
    assert read_vectors(tmp_path / "cc.en.300.bin").matrix.tolist() == [[1, 2]]
    assert read_vectors(_model().write(tmp_path / "vectors.txt")).words == WORDS


def test_standard_input_and_pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read_vectors(_model().write(tmp_path / "a.bin"), wanted={"unter"})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_model().bytes())))
    read = [read_vectors("-", wanted={"unter"})]
    if hasattr(os, "mkfifo"):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=[_model().bytes()])
        writer.start()
        read.append(read_vectors(pipe, wanted={"unter"}))
        writer.join()
    for vectors in read:
        assert vectors.words == ["unter"]
        np.testing.assert_array_equal(vectors.matrix, expected.matrix)


@pytest.mark.parametrize("name", ["a.bin", "a.bin.gz"])
def test_memory_is_that_of_the_words_that_are_kept(tmp_path: Path, name: str) -> None:
    words = [f"w{k}" for k in range(2000)]
    matrix = np.full((22_000, 300), 0.25, np.float32)
    path = _model(words=words)._replace(matrix=matrix, bucket=20_000).write(tmp_path / "a.bin")
    if name.endswith(".gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress((tmp_path / "a.bin").read_bytes(), 1))
    tracemalloc.start()
    vectors = read_vectors(path, wanted={"w1999", "w2000"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(vectors.matrix, np.full((2, 300), 0.25))
    assert (tmp_path / "a.bin").stat().st_size > 26e6
    assert peak < 4e6


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_cut_off_anywhere_is_an_error(tmp_path: Path, packed: bool) -> None:
    model = _model(bucket=3, dim=2, words=["the", "über"])._replace(labels=[b"__label__a"])
    data = model.bytes()
    path = tmp_path / ("a.bin.gz" if packed else "a.bin")

    def write(data: bytes) -> None:
        path.write_bytes(gzip.compress(data) if packed else data)

    write(data)
    assert read_vectors(path).words == ["the", "über"]
    places = set()
    for end in range(4, len(data)):
        write(data[:end])
        with pytest.raises(DataError, match=r"this fastText model ends inside its .*; download or copy it again$") as e:
            read_vectors(path, wanted={"the"})
        places.add(str(e.value).split(" its ")[1].split(";")[0])
    assert places == {"header", "dictionary", "matrix of vectors", "second matrix"}


MISTAKES = {
    "quantised": (
        _model()._replace(quantised=True),
        r": a quantised model of fastText \(\.ftz\); expected a whole one: ",
    ),
    "pruned": (_model()._replace(quantised=True, pruned=7), r": a quantised model of fastText \(\.ftz\); .* give the "),
    "old": (_model()._replace(pruned=0), r": a model of an old fastText whose dictionary does not fit its vectors; "),
    "later": (_model()._replace(version=13), r": version 13 of fastText's format; expected 11 or 12\. Save it with "),
    "no buckets": (_model()._replace(bucket=0), r": the header of this fastText model is damaged; download or copy it"),
    "rows": (
        _model()._replace(bucket=49),
        r": the matrix of vectors is of 58 x 5 numbers; the header of this fastText model says 57 x 5\. The file is",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(tmp_path: Path, case: str) -> None:
    model, message = MISTAKES[case]
    path = model.write(tmp_path / "a.bin")
    with pytest.raises(DataError, match="^" + re.escape(str(path)) + message):
        read_vectors(path)


def test_another_width_than_the_models_is_an_error_that_names_both(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r":header: expected vectors of 100 numbers, received 5; set the size to 5$"):
        read_vectors(_model().write(tmp_path / "a.bin"), size=100)


@pytest.mark.parametrize("number", [np.inf, np.nan, 3e38])
def test_a_number_that_is_not_finite_is_an_error_where_its_row_is_read(tmp_path: Path, number: float) -> None:
    model = _model(bucket=1, words=["the", "a", "</s>"])
    model.matrix[1, 3] = model.matrix[3, 3] = number
    path = model.write(tmp_path / "a.bin")
    with pytest.raises(DataError, match=r":matrix: the vector of 'the' holds a number that is not finite$"):
        read_vectors(path)
    assert read_vectors(path, wanted={"</s>"}).words == ["</s>"]
