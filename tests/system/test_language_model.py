"""A language model as people use it: trained, scored, written with, kept as a stream, exported."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riverrun.cli.main import run
from riverrun.errors import CheckpointError, ConfigError, DataError, StateError
from riverrun.tasks import load
from riverrun.tasks.language_model import LanguageModel

pytest.importorskip("numba")  # counting needs it as training does

HAS_TORCH = pytest.mark.train
WORDS = "ab"
SMALL = ("train={optimizer='adam', rate=0.02, epochs=3, batch=4, bptt=16, threads=1, checkpoint_seconds=1e9}",)
ENCODER = "model.encoder={cell='lstm', hidden=16, layers=1, dropout=0.0}"

# name -> recipe and settings; every kind of model and of units, every softmax
MODELS: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "kn": ("lm/kn5", ("model.order=3",), ()),
    "kn-chars": ("lm/kn5", ("model.order=4", "model.units.kind=chars"), ()),
    "snm": ("lm/snm", ("model.order=3", "model.buckets=4096"), ()),
    "window": ("lm/window", ("model.size=8", "model.hidden=16", *SMALL), HAS_TORCH),
    "words": ("lm/lstm", ("model.size=16", ENCODER, *SMALL), HAS_TORCH),
    "chars": ("lm/char", ("model.size=16", ENCODER, *SMALL), HAS_TORCH),
    "bytes": ("lm/char", ("model.size=16", ENCODER, "model.units.kind=bytes", *SMALL), HAS_TORCH),
    "bpe": ("lm/char", ("model.size=16", ENCODER, "model.units={kind='bpe', size=280}", *SMALL), HAS_TORCH),
    "adaptive": (
        "lm/lstm",
        ("model.size=16", ENCODER, "model.output={kind='adaptive', cutoffs=[3]}", *SMALL),
        HAS_TORCH,
    ),
    "sampled": ("lm/lstm", ("model.size=16", ENCODER, "model.output={kind='sampled', samples=4}", *SMALL), HAS_TORCH),
    "blackout": ("lm/lstm", ("model.size=16", ENCODER, "model.output={kind='blackout', samples=4}", *SMALL), HAS_TORCH),
    "maxent": ("lm/lstm", ("model.size=16", ENCODER, "model.maxent={order=3, buckets=512}", *SMALL), HAS_TORCH),
}
EACH = [pytest.param(name, marks=marks) for name, (_, _, marks) in MODELS.items()]


def sentences(count: int, seed: int) -> list[str]:
    """Lines in which the verb has the number of the first noun."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        many = bool(random.integers(2))
        noun = ["dog", "key", "cat"][random.integers(3)] + ("s" if many else "")
        near = ["house", "tables"][random.integers(2)] if random.integers(2) else ""
        verb = ("are" if many else "is") + " " + ["here", "old"][random.integers(2)]
        lines.append(f"the {noun} {f'near the {near} ' if near else ''}{verb} .")
    return lines


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt and dev.txt."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "train.txt").write_text("\n".join(sentences(300, 1)) + "\n")
    (folder / "dev.txt").write_text("\n".join(sentences(40, 2)) + "\n")
    return folder


