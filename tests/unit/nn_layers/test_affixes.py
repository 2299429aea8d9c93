"""The vectors of beginnings and endings: words that share one share its vector, and no other."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from riverrun.data.padded import Padded  # noqa: E402
from riverrun.errors import ConfigError  # noqa: E402
from riverrun.nn.layers.affixes import Affixes  # noqa: E402
from riverrun.text.fields import CharField  # noqa: E402

pytestmark = pytest.mark.train

WORDS = ["walking", "talking", "walked", "wa", "a", ""]


def vectors(words: list[str], prefixes: int, suffixes: int) -> dict[str, torch.Tensor]:
    layer = Affixes(4, prefixes=prefixes, suffixes=suffixes, buckets=100_003)
    torch.nn.init.normal_(layer.table)
    field = CharField.count({"walktedingx": 1})
    rows = layer(Padded.of([field.ids(word) for word in words]).map(torch.from_numpy))
    return {word: row.view(prefixes + suffixes, 4) for word, row in zip(words, rows, strict=True)}


def test_words_share_the_vectors_of_what_they_share() -> None:
    found = vectors(WORDS, 3, 3)
    walking, talking, walked = found["walking"], found["talking"], found["walked"]
    assert torch.equal(walking[:3], walked[:3])
    assert torch.equal(walking[3:], talking[3:])
    for k in range(3):
        assert not torch.equal(walking[k], talking[k])
        assert not torch.equal(walking[3 + k], walked[3 + k])


def test_a_short_word_is_its_own_affix_and_lengths_are_told_apart() -> None:
    found = vectors(WORDS, 3, 3)
    rows = [tuple(row.tolist()) for row in found["a"]]
    assert len(set(rows)) == 6  # beginnings and endings of 1, 2, 3 characters: six tables in one
    assert not torch.equal(found["wa"][1], found["a"][1])


def test_order_counts() -> None:
    found = vectors(["wal", "law"], 3, 0)
    assert not torch.equal(found["wal"][2], found["law"][2])


def test_begins_at_zero_and_an_affix_of_nothing_is_an_error() -> None:
    layer = Affixes(4, prefixes=1, suffixes=0, buckets=10)
    assert not layer.table.any()
    with pytest.raises(ConfigError, match="prefixes and suffixes"):
        Affixes(4, prefixes=0, suffixes=0, buckets=10)


def test_dropout_leaves_out_whole_affixes() -> None:
    layer = Affixes(50, prefixes=4, suffixes=0, buckets=1009, dropout=0.5)
    torch.nn.init.ones_(layer.table)
    field = CharField.count({"walking": 1})
    chars = Padded.of([field.ids("walking")] * 20).map(torch.from_numpy)
    parts = layer(chars).view(20, 4, 50)
    assert {tuple(sorted(set(part.tolist()))) for part in parts.flatten(0, 1)} == {(0.0,), (2.0,)}
