"""Word vectors: every form of file, only the words that are wanted, and every message."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from riverrun.errors import DataError
from riverrun.text.formats import read_vectors

WORDS = ["the", "über", "new_york", "a"]
MATRIX = np.array([[0.5, -1.25, 3e-05], [1, 2, 3], [-0.1, 0, 1e10], [7, 8, 9]], np.float32)


def _lines(end: str = "") -> str:
    return "".join(
        f"{word} {' '.join(map(repr, row.tolist()))}{end}\n" for word, row in zip(WORDS, MATRIX, strict=True)
    )


def _binary(end: bytes) -> bytes:
    return b"4 3\n" + b"".join(
        word.encode() + b" " + struct.pack("<3f", *row) + end for word, row in zip(WORDS, MATRIX, strict=True)
    )


FILES = {
    "glove.txt": _lines().encode(),
    "glove-without-last-line-end.txt": _lines().rstrip("\n").encode(),
    "glove-windows.txt": b"\xef\xbb\xbf" + _lines().replace("\n", "\r\n").encode(),
    "word2vec.txt": ("4 3\n" + _lines(" ")).encode(),  # the original program ends lines with a space
    "fasttext.vec": ("4 3\n" + _lines()).encode(),
    "word2vec.bin": _binary(b""),
    "word2vec-with-line-feeds.bin": _binary(b"\n"),
}


def _write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("name", FILES)
def test_every_form_of_file(tmp_path: Path, name: str, packed: str) -> None:
    path = _write(tmp_path, name + packed, FILES[name])
    vectors = read_vectors(path)
    assert vectors.words == WORDS
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(vectors.matrix, MATRIX)
    some = read_vectors(path, wanted={"a", "über", "none"}, size=3)
    assert some.words == ["über", "a"]
    np.testing.assert_array_equal(some.matrix, MATRIX[[1, 3]])
    assert read_vectors(path, wanted={"a"}, extra=2).words == ["the", "über", "a"]
    assert read_vectors(path, wanted=set()).matrix.shape == (0, 3)


def test_a_matrix_can_be_written_to(tmp_path: Path) -> None:
    matrix = read_vectors(_write(tmp_path, "a.txt", FILES["glove.txt"])).matrix
    matrix += 1
    np.testing.assert_array_equal(matrix, MATRIX + 1)


def test_of_a_word_that_stands_twice_the_first_is_kept(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.txt", b"a 1 2\nb 3 4\na 5 6\n")
    vectors = read_vectors(path, wanted={"a"})
    assert (vectors.words, vectors.matrix.tolist()) == (["a"], [[1, 2]])


def test_a_word_may_hold_spaces_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.txt", b"a 1 2\n. . . 3 4\n. 5 6\n\xff 7 8\n" + "10\u00a0000 9 10\n".encode())
    assert read_vectors(path).words == ["a", ". . .", ".", "\ufffd", "10\u00a0000"]
    some = read_vectors(path, wanted={".", "10\u00a0000", "\ud800"})
    assert (some.words, some.matrix.tolist()) == ([".", "10\u00a0000"], [[5, 6], [9, 10]])


def test_vectors_of_one_number(tmp_path: Path) -> None:
    assert read_vectors(_write(tmp_path, "a.txt", b"a 1.5\nb 2\n")).matrix.tolist() == [[1.5], [2]]


def test_a_file_longer_than_a_block(tmp_path: Path, rng: np.random.Generator) -> None:
    matrix = rng.normal(size=(3000, 200)).astype(np.float32)
    text = "".join(f"w{k} {' '.join(map(str, row))}\n" for k, row in enumerate(matrix.tolist()))
    binary = b"3000 200\n" + b"".join(b"w%d " % k + row.tobytes() for k, row in enumerate(matrix))
    for name, data in [("a.txt", text.encode()), ("a.bin", binary)]:
        vectors = read_vectors(_write(tmp_path, name, data))
        assert vectors.words == [f"w{k}" for k in range(3000)]
        np.testing.assert_array_equal(vectors.matrix, matrix)


def test_a_vector_longer_than_a_block(tmp_path: Path) -> None:
    row = np.arange(150_000, dtype=np.float32)
    text = b"1 150000\nw " + b" ".join(b"%d" % k for k in range(150_000))
    for name, data in [("a.txt", text), ("a.bin", b"1 150000\nw " + row.tobytes())]:
        np.testing.assert_array_equal(read_vectors(_write(tmp_path, name, data)).matrix, [row])


@pytest.mark.parametrize("form", ["text", "binary"])
def test_memory_is_that_of_the_words_that_are_kept(tmp_path: Path, form: str) -> None:
    row = (b" 0.25" * 300 + b"\n") if form == "text" else (b" " + struct.pack("<300f", *[0.25] * 300))
    path = _write(tmp_path, "a", b"20000 300\n" + b"".join(b"w%d" % k + row for k in range(20_000)))
    tracemalloc.start()
    assert read_vectors(path, wanted={"w19999"}).words == ["w19999"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 20e6
    assert peak < 6e6


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r": the file is empty; expected word vectors$"),
        (b"\n\n", r": the file is empty; expected word vectors$"),
        (b"2 3\n", r": the file is empty; expected word vectors$"),
        (b"a 1 2\nb 3\n", r":2: expected a word and 2 numbers, received 2 cells$"),
        (b"2 2\na 1 2\nb 3\n", r":3: expected a word and 2 numbers, received 2 cells$"),
        (b"a 1 2\n\nb 3 x\n", r":3: expected a word and 2 numbers, received 'b 3 x'$"),
        (b"a 1 2\nb 3 " + b"x" * 99 + b"\n", r":2: expected a word and 2 numbers, received 'b 3 x{56}\.\.\.'$"),
        (b"a 1 2\nb 3 nan\n", r":2: the vector of 'b' holds a number that is not finite$"),
        (b"a\n", r":1: expected a word and its numbers, separated by spaces$"),
        (b"Some running text.\nAnd more.\n", r":1: expected a word and 2 numbers, received 'Some running text\.'$"),
        (_binary(b"")[:-1], r": word 4: the file ends here; its first line says 4 words$"),
        (_binary(b"").replace(b"4 3", b"5 3", 1), r": word 5: the file ends here; its first line says 5 words$"),
        (
            b"1 2\nx " + struct.pack("<2f", 1e-40, float("inf")),
            r":word 1: the vector of 'x' holds a number that is not",
        ),
        (b"\xba\x16\x4f\x2f\x0c", r": this fastText model ends inside its header; download or copy it again$"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path: Path, data: bytes, message: str) -> None:
    path = _write(tmp_path, "vectors", data)
    with pytest.raises(DataError, match=message) as error:
        read_vectors(path)
    assert str(error.value).startswith(str(path))


def test_a_text_that_holds_no_vectors_is_found_out_whatever_is_wanted(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.txt", b"Some running text.\nAnd more of it.\n")
    with pytest.raises(DataError, match=r":1: expected a word and 2 numbers, received 'Some running text\.'$"):
        read_vectors(path, wanted={"none"})


def test_a_number_too_large_is_not_finite(tmp_path: Path) -> None:
    for number in (b"1e400", b"1e39", b"-inf"):
        with pytest.raises(DataError, match=r":1: the vector of 'a' holds a number that is not finite$"):
            read_vectors(_write(tmp_path, "a.txt", b"a 1 " + number + b"\n"))


@pytest.mark.parametrize("name", ["glove.txt", "fasttext.vec", "word2vec.bin"])
def test_another_width_than_the_models_is_an_error_that_names_both(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"{name}:1: expected vectors of 100 numbers, received 3; set the size to 3$"):
        read_vectors(_write(tmp_path, name, FILES[name]), size=100, wanted={"a"})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    _write(tmp_path, "glove.txt", b"a 1\n")
    with pytest.raises(DataError, match=r"glov\.txt: no such file; did you mean 'glove\.txt'\?"):
        read_vectors(tmp_path / "glov.txt")


@pytest.mark.data
def test_glove(shared_data: Path) -> None:
    path = shared_data / "vectors" / "glove.6B.100d.top80k.txt.gz"
    vectors = read_vectors(path, wanted={"paris", "france", "rome", "italy", "Paris"}, extra=3, size=100)
    assert vectors.words[0] == "the"
    assert set(vectors.words[3:]) == {"paris", "france", "rome", "italy"}
    paris, france, rome, italy = (vectors.matrix[vectors.words.index(w)] for w in ("paris", "france", "rome", "italy"))
    guess = paris - france + italy
    assert guess @ rome / np.linalg.norm(guess) / np.linalg.norm(rome) > 0.8
