"""Files of arrays: what is damaged or foreign is refused before a loop reads it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from riverrun.classic.context import ContextModel
from riverrun.classic.counts import count
from riverrun.classic.smoothing import smooth
from riverrun.classic.snm_training import learn_snm
from riverrun.classic.store import HEADER, from_bytes, to_bytes
from riverrun.errors import CheckpointError, ShapeError

pytest.importorskip("numba")

IDS = np.array([2, 3, 1, 2, 2, 1, 3, 1])
SHAPE: dict[str, Any] = {"size": 5, "bos": 4, "eos": 1, "unknown": 0}


def ngram() -> ContextModel:
    return smooth(count(IDS, order=3, **SHAPE), "witten-bell")


def snm() -> ContextModel:
    return learn_snm(IDS, order=2, skips=1, span=1, passes=1, buckets=64, **SHAPE)


def header(data: bytes) -> dict[str, Any]:
    text = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"][HEADER]
    found: dict[str, Any] = json.loads(text)
    return found


def changed(data: bytes, arrays: dict[str, np.ndarray], **values: object) -> bytes:
    return bytes(save({**load(data), **arrays}, metadata={HEADER: json.dumps({**header(data), **values})}))


def test_equal_models_are_equal_bytes() -> None:
    assert to_bytes(ngram()) == to_bytes(ngram())
    assert to_bytes(snm()) == to_bytes(snm())


def test_what_is_kept_beside_the_arrays() -> None:
    model = smooth(count(IDS, order=3, **SHAPE), "stupid-backoff", backoff=0.3)
    loaded = from_bytes(to_bytes(model))
    assert (loaded.smoothing, loaded.notes, loaded.absent) == (model.smoothing, model.notes, model.absent)  # type: ignore[union-attr]


@pytest.mark.parametrize("model", [ngram(), snm()], ids=["ngram", "snm"])
def test_damaged_files(model: ContextModel) -> None:
    data = to_bytes(model)
    for bad in (b"", b"\0" * 8, data[: len(data) // 2], data[:-1], b"x" * 100, bytes(save({"a": np.zeros(1)}))):
        with pytest.raises(CheckpointError, match="folder/arrays: expected a complete safetensors file"):
            from_bytes(bad, "folder/arrays")
    with pytest.raises(CheckpointError, match="expected format 1, received 2; it was written by another release"):
        from_bytes(changed(data, {}, format=2))
    with pytest.raises(CheckpointError, match="expected a complete safetensors file"):
        from_bytes(changed(data, {}, kind="crf"))


def shifted(values: np.ndarray, at: int, by: int) -> np.ndarray:
    values = values.copy()
    values[at] += by
    return values


@pytest.mark.parametrize("model", [ngram(), snm()], ids=["ngram", "snm"])
def test_arrays_that_do_not_belong_together(model: ContextModel) -> None:
    data = to_bytes(model)
    arrays = load(data)
    bad: list[tuple[dict[str, np.ndarray], dict[str, object], str]] = [
        ({"more": np.zeros(1)}, {}, "expected base, "),
        ({"word": arrays["word"].astype(np.int64)}, {}, "word has 1 dimensions of int64"),
        ({"word": arrays["word"][None]}, {}, "word has 2 dimensions of int32"),
        ({"word": arrays["word"][:-1]}, {}, "numbers, expected"),
        ({"first": arrays["first"][:-1]}, {}, "first has .* numbers, expected"),
        ({"base": arrays["base"][::-1]}, {}, "base does not rise from 0"),
        ({"base": arrays["base"][:1]}, {}, "base does not rise from 0"),
        ({"word": shifted(arrays["word"], -1, 1000)}, {}, "there are words beyond 5"),
        ({"word": shifted(arrays["word"], -1, -1000)}, {}, "there are words beyond 5"),
        ({}, {"bos": 99}, "bos, eos or unknown is not among 5 symbols"),
        ({}, {"unknown": -1}, "bos, eos or unknown is not among 5 symbols"),
    ]
    for replaced, values, message in bad:
        with pytest.raises(CheckpointError, match=f"the arrays do not belong together: .*{message}"):
            from_bytes(changed(data, replaced, **values))
    for at in range(len(arrays["first"])):
        for by in (-1000, 1000):
            with pytest.raises(CheckpointError, match="the arrays do not belong together"):
                from_bytes(changed(data, {"first": shifted(arrays["first"], at, by)}))


def test_words_that_do_not_rise() -> None:
    data = to_bytes(ngram())
    word, first = load(data)["word"].copy(), load(data)["first"]
    wide = int(np.argmax(np.diff(first) > 1))
    word[first[wide]], word[first[wide] + 1] = word[first[wide] + 1], word[first[wide]]
    with pytest.raises(CheckpointError, match="the words of a row do not rise"):
        from_bytes(changed(data, {"word": word}))
    word = load(data)["word"].copy()
    word[[0, 1]] = word[[1, 0]]
    with pytest.raises(CheckpointError, match="the n-grams of an order do not begin where they should"):
        from_bytes(changed(data, {"word": word}))


def test_patterns_of_another_matrix() -> None:
    data = to_bytes(snm())
    for patterns in ([], [[1, 2]] * 3, [[0]] * 3):
        with pytest.raises(CheckpointError, match="the patterns are not those of the contexts"):
            from_bytes(changed(data, {}, patterns=patterns))


def test_arrays_of_other_sizes_make_no_model() -> None:
    loaded = [from_bytes(to_bytes(model)) for model in (ngram(), snm())]
    for model, name in (
        (loaded[0], "log_prob"),
        (loaded[0], "log_backoff"),
        (loaded[1], "first"),
        (loaded[1], "weight"),
    ):
        with pytest.raises(ShapeError, match=f"{type(model).__name__}: expected .*{name}"):
            dataclasses.replace(model, **{name: getattr(model, name)[:-1]})


def test_other_models_are_no_counts() -> None:
    with pytest.raises(TypeError, match="expected an NGram or a SparseNonNegative, received str"):
        to_bytes("model")  # type: ignore[arg-type]