@pytest.fixture(scope="session")
def made(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """name -> the folder of that model, trained once."""
    place, found = tmp_path_factory.mktemp("models"), {}

    def make(name: str) -> Path:
        if name not in found:
            recipe, settings, _ = MODELS[name]
            LanguageModel(recipe, settings=settings).fit(text / "train.txt", text / "dev.txt", out=place / name)
            found[name] = place / name
        return found[name]

    return make


@pytest.mark.parametrize("name", EACH)
def test_it_has_learned_something(made, text, name):
    model = load(made(name))
    report = model.evaluate(text / "dev.txt")
    assert report.metrics["perplexity"] < model.units.size / 2
    assert report.metrics["word_perplexity"] < 40
    assert report.signature.startswith("perplexity:") and report.n == sum(
        len(scores) for scores in model.score_symbols((text / "dev.txt").read_text().splitlines())
    )


@pytest.mark.parametrize("name", EACH)
def test_the_folder_is_the_model(made, tmp_path, name):
    model = load(made(name))
    model.save_pretrained(tmp_path / "copy")
    again = load(tmp_path / "copy")
    lines = ["the keys are here .", "", "a cat"]
    assert list(again.score(lines)) == list(model.score(lines))
    assert again.identity == model.identity
    stored = lambda place: {p.relative_to(place): p.read_bytes() for p in place.rglob("*") if p.is_file()}  # noqa: E731
    assert stored(tmp_path / "copy").items() <= stored(made(name)).items()


@pytest.mark.parametrize("name", EACH)
def test_lines_are_scored_alike_alone_and_together(made, name):
    model = load(made(name))
    lines = ["the keys near the house are here .", "", "the cat is old .", "the"]
    alone = [next(model.score([line])) for line in lines]
    assert list(model.score(lines)) == pytest.approx(alone, abs=1e-4)
    by_symbol = [sum(score for _, score in symbols) for symbols in model.score_symbols(lines)]
    assert by_symbol == pytest.approx(alone, abs=1e-4)


@pytest.mark.parametrize("name", EACH)
def test_a_stream_is_a_value(made, tmp_path, name):
    model = load(made(name))
    whole, end = model.read("the keys near")
    first, middle = model.read("the keys")
    rest, other = model.read(" near" if not name.startswith(("kn", "snm")) or "chars" in name else "near", middle)
    assert [s for _, s in [*first, *rest]] == pytest.approx([s for _, s in whole], abs=1e-4) or name == "bpe"
    forked = model.read("x", middle)[1]
    assert model.read(" near", middle)[0] == model.read(" near", middle)[0] and forked is not middle
    model.save_stream(end, tmp_path / "stream")
    back = load(made(name)).load_stream(tmp_path / "stream")
    assert model.read(" the", back)[0] == model.read(" the", end)[0]
    assert other.last.tolist() == end.last.tolist()


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("strategy", ["greedy", "sample", "top-k", "top-p", "min-p", "typical", "beam"])
def test_a_seed_is_a_text(made, name, strategy):
    model = load(made(name))
    wishes: dict[str, Any] = {"strategy": strategy, "length": 12, "seed": 5}
    texts = model.generate("the", **wishes).texts()
    assert model.generate("the", **wishes).texts() == texts
    pieces = list(model.generate("the", **wishes))
    assert "".join(piece.text for piece in pieces) == texts[0] and pieces[-1].last
    assert len(model.generate("the", **wishes, n=3, beam=4).texts()) == 3
    if strategy == "sample":
        assert model.generate("the", **wishes, n=3).texts()[0] == texts[0]  # its neighbours do not matter
        assert (
            model.generate("the", **wishes | {"seed": 6}, n=5).texts() != model.generate("the", **wishes, n=5).texts()
        )


def test_generation_goes_on_where_it_ended(made):
    model = load(made("kn-chars"))
    whole = model.generate("the ", length=40, strategy="greedy").texts()[0]
    first = model.generate("the ", length=15, strategy="greedy")
    begin = first.texts()[0]
    rest = model.generate(stream=first.stream, length=25, strategy="greedy").texts()[0]
    assert begin + rest == whole


def test_a_stop_string_ends_a_text(made):
    model = load(made("kn-chars"))
    text = model.generate("the ", length=200, seed=1, stop=(" .",)).texts()[0]
    assert " ." not in text and len(text) < 200


@pytest.mark.parametrize("name", ["kn", pytest.param("words", marks=HAS_TORCH)])
def test_agreement_is_found(made, tmp_path, name):
    (tmp_path / "pairs.tsv").write_text(
        "the keys are here .\tthe keys is here .\tnear\n"
        "the keys near the house are old .\tthe keys near the house is old .\tfar\n"
        "the zebras are here .\tthe zebra is here .\tunknown\n"
    )
    report = load(made(name)).agreement(tmp_path / "pairs.tsv")
    assert report.by_type["near"]["accuracy"] == 1.0
    assert report.metrics["unknown"] == pytest.approx(1 / 3) and report.n == 2


@HAS_TORCH
@pytest.mark.parametrize("name", ["words", "chars", "window", "adaptive", "maxent"])
@pytest.mark.parametrize("int8", [False, True])
def test_an_exported_model_is_the_model(made, tmp_path, text, name, int8):
    pytest.importorskip("onnx_ir")
    model = load(made(name))
    model.export(tmp_path / "small", int8=int8)
    small = load(tmp_path / "small")
    lines = ["the keys near the house are here .", "", "the cat is old ."]
    assert list(small.score(lines)) == pytest.approx(list(model.score(lines)), rel=0.2 if int8 else 1e-4)
    assert small.identity == model.identity
    _, stream = model.read("the keys")
    model.save_stream(stream, tmp_path / "stream")
    there = small.read(" are", small.load_stream(tmp_path / "stream"))[0]
    assert [s for _, s in there] == pytest.approx(
        [s for _, s in model.read(" are", stream)[0]], rel=0.3 if int8 else 1e-3
    )
    if not int8:
        wishes: dict[str, Any] = {"length": 20, "seed": 3}
        assert small.generate("the", **wishes).texts() == model.generate("the", **wishes).texts()
        ours, theirs = (m.evaluate(text / "dev.txt").metrics["perplexity"] for m in (small, model))
        assert ours == pytest.approx(theirs, rel=1e-4)
    with pytest.raises(ConfigError, match="exported already"):
        small.export(tmp_path / "again")


def test_a_model_that_counts_needs_no_export(made, tmp_path):
    with pytest.raises(ConfigError, match="no net and runs without torch as it is"):
        load(made("kn")).export(tmp_path / "small")
    assert os.listdir(tmp_path) == []


def test_the_stream_of_another_model(made, tmp_path):
    one, other = load(made("kn")), load(made("kn-chars"))
    one.save_stream(one.begin(), tmp_path / "stream")
    with pytest.raises(StateError, match="expected one of the model"):
        other.load_stream(tmp_path / "stream")
    with pytest.raises(DataError, match="no such file; expected a stream"):
        one.load_stream(tmp_path / "no")


def test_the_vocabulary_of_another_model(made, tmp_path):
    load(made("kn")).save_pretrained(tmp_path / "model")
    other = made("kn-chars") / "vocab" / "units.json"
    (tmp_path / "model" / "vocab" / "units.json").write_bytes(other.read_bytes())
    with pytest.raises(CheckpointError, match=r"units.json: its SHA-256 is not the one in config.json"):
        load(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_bytes())
    config["files"]["vocab/units.json"] = json.loads((made("kn-chars") / "config.json").read_bytes())["files"][
        "vocab/units.json"
    ]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"symbols beside a vocabulary of \d+; one of the two files belongs"):
        load(tmp_path / "model")


