"""``--set``: text becomes what the field declares, and each assignment that does not is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.config import CharCNN, CharLSTM, TaggerRecipe, load_recipe
from riverrun.config.decode import Invalid
from riverrun.config.overrides import merge, override
from riverrun.errors import ConfigError

# assignment, path to the value in the recipe, the value
ASSIGNMENTS: list[tuple[str, str, Any]] = [
    ("train.epochs=3", "train.epochs", 3),
    ("train.rate=1e-3", "train.rate", 0.001),
    ("train.rate=1", "train.rate", 1.0),
    ("train.clip=none", "train.clip", None),
    ("train.clip=1.5", "train.clip", 1.5),
    ("train.precision=bfloat16", "train.precision", "bfloat16"),
    ('train.precision="bfloat16"', "train.precision", "bfloat16"),
    ("train.device=cuda:1", "train.device", "cuda:1"),
    ("data.train=2024", "data.train", "2024"),
    ("data.train=true", "data.train", "true"),
    ("data.train= a=b.conll ", "data.train", "a=b.conll"),
    ("data.train=[odd].conll", "data.train", "[odd].conll"),
    ("data.train=", "data.train", ""),
    ("data.columns={form=0, tag='ner'}", "data.columns", {"form": 0, "tag": "ner"}),
    ("data.columns.tag=3", "data.columns", {"tag": 3}),
    ("data.columns.tag=upos", "data.columns", {"tag": "upos"}),
    ("model.words=none", "model.words", None),
    ("model.words.lower=false", "model.words.lower", False),
    ("model.chars=none", "model.chars", None),
    ("model.chars.width=5", "model.chars", CharCNN(width=5, dropout=0.5)),
    ("model.chars={kind='cnn', width=5}", "model.chars", CharCNN(width=5, dropout=0.5)),
    ("model.chars={kind='lstm', hidden=5}", "model.chars", CharLSTM(hidden=5)),
    ("model.chars.kind=lstm", "model.chars", CharLSTM()),
    ("model.encoder.cell=gru", "model.encoder.cell", "gru"),
    ("model.encoder.cell={kind='mogrifier', rounds=5}", "model.encoder.cell", {"kind": "mogrifier", "rounds": 5}),
    ("model.encoder.cell.kind=mogrifier", "model.encoder.cell", {"kind": "mogrifier"}),
    ("expects.f1=0.5", "expects", {"f1": 0.5}),
]


@pytest.mark.parametrize(("assignment", "path", "value"), ASSIGNMENTS, ids=[a for a, _, _ in ASSIGNMENTS])
def test_text_becomes_the_declared_type(assignment: str, path: str, value: object) -> None:
    got: Any = load_recipe("tagger/blstm-cnn-crf", settings=[assignment])
    for part in path.split("."):
        got = getattr(got, part)
    assert got == value
    assert type(got) is type(value)


def test_a_list_is_toml() -> None:
    assert load_recipe("tagger/upos", settings=["train.betas=[0.5, 0.9]"]).train.betas == (0.5, 0.9)


MISTAKES = [
    ("epochs", "epochs: expected a setting and its value, for example train.epochs=3"),
    ("=3", "=3: expected a setting and its value, for example train.epochs=3"),
    ("train..epochs=3", "train..epochs=3: expected a setting and its value, for example train.epochs=3"),
    ("train.epoch=3", "train.epoch: unknown key; did you mean 'epochs'? Allowed: optimizer, rate"),
    (
        "train.epochs.x=3",
        "train.epochs.x: train.epochs has no settings of its own; it is a whole number from 0 to 100000",
    ),
    ("train.epochs=ten", "train.epochs: expected a whole number from 0 to 100000, received the text 'ten'"),
    ("train.epochs=1.5", "train.epochs: expected a whole number from 0 to 100000, received 1.5"),
    ("train.rate=nan", "train.rate: expected a number above 0, received nan"),
    ("train.epochs=none", "train.epochs: expected a whole number from 0 to 100000, received the text 'none'"),
    ("model.encoder.dropout=2", "model.encoder.dropout: expected a number at least 0 and below 1, received 2"),
    ("model.words.lower=yes", "model.words.lower: expected true or false, received the text 'yes'"),
    ("model.encoder=3", "model.encoder: expected a table, received the text '3'"),
    (
        "model.chars.hidden=3",
        "model.chars.hidden: unknown key. Allowed: kind, size, dropout, max_length, filters, width",
    ),
    ("data.columns={form=}", "data.columns: expected TOML, received {form=} ("),
    ("task=speech", "task: expected one of tagger, lm, received the text 'speech'"),
]


@pytest.mark.parametrize(("assignment", "message"), MISTAKES, ids=[a for a, _ in MISTAKES])
def test_each_mistake_has_its_message(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe("tagger/blstm-cnn-crf", settings=[assignment])
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith("(in recipe tagger/blstm-cnn-crf)")


def test_unknown_keys_and_wrong_values_come_in_one_report() -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe("tagger/upos", settings=["train.epoch=3", "train.rate=abc", "train.batch=0"])
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines[:-1]] == ["train.epoch", "train.rate", "train.batch"]
    assert lines[-1] == "(3 errors in recipe tagger/upos)"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("train.epochs=1", "settings: expected a list of texts, received one text; write settings=['train.epochs=1']"),
        (
            {"train.epochs": 1},
            "settings: expected a list of texts, received a table; write settings=['train.epochs=3']",
        ),
        ([3], "settings: expected texts like 'train.epochs=3', received 3"),
    ],
)
def test_settings_are_a_list_of_texts(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe("tagger/upos", settings=settings)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.threads=100000", "train.threads: expected a whole number from 1 to 1024 or none, received 100000"),
        ("train.epochs=99999999999999999999", "train.epochs: expected a whole number from 0 to 100000, received 9999"),
        ("train.batch=99999999999999999999", "train.batch: expected a whole number at least 1 of at most 63 bits, rec"),
    ],
)
def test_numbers_that_nothing_could_hold(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe("tagger/upos", settings=[assignment])
    assert str(caught.value).startswith(message)


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(ConfigError, match=r"(?s)^train\.epoch: .*\nmodl: .*\n.2 errors in recipe tagger/blstm.$"):
        load_recipe("tagger/blstm", settings=["train.epoch=3", "train.seed=4", "modl.x=1"])


def test_a_setting_of_a_table_that_is_not_there_yet() -> None:
    with pytest.raises(ConfigError, match=r"^model.chars.kind: expected one of cnn, lstm, gru, which is missing"):
        load_recipe("tagger/blstm", settings=["model.chars.filters=9"])
    recipe = load_recipe("tagger/blstm", settings=["model.chars.filters=9", "model.chars.kind=cnn"])
    assert recipe.model.chars == CharCNN(filters=9)


def test_the_last_of_two_counts() -> None:
    assert load_recipe("tagger/blstm", settings=["train.seed=4", "train.seed=5"]).train.seed == 5


def test_settings_win_over_the_files_of_the_command_line() -> None:
    recipe = load_recipe("tagger/blstm", data={"train": "a", "dev": None}, settings=["data.train=b"])
    assert (recipe.data.train, recipe.data.dev) == ("b", None)


def test_the_table_that_was_given_stays_as_it_was() -> None:
    table = {"train": {"epochs": 9}, "data": {"columns": {"tag": 1}}}
    override(table, ["train.epochs=3", "data.columns.tag=2"], TaggerRecipe)
    assert table == {"train": {"epochs": 9}, "data": {"columns": {"tag": 1}}}


tables = st.recursive(
    st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
).filter(lambda value: isinstance(value, dict))


@given(tables, tables)
def test_merging_keeps_what_only_one_has_and_takes_the_others_leaves(mine: Any, other: Any) -> None:
    result = merge(mine, other)
    assert result.keys() == mine.keys() | other.keys()
    assert merge(mine, {}) == mine
    assert merge({}, other) == other
    for key, value in other.items():
        if not isinstance(value, dict):
            assert result[key] == value
        elif isinstance(mine.get(key), dict):
            assert result[key] == merge(mine[key], value)
        else:
            assert result[key] == value
    for key in mine.keys() - other.keys():
        assert result[key] == mine[key]


def test_invalid_lists_its_lines() -> None:
    assert Invalid(["a: b", "c: d"]).lines == ["a: b", "c: d"]
