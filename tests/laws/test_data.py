"""What is promised of examples and batches: nothing is lost, nothing depends on padding, order is a pure function."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.data.batch import Batch
from riverrun.data.corpus import Corpus
from riverrun.data.loader import SentenceLoader
from riverrun.data.padded import Padded
from riverrun.data.sampler import Buckets
from riverrun.data.sentences import SentenceEncoder, SentenceFields
from riverrun.text.fields import CharField, FormTable, TagField, WordField
from riverrun.text.vocab import Vocab

LAW = settings(deadline=None, max_examples=50)  # no deadline: a busy machine, the first import of torch

KINDS = ["numpy"]
if importlib.util.find_spec("torch") is not None:
    KINDS.append("torch")

ROWS = st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=5)


def made(rows: list[list[int]], kind: str, *, extra: int = 0, width: int | None = None) -> Padded:
    """These rows as floats, (B, T) or (B, T, width), with NaN in the padding and ``extra`` columns of it."""
    longest = max(map(len, rows), default=0) + extra
    data = np.full((len(rows), longest) + (() if width is None else (width,)), np.nan)
    for k, row in enumerate(rows):
        data[k, : len(row)] = row if width is None else np.array(row, float)[:, None] + np.arange(width) / 8
    padded = Padded(data, np.array([len(row) for row in rows], np.int64))
    if kind == "torch":
        import torch

        return padded.map(torch.from_numpy)
    return padded


def lists(padded: Padded) -> list[list[object]]:
    return [row.tolist() for row in padded.rows()]


# -- Padded


@pytest.mark.parametrize("kind", KINDS)
@LAW
@given(rows=ROWS, extra=st.integers(0, 2), width=st.sampled_from([None, 1, 3]))
def test_a_row_is_reversed_within_its_length_and_back(kind, rows, extra, width):
    padded = made(rows, kind, extra=extra, width=width)
    back = padded.reverse()
    assert lists(back) == [row[::-1] for row in lists(padded)]
    assert lists(back.reverse()) == lists(padded)
    assert back.data.shape == padded.data.shape and back.lengths.tolist() == padded.lengths.tolist()
    # The padding stays where it is.
    assert [bool(value) for value in (padded.data != padded.data).reshape(-1)] == [
        bool(value) for value in (back.data != back.data).reshape(-1)
    ]


@pytest.mark.parametrize("kind", KINDS)
@LAW
@given(rows=ROWS, extra=st.integers(0, 2), width=st.sampled_from([None, 2]))
def test_what_stands_in_the_padding_is_taken_away(kind, rows, extra, width):
    padded = made(rows, kind, extra=extra, width=width)
    zeroed = padded.zeroed()
    assert lists(zeroed) == lists(padded)
    assert not bool((zeroed.data != zeroed.data).any())
    assert float(zeroed.data.sum()) == pytest.approx(sum(float(row.sum()) for row in padded.rows()))
    assert padded.mask().sum(1).tolist() == padded.lengths.tolist() if len(rows) else True


@pytest.mark.parametrize("kind", KINDS)
@LAW
@given(rows=ROWS, extra=st.integers(0, 2), width=st.sampled_from([None, 2]))
def test_the_last_value_of_each_row_and_zeros_of_an_empty_one(kind, rows, extra, width):
    padded = made(rows, kind, extra=extra, width=width)
    zero = 0.0 if width is None else [0.0] * width
    expected = [row[-1] if row else zero for row in lists(padded)]
    assert padded.last().tolist() == expected
    assert tuple(padded.last().shape) == (len(rows),) + (() if width is None else (width,))


@pytest.mark.parametrize("kind", KINDS)
@LAW
@given(rows=ROWS, picks=st.lists(st.integers(0, 4), max_size=6))
def test_rows_are_selected_in_any_order(kind, rows, picks):
    picks = [k for k in picks if k < len(rows)]
    padded = made(rows, kind)
    index = np.array(picks, np.int64)
    if kind == "torch":
        import torch

        index = torch.from_numpy(index)
    assert lists(padded.select(index)) == [[float(x) for x in rows[k]] for k in picks]


@LAW
@given(rows=ROWS)
def test_rows_go_in_and_come_out(rows):
    padded = Padded.of(rows)
    assert lists(padded) == rows and len(padded) == len(rows)
    assert padded.data.sum() == sum(map(sum, rows))  # the padding is zero
    vectors = [np.array(row, float)[:, None] * [1, 2] for row in rows]
    assert lists(Padded.of(vectors, float)) == [[[float(x), 2.0 * x] for x in row] for row in rows]


@pytest.mark.skipif("torch" not in KINDS, reason="torch is not installed")
@pytest.mark.parametrize("method", ["zeroed", "last", "reverse"])
def test_a_nan_in_the_padding_leaves_no_trace_in_a_gradient(method):
    import torch

    padded = made([[1, 2, 3], [], [4]], "torch", width=2)
    data = padded.data.clone().requires_grad_()
    out = getattr(Padded(data, padded.lengths), method)()
    values = out if method == "last" else torch.cat([row.reshape(-1) for row in out.rows()])
    (gradient,) = torch.autograd.grad(values.square().sum(), data)
    mask = padded.mask()
    assert torch.isfinite(gradient).all() and (gradient[~mask] == 0).all()
    assert (gradient[mask] != 0).any()


# -- Batch


@LAW
@given(rows=ROWS, numbers=st.lists(st.integers(0, 5), max_size=4))
def test_a_batch_flattens_and_comes_back(rows, numbers):
    batch = Batch({"chars.index": Padded.of(rows)}, words=Padded.of(rows), plain=np.array(numbers))
    flat = batch.flat()
    assert sorted(flat) == ["chars.index", "chars.index.lengths", "plain", "words", "words.lengths"]
    back = Batch.unflatten(flat)
    assert sorted(back) == sorted(batch)
    assert lists(back["words"]) == lists(back["chars.index"]) == rows
    assert isinstance(back["plain"], np.ndarray) and back["plain"].tolist() == numbers
    moved = batch.map(np.float32).flat()
    assert all(moved[name].dtype == np.float32 and (moved[name] == flat[name]).all() for name in flat)


# -- the order of sentences


LENGTHS = st.lists(st.integers(0, 30), max_size=40).map(lambda values: np.array(values, np.int64))


@LAW
@given(
    lengths=LENGTHS,
    batch=st.integers(1, 6),
    tokens=st.one_of(st.none(), st.integers(1, 60)),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
    pool=st.integers(1, 4),
)
def test_every_sentence_is_met_once_within_the_budget_in_an_order_of_seed_and_epoch(
    lengths, batch, tokens, seed, epoch, shuffle, pool
):
    def buckets() -> Buckets:
        return Buckets(lengths, batch=batch, tokens=tokens, seed=seed, shuffle=shuffle, pool=pool)

    order = buckets().order(epoch)
    assert sorted(k for part in order for k in part.tolist()) == list(range(len(lengths)))
    for part in order:
        assert 1 <= len(part) <= batch
        if tokens is not None and len(part) > 1:
            assert len(part) * lengths[part].max() <= tokens
    other = buckets()
    other.order(epoch + 1)  # what was asked before is not remembered
    assert [part.tolist() for part in other.order(epoch)] == [part.tolist() for part in order]
    if not shuffle and pool == 1:
        assert [k for part in order for k in part.tolist()] == list(range(len(lengths)))


def test_another_seed_and_another_epoch_are_another_order():
    lengths = np.arange(200) % 17

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [part.tolist() for part in Buckets(lengths, batch=8, seed=seed).order(epoch)]

    assert order(1, 0) != order(2, 0) and order(1, 0) != order(1, 1) and order(1, 2) != order(2, 1)


def test_sentences_of_a_batch_are_of_like_length_and_no_batch_is_cut_short():
    lengths = np.random.default_rng(0).integers(1, 50, 1000)

    def padding(pool: int) -> float:
        order = Buckets(lengths, batch=16, pool=pool).order(0)
        return 1 - lengths.sum() / sum(len(part) * lengths[part].max() for part in order)

    assert padding(50) < 0.1 < padding(1)
    assert [len(part) for part in Buckets(np.ones(10, int), batch=4, tokens=3, shuffle=False).order(0)] == [3, 3, 3, 1]


# -- Corpus


SENTENCES = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "b", "été", "😀", "B"]), st.sampled_from(["X", "Y"])), max_size=4),
    max_size=8,
)


def as_columns(sentences: list[list[tuple[str, str]]]) -> list[dict[str, list[str]]]:
    return [{"form": [form for form, _ in s], "tag": [tag for _, tag in s]} for s in sentences]


@LAW
@given(sentences=SENTENCES, chunk=st.sampled_from([1, 3, 1 << 18]))
def test_a_corpus_gives_back_what_it_was_built_of(sentences, chunk, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    rows = as_columns(sentences)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("riverrun.data.corpus._CHUNK", chunk)
        built = Corpus.build(iter(rows), folder, columns=("form", "tag"))
        opened = Corpus.open(folder)
    for corpus in (built, opened):
        assert len(corpus) == len(rows) and corpus.tokens == sum(map(len, sentences))
        assert [corpus.sentence(k) for k in range(len(corpus))] == rows
        assert list(corpus.column("tag")) == [row["tag"] for row in rows]
        assert corpus.lengths.tolist() == [len(s) for s in sentences]
        words = [form for row in rows for form in row["form"]]
        assert dict(zip(corpus.symbols["form"], corpus.counts["form"].tolist(), strict=True)) == {
            word: words.count(word) for word in words
        }
        assert corpus.symbols["form"] == list(dict.fromkeys(words))
        order = np.arange(len(rows))[::-1]
        assert corpus.lengths_of(order).tolist() == [len(s) for s in reversed(sentences)]
        taken = [corpus.symbols["form"][k] for k in corpus.take(order, "form")]
        assert taken == [form for row in reversed(rows) for form in row["form"]]
    lower = opened.recode("tag", lambda tags: [tag.lower() for tag in tags])
    assert list(lower.column("tag")) == [[tag.lower() for tag in row["tag"]] for row in rows]
    assert list(lower.column("form")) == list(opened.column("form"))
    assert list(Corpus.open(folder).column("tag")) == [row["tag"] for row in rows]  # the first one is as it was


def test_ids_are_mapped_from_the_disk_and_not_held(tmp_path: Path):
    corpus = Corpus.build([{"form": ["a", "b"]}], tmp_path, columns=("form",))
    assert isinstance(corpus.ids["form"], np.memmap) and isinstance(corpus.offsets, np.memmap)


# -- batches of a corpus


def encoder(rows: list[dict[str, list[str]]], *, most: int | None = None) -> SentenceEncoder:
    forms: dict[str, int] = {}
    for row in rows:
        for form in row["form"]:
            forms[form] = forms.get(form, 0) + 1
    tags = {tag: 1 for row in rows for tag in row["tag"]}
    words = WordField(Vocab.count(forms, unknown="<unk>", min_count=2))
    fields = SentenceFields(words, CharField.count(forms, limit=4), TagField(Vocab.count(tags)))
    return SentenceEncoder(fields, most=most)


def flat(batch: Batch) -> dict[str, list[object]]:
    return {name: array.tolist() for name, array in batch.flat().items()}


def test_what_a_position_stands_for_depends_on_nothing_else(tmp_path, rng):
    rows = as_columns(
        [[("abcd"[rng.integers(4)], "XY"[rng.integers(2)]) for _ in range(n)] for n in rng.integers(0, 9, 50)]
    )
    corpus = Corpus.build(rows, tmp_path, columns=("form", "tag"))

    def loader() -> SentenceLoader:
        return SentenceLoader(corpus, encoder(rows), Buckets(corpus.lengths, batch=4, tokens=20, seed=3))

    first = loader()
    for epoch in (0, 1, 2):
        whole = [flat(batch) for batch in first.batches(epoch)]
        assert len(whole) == first.count(epoch)
        for start in (0, 1, len(whole) - 1, len(whole)):
            assert [flat(batch) for batch in loader().batches(epoch, start)] == whole[start:]
    again = next(first.batches(0))  # going back to an earlier epoch
    assert flat(again) == flat(next(loader().batches(0)))


def test_the_loader_and_the_encoder_make_the_same_batches(tmp_path):
    rows = as_columns([[("a", "X"), ("bb", "Y")], [], [("a", "Y")], [("ccc", "X"), ("a", "X"), ("bb", "X")]])
    corpus = Corpus.build(rows, tmp_path, columns=("form", "tag"))
    buckets = Buckets(corpus.lengths, batch=3, shuffle=False, pool=1)
    for batch, order in zip(SentenceLoader(corpus, encoder(rows), buckets).batches(0), buckets.order(0), strict=True):
        chosen = [rows[k] for k in order]
        other = encoder(rows)
        other.table.add(corpus.symbols["form"])  # rows of the table in the same order, and so the distinct forms
        assert flat(batch) == flat(other.encode([r["form"] for r in chosen], [r["tag"] for r in chosen]))


@LAW
@given(sentences=SENTENCES, before=SENTENCES, most=st.sampled_from([None, 0, 1, 3]))
def test_a_batch_says_what_its_sentences_say_whatever_was_encoded_before(sentences, before, most):
    rows = as_columns(sentences)
    reader = encoder([{"form": ["a", "a", "b"], "tag": ["X", "Y", "Y"]}], most=most)
    reader.encode([row["form"] for row in as_columns(before)])
    batch = reader.encode([row["form"] for row in rows], [row["tag"] for row in rows])
    words, chars, tags = reader.fields.words, reader.fields.chars, reader.fields.tags
    assert words is not None and chars is not None
    assert lists(batch["words"]) == [[words.id(form) for form in row["form"]] for row in rows]
    assert lists(batch["tags"]) == [tags.vocab.ids(row["tag"]) for row in rows]
    spelled = lists(batch["chars"])
    for row, index in zip(rows, lists(batch["chars.index"]), strict=True):
        assert [spelled[k] for k in index] == [chars.ids(form) for form in row["form"]]
    # Each distinct form is encoded once.
    assert len(spelled) == len({form for row in rows for form in row["form"]})
    assert batch["chars"].data.sum() == sum(map(sum, spelled))  # zeros in the padding


@LAW
@given(windows=st.lists(st.lists(st.sampled_from("abcdefg"), max_size=5), max_size=8))
def test_a_table_with_a_limit_forgets_and_gives_the_same(windows):
    words = WordField(Vocab(["<unk>", *"aceg"], "<unk>"))
    chars = CharField.count({"abcdefg": 1})
    table, free = FormTable(words, chars, most=2), FormTable(words, chars)
    for window in windows:
        got, expected = table.rows([window]), free.rows([window])
        assert table.word_ids(got).tolist() == free.word_ids(expected).tolist()
        assert [a.tolist() for a in table.char_ids(got)] == [a.tolist() for a in free.char_ids(expected)]
        assert len(table._row) <= 2 + len(set(window))


def test_a_table_grows_beyond_its_first_size():
    forms = [f"w{k}" for k in range(3000)]
    table = FormTable(WordField(Vocab(["<unk>", *forms], "<unk>")), CharField.count({"w0123456789": 1}))
    rows = table.rows([forms])
    assert table.word_ids(rows).tolist() == list(range(1, 3001))
    assert table.char_ids(rows)[1].tolist() == [len(form) + 2 for form in forms]