def test_the_commands(made, text, capsys):
    folder = str(made("kn"))
    assert run(["evaluate", folder, str(text / "dev.txt"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["task"] == "lm" and found["metrics"]["perplexity"] > 1
    assert run(["score", folder, str(text / "dev.txt")]) == 0
    scores = list(map(float, capsys.readouterr().out.splitlines()))
    assert len(scores) == 40 and math.exp(-sum(scores) / found["n"]) == pytest.approx(
        found["metrics"]["perplexity"], rel=1e-5
    )
    assert run(["score", folder, str(text / "dev.txt"), "--tokens"]) == 0
    blocks = capsys.readouterr().out.split("\n\n")
    assert len(blocks) == 41 and blocks[0].splitlines()[-1].startswith("</s>\t")
    assert run(["generate", folder, "--prompt", "the", "--seed", "4", "--length", "8"]) == 0
    first = capsys.readouterr().out
    assert run(["generate", folder, "--prompt", "the", "--seed", "4", "--length", "8", "--json"]) == 0
    assert "the" + json.loads(capsys.readouterr().out)["text"] == first.removesuffix("\n")
    assert run(["generate", folder, "--length", "3"]) == 0
    assert "Again: --seed " in capsys.readouterr().err


BAD: dict[str, tuple[list[str], str]] = {
    "empty": (["train", "lm/kn5", "empty.txt"], "empty.txt: the file is empty; expected text"),
    "one token": (["train", "lm/kn5", "one.txt", "one.txt", "--set", "model.units.kind=chars"], "a text of 1 symbols"),
    "no file": (["train", "lm/kn5", "no.txt"], "no.txt: no such file"),
    "tagged": (
        ["train", "lm/kn5", "train.txt", "--set", "data.format=conllu"],
        "reads the formats lines, text and lm1b",
    ),
    "steps": (
        ["train", "lm/kn5", "train.txt", "--set", "train.epochs=3"],
        "train.epochs: a model of kind 'ngram' counts",
    ),
    "backwards": (
        ["train", "lm/lstm", "train.txt", "--set", "model.encoder.bidirectional=true"],
        "model.encoder.bidirectional: a language model that reads from both ends sees the answer",
    ),
    "tied": (["train", "lm/lstm", "train.txt", "--set", "model.size=7"], "output.tied: the vectors have 7 numbers"),
    "column": (["train", "lm/kn5", "train.txt", "--set", "data.columns={form=0}"], "reads text, which has no columns"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(tmp_path, monkeypatch, capsys, case):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text("\n".join(sentences(20, 1)) + "\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "one.txt").write_text("a")
    before = sorted(os.listdir(tmp_path))
    line, message = BAD[case]
    assert run(line) == 1
    out, said = capsys.readouterr()
    assert out == "" and message in said and "Traceback" not in said
    assert sorted(os.listdir(tmp_path)) == before


def test_a_prompt_that_is_not_known(made, capsys):
    with pytest.raises(DataError, match="characters that the model does not know: é; leave them out"):
        load(made("kn-chars")).generate("dog\N{LATIN SMALL LETTER E WITH ACUTE}")
    model = load(made("kn"))
    model.generate("the zebra")
    assert model.notes == ["the model does not know zebra and reads <unk> instead"]
    with pytest.raises(ConfigError, match="unknown option 'tempreature'"):
        model.generate("the", tempreature=2)
    with pytest.raises(ConfigError, match="temperature: expected a number from 0 on"):
        model.generate("the", temperature=-1.0)
