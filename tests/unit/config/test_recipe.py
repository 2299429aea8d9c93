"""Recipes by name and by file; every shipped one; the example of the documentation."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from riverrun.config import CharCNN, decode_recipe, encode_recipe, load_recipe, read_recipe, shipped_recipes
from riverrun.errors import ConfigError

NAMES = ["tagger/blstm", "tagger/blstm-cnn", "tagger/blstm-cnn-crf", "tagger/ner", "tagger/upos"]


def test_the_names_that_scripts_rely_on_are_shipped() -> None:
    assert set(NAMES) <= set(shipped_recipes())


@pytest.mark.parametrize("name", list(shipped_recipes()))
def test_every_shipped_recipe_is_whole(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.task == name.partition("/")[0]
    assert recipe.cites
    assert recipe.data.train is None  # a recipe runs on anybody's files
    assert decode_recipe(encode_recipe(recipe)) == recipe


@pytest.mark.parametrize("name", ["tagger/blstm", "tagger/blstm-cnn", "tagger/blstm-cnn-crf"])
def test_published_systems_have_the_settings_of_the_paper(name: str) -> None:
    recipe = load_recipe(name)
    encoder, train = recipe.model.encoder, recipe.train
    assert (encoder.cell, encoder.hidden, encoder.layers, encoder.bidirectional) == ("lstm", 200, 1, True)
    assert (encoder.dropout, encoder.input_dropout) == (0.5, None)
    assert (train.optimizer, train.rate, train.momentum, train.decay) == ("sgd", 0.015, 0.9, 0.05)
    assert (train.schedule, train.clip, train.batch, train.epochs) == ("inverse", 5.0, 10, 50)
    assert train.reduce == "sequence-mean"
    assert (recipe.model.chars is None) == (name == "tagger/blstm")
    assert recipe.model.head.kind == ("crf" if name.endswith("crf") else "softmax")
    if recipe.model.chars is not None:
        assert recipe.model.chars == CharCNN(size=30, filters=30, width=3, dropout=0.5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tagger/blsmt", "tagger/blsmt: no shipped recipe has this name; did you mean 'tagger/blstm'? Shipped: "),
        ("zzz", "zzz: no shipped recipe has this name. Shipped: lm/awd-wikitext2, "),
        ("no/where.toml", "no/where.toml: no such file; `riverrun recipes` lists the shipped ones"),
    ],
)
def test_a_recipe_that_is_not_there(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe(name)
    assert str(caught.value).startswith(message)


def test_the_message_says_how_a_recipe_of_ones_own_is_given() -> None:
    with pytest.raises(ConfigError, match=r"a recipe of your own is a file that ends in \.toml$"):
        load_recipe("mine")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('task = "tagger"\n[train]\nepochs = 7\n', encoding="utf-8")
    assert load_recipe(path).train.epochs == 7
    assert read_recipe(str(path)) == {"task": "tagger", "train": {"epochs": 7}}


@pytest.mark.parametrize("content", [b"task = \n", b"\xff\xfe"])
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_recipe(path)
    assert str(caught.value).startswith(f"{path}: expected TOML: ")


def test_the_example_of_the_documentation_is_the_published_system(tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(
        """
        task = "tagger"
        cites = "Ma and Hovy 2016, Table 3"

        [data]
        train = "train.conll"
        dev = "dev.conll"
        columns = { form = 0, tag = 3 }

        [model]
        words = { size = 100, vectors = "glove.txt", lower = true }
        chars = { kind = "cnn", size = 30, filters = 30, width = 3 }
        encoder = { cell = "lstm", hidden = 200, layers = 1, bidirectional = true, dropout = 0.5 }
        head = { kind = "crf", potentials = "additive", scheme = "bioes" }

        [train]
        optimizer = "sgd"
        rate = 0.015
        momentum = 0.9
        decay = 0.05
        clip = 5.0
        epochs = 50
        batch = 10
        seed = 1

        [expects]
        f1 = 0.912
        """,
        encoding="utf-8",
    )
    example, shipped = load_recipe(path), load_recipe("tagger/blstm-cnn-crf")
    assert msgspec.structs.replace(example.train, reduce="sequence-mean") == shipped.train
    assert example.model.encoder == shipped.model.encoder
    assert example.model.head == shipped.model.head
    assert example.expects == shipped.expects
