"""Every message that a recipe's author can cause, and that all of them come at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.config import CharCNN, CharLSTM, Config, TaggerRecipe, decode_recipe, encode_recipe
from riverrun.config.decode import Invalid, build
from riverrun.errors import ConfigError

ENCODER_KEYS = (
    "cell, hidden, layers, bidirectional, wiring, dropout, input_dropout, variational, recurrent_dropout, "
    "weight_drop, engine"
)

# what stands in the recipe, and the whole message about it
MISTAKES: list[tuple[dict[str, Any], str]] = [
    (
        {"model": {"encoder": {"num_layer": 2}}},
        f"model.encoder.num_layer: unknown key; did you mean 'layers'? Allowed: {ENCODER_KEYS}",
    ),
    (
        {"modle": {}},
        "modle: unknown key; did you mean 'model'? Allowed: task, data, model, train, scoring, cites, expects",
    ),
    (
        {"data": {"zzz": 1}},
        "data.zzz: unknown key. Allowed: train, dev, test, format, columns, encoding, cache, hold_out",
    ),
    (
        {"model": {"encoder": {"hidden": "many"}}},
        "model.encoder.hidden: expected a whole number at least 1, received the text 'many'",
    ),
    ({"model": {"encoder": {"hidden": 0}}}, "model.encoder.hidden: expected a whole number at least 1, received 0"),
    ({"model": {"encoder": {"hidden": 1.5}}}, "model.encoder.hidden: expected a whole number at least 1, received 1.5"),
    (
        {"model": {"encoder": {"hidden": True}}},
        "model.encoder.hidden: expected a whole number at least 1, received true",
    ),
    (
        {"model": {"encoder": {"dropout": 1.5}}},
        "model.encoder.dropout: expected a number at least 0 and below 1, received 1.5",
    ),
    (
        {"model": {"words": {"vectors": "v", "coverage": 2}}},
        "model.words.coverage: expected a number from 0 to 1, received 2",
    ),
    (
        {"model": {"encoder": {"bidirectional": 1}}},
        "model.encoder.bidirectional: expected true or false, received 1",
    ),
    (
        {"model": {"encoder": {"cell": 3}}},
        "model.encoder.cell: expected text or a table of values that are "
        "a whole number or a number or text or true or false, received 3",
    ),
    (
        {"model": {"encoder": {"cell": {"rounds": 5}}}},
        "model.encoder.cell: expected the name of a cell as 'kind', received the keys rounds",
    ),
    (
        {"model": {"encoder": {"cell": {}}}},
        "model.encoder.cell: expected the name of a cell as 'kind', received the keys (none)",
    ),
    ({"model": {"encoder": 3}}, "model.encoder: expected a table, received 3"),
    ({"model": {"chars": {"size": 3}}}, "model.chars.kind: expected one of cnn, lstm, gru, which is missing"),
    (
        {"model": {"chars": {"kind": "cn"}}},
        "model.chars.kind: expected one of cnn, lstm, gru, received the text 'cn'; did you mean 'cnn'?",
    ),
    ({"model": {"chars": {"kind": 1}}}, "model.chars.kind: expected one of cnn, lstm, gru, received 1"),
    (
        {"model": {"chars": {"kind": "lstm", "filters": 3}}},
        "model.chars.filters: unknown key. Allowed: kind, size, dropout, max_length, hidden",
    ),
    ({"model": {"chars": ["cnn"]}}, "model.chars: expected a table or none, received the list ['cnn']"),
    (
        {"model": {"head": {"kind": "crff"}}},
        "model.head.kind: expected one of crf, softmax, received the text 'crff'; did you mean 'crf'?",
    ),
    (
        {"model": {"head": {"kind": "softmax", "potentials": "pairwise"}}},
        "model.head.potentials: 'pairwise' needs kind 'crf', received kind 'softmax'",
    ),
    (
        {"model": {"head": {"scheme": "bio"}}},
        "model.head.scheme: expected one of bioes, iob1, iob2 or none, received the text 'bio'; did you mean 'bioes'?",
    ),
    ({"model": {"words": None}}, "model.words: a tagger reads words, chars or affixes; all of them are none"),
    *(
        (
            {"model": {"words": {field: value}}},
            f"model.words.{field}: needs a file of word vectors; give it as model.words.vectors",
        )
        for field, value in (("frozen", True), ("extra", 10), ("coverage", 0.5))
    ),
    (
        {"model": {"words": {"dropout": -0.1}}},
        "model.words.dropout: expected a number at least 0, received -0.1",
    ),
    ({"data": {"hold_out": 1}}, "data.hold_out: expected a number at least 0 and below 1, received 1"),
    (
        {"data": {"format": "conlu"}},
        "data.format: expected one of brackets, conll, conllu, csv, features, jsonl, lines, lm1b, parallel, scan, "
        "text, tsv or none, received the text 'conlu'; did you mean 'conllu'?",
    ),
    (
        {"data": {"columns": {"form": 1.5}}},
        "data.columns: expected a table of values that are a whole number or text, "
        "received a table with the keys 'form'",
    ),
    (
        {"model": {"affixes": {"prefixes": 0, "suffixes": 0}}},
        "model.affixes.suffixes: prefixes and suffixes are both 0; leave affixes out instead",
    ),
    ({"data": {"columns": {"tags": 1}}}, "data.columns.tags: a tagger reads the columns 'form' and 'tag'"),
    ({"train": {"epochs": -1}}, "train.epochs: expected a whole number from 0 to 100000, received -1"),
    ({"train": {"rate": 0}}, "train.rate: expected a number above 0, received 0"),
    ({"train": {"rate": float("nan")}}, "train.rate: expected a number above 0, received nan"),
    ({"train": {"rate": float("inf")}}, "train.rate: expected a number above 0, received inf"),
    ({"train": {"ema": 1}}, "train.ema: expected a number above 0 and below 1 or none, received 1"),
    (
        {"train": {"betas": [0.9]}},
        "train.betas: expected a list of 2 values, each a number at least 0 and below 1, received the list [0.9]",
    ),
    (
        {"train": {"momentum": 0.9}},
        "train.momentum: only optimizer 'sgd' has momentum, received optimizer 'adam'; set it to 0",
    ),
    (
        {"train": {"optimizer": "sgd", "betas": [0.5, 0.9]}},
        "train.betas: only optimizers 'adam' and 'adamw' have betas, received optimizer 'sgd'",
    ),
    (
        {"train": {"decay": 0.1, "schedule": "linear"}},
        "train.decay: only schedule 'inverse' has a decay, received schedule 'linear'; set it to 0",
    ),
    (
        {"train": {"seed": 2**63}},
        "train.seed: expected a whole number from 0 to 9223372036854775807, received 9223372036854775808",
    ),
    ({"expects": {"f1": float("nan")}}, "expects.f1: expected a finite number, received nan"),
    (
        {"model": {"encoder": {"cell": {"kind": "lstm", "clip": float("inf")}}}},
        "model.encoder.cell.clip: expected a finite number, received inf",
    ),
    ({"train": {"device": "gpu"}}, "train.device: expected auto, cpu, cuda or cuda:N, received 'gpu'"),
    (
        {"expects": {"f1": "high"}},
        "expects: expected a table of values that are a number, received a table with the keys 'f1'",
    ),
    ({"task": "taggr"}, "task: expected one of tagger, lm, received the text 'taggr'; did you mean 'tagger'?"),
]


@pytest.mark.parametrize(("table", "message"), MISTAKES, ids=lambda value: value if isinstance(value, str) else "")
def test_each_mistake_has_its_message(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_recipe({"task": "tagger", **table}, source="recipe mine.toml")
    assert str(caught.value) == f"{message} (in recipe mine.toml)"


def test_a_recipe_says_its_task() -> None:
    with pytest.raises(ConfigError, match=r"^task: expected one of tagger, lm, which is missing"):
        decode_recipe({"data": {}})


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    table = {
        "task": "tagger",
        "train": {"rate": -1, "momentum": 0.5, "epoch": 3},
        "modle": {},
        "model": {"head": {"kind": "softmax", "potentials": "pairwise"}, "encoder": {"hidden": "x", "cels": 1}},
    }
    with pytest.raises(ConfigError) as caught:
        decode_recipe(table, source="recipe mine.toml")
    *lines, last = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "train.rate",
        "train.epoch",
        "modle",
        "model.head.potentials",
        "model.encoder.hidden",
        "model.encoder.cels",
    ]
    assert last == "(6 errors in recipe mine.toml)"


def test_a_recipe_survives_being_written_and_read() -> None:
    recipe = decode_recipe(
        {
            "task": "tagger",
            "data": {"train": "a", "columns": {"form": 0, "tag": "ner"}},
            "model": {
                "words": {"vectors": "v.txt", "limit": 9},
                "chars": {"kind": "lstm", "hidden": 7},
                "encoder": {"cell": {"kind": "mogrifier", "rounds": 5, "zoneout": 0.1}},
            },
            "train": {"clip": None, "betas": [0.5, 0.9]},
            "expects": {"f1": 0.9},
        }
    )
    assert decode_recipe(encode_recipe(recipe)) == recipe
    assert encode_recipe(recipe)["model"]["chars"]["kind"] == "lstm"


def test_what_is_not_said_has_its_default() -> None:
    recipe = decode_recipe({"task": "tagger", "model": {"chars": {"kind": "cnn", "width": 5}}})
    assert recipe.model.chars == CharCNN(width=5)
    assert recipe.model.words is not None
    assert recipe.model.words.size == 100
    assert recipe.train == TaggerRecipe().train


def test_none_is_a_word_since_toml_has_none() -> None:
    recipe = decode_recipe({"task": "tagger", "model": {"chars": "none"}, "train": {"clip": "none"}})
    assert (recipe.model.chars, recipe.train.clip) == (None, None)
    with pytest.raises(ConfigError, match=r"^train\.epochs: .*received the text 'none'"):
        decode_recipe({"task": "tagger", "train": {"epochs": "none"}})


def test_a_cell_is_a_name_or_a_table() -> None:
    for cell, kind, options in (("gru", "gru", {}), ({"kind": "mogrifier", "rounds": 5}, "mogrifier", {"rounds": 5})):
        encoder = decode_recipe({"task": "tagger", "model": {"encoder": {"cell": cell}}}).model.encoder
        assert (encoder.kind, encoder.options) == (kind, options)


def test_the_kind_of_a_tagged_table_can_be_read() -> None:
    assert (CharCNN().kind, CharLSTM().kind, TaggerRecipe().task) == ("cnn", "lstm", "tagger")


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(),
    st.sampled_from(["", "none", "crf", "cnn", "1"]),
    st.lists(st.floats(0, 1), max_size=2),
    st.dictionaries(st.sampled_from(["kind", "form", "x"]), st.sampled_from([1, 0.5, "cnn", True]), max_size=2),
)
KEYS = st.sampled_from(
    [
        "words",
        "chars",
        "encoder",
        "head",
        "kind",
        "size",
        "cell",
        "dropout",
        "scheme",
        "clip",
        "betas",
        "seed",
        "columns",
    ]
)


@given(
    st.dictionaries(
        st.sampled_from(["data", "model", "train", "expects", "cites"]),
        VALUES | st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=3), max_size=4),
        max_size=4,
    )
)
def test_any_table_is_a_recipe_that_can_be_kept_or_a_config_error(table: dict[str, Any]) -> None:
    try:
        recipe = decode_recipe({"task": "tagger", **table})
    except ConfigError as wrong:
        assert str(wrong).strip()
    else:
        assert decode_recipe(msgspec.json.decode(msgspec.json.encode(encode_recipe(recipe)))) == recipe


class Needy(Config, frozen=True):
    """A table that cannot be empty."""

    file: str
    size: int = 1


def test_a_setting_without_default_must_be_there() -> None:
    with pytest.raises(Invalid, match=r"^part\.file: missing; expected text$"):
        build(Needy, {"size": 2}, "part")


def test_recipes_do_not_change() -> None:
    with pytest.raises(AttributeError):
        TaggerRecipe().train.epochs = 3  # type: ignore[misc]


def test_two_recipes_share_no_mutable_default() -> None:
    first, second = TaggerRecipe(), TaggerRecipe()
    first.expects["f1"] = 1.0
    assert second.expects == {}
