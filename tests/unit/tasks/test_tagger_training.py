"""``Tagger.fit``: what it reads, what it leaves in its folder, and how a run that was cut off goes on."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.train

from riverrun.errors import CheckpointError, ConfigError, DataError  # noqa: E402
from riverrun.tasks import folder as folders  # noqa: E402
from riverrun.tasks import load  # noqa: E402
from riverrun.tasks.tagger import Tagger  # noqa: E402
from riverrun.train import events  # noqa: E402

CELL = '''
from riverrun.nn.cells import Cell
from riverrun.nn.cells.math import sigmoid, tanh

class Forgetful(Cell):
    """A state that half forgets."""
    gates = ("f", "n")
    states = ("h",)

    def step(self, x, s, R, p):
        f = sigmoid(x.f + R.f(s.h))
        return s.next(h=f * s.h + (1 - f) * tanh(x.n + R.n(s.h)))
'''
SMALL = ("train.epochs=1", "train.steps=3", "model.encoder.hidden=4")


@pytest.fixture
def make(tiny_settings):
    """An untrained tagger with tiny settings, and these on top."""
    return lambda *settings, recipe="tagger/ner": Tagger(recipe, settings=(*tiny_settings, *settings))


@pytest.fixture
def train(names_data) -> Path:
    return names_data / "train.conll"


@pytest.fixture
def dev(names_data) -> Path:
    return names_data / "dev.conll"


def test_without_out_nothing_stays_on_the_disk(make, train, dev, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tagger = make(*SMALL).fit(train, dev)
    assert list(tmp_path.glob("riverrun*")) == []
    assert len(tagger.predict(["dr ada"])[0].tags) == 2
    assert tagger.recipe.data.train == str(train)


def test_the_folder_holds_what_was_promised(tagger_folder, names_data):
    assert sorted(os.listdir(tagger_folder)) == [
        "README.md", "checkpoint", "config.json", "metrics.json", "model.safetensors", "vocab"
    ]  # fmt: skip
    config = json.loads((tagger_folder / "config.json").read_bytes())
    assert (config["format"], config["task"], config["graph"]) == (1, "tagger", None)
    assert set(config["data"]) == {str(names_data / "train.conll"), str(names_data / "dev.conll")}
    assert set(config["files"]) == {
        "metrics.json", "model.safetensors", *(f"vocab/{name}.json" for name in ("words", "chars", "tags", "tokenizer"))
    }  # fmt: skip
    assert config["recipe"]["model"]["encoder"]["hidden"] == 12
    metrics = json.loads((tagger_folder / "metrics.json").read_bytes())
    assert metrics["reports"]["dev"]["metrics"] == metrics["metrics"] and metrics["steps"] == 60
    card = (tagger_folder / "README.md").read_text()
    assert "riverrun predict" in card and metrics["signature"] in card and "`S-PER`" in card


def test_people_may_write_into_the_card(tagger_folder, tmp_path):
    Tagger.load(tagger_folder).save_pretrained(tmp_path / "model")
    card = tmp_path / "model" / "README.md"
    card.write_text(card.read_text() + "\nCC0.\n")
    Tagger.load(tmp_path / "model").save_pretrained(tmp_path / "copy")
    assert (tmp_path / "copy" / "README.md").read_text().endswith("CC0.\n")


def test_a_tenth_is_held_out_where_there_is_no_dev_and_it_says_so(make, train):
    seen: list[events.Event] = []
    make(*SMALL).fit(train, listeners=[seen.append])
    prepared = seen[0]
    assert isinstance(prepared, events.Prepared)
    assert prepared.facts["train"].startswith("216 sentences") and prepared.facts["dev"].startswith("24 sentences")
    assert prepared.facts["dev"].endswith("held out of train")
    assert "spans in iob1, learned as bioes" in prepared.facts["tags"]
    assert "/" in prepared.facts["first sentence"] and "crf" not in prepared.facts


def test_a_tag_that_only_held_out_sentences_have_is_no_error(make, tmp_path):
    rows = ["a\tX\nb\tY\n\n"] * 19 + ["a\tX\nb\tRARE\n\n"]
    (tmp_path / "a.conll").write_text("".join(rows))
    tagger = make(*SMALL, "model.head={kind='softmax', scheme='none'}", recipe="tagger/upos").fit(tmp_path / "a.conll")
    assert tagger.fields.tags.vocab.symbols == ["X", "Y"]


def test_too_few_sentences_to_hold_any_out(make, tmp_path):
    (tmp_path / "a.conll").write_text("a\tX\n\n" * 3)
    with pytest.raises(DataError, match=r"a\.conll: has only 3 sentences, too few to hold out 10%.*Give a dev file"):
        make(recipe="tagger/upos").fit(tmp_path / "a.conll", out=tmp_path / "out")
    assert os.listdir(tmp_path) == ["a.conll"]


def test_a_test_file_is_scored_once_at_the_end(make, train, dev, tmp_path):
    make(*SMALL, f"data.test={dev}").fit(train, train, out=tmp_path / "m")
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_bytes())
    assert metrics["reports"]["test"]["n"] == 60 and metrics["reports"]["dev"]["n"] == 240
    assert metrics["metrics"] == metrics["reports"]["test"]["metrics"]


def test_parts_of_speech_are_scored_by_accuracy_and_never_constrained(make, tmp_path):
    text = "".join(
        f"# n\n1\tdogs\t_\tNOUN\t_\t_\t_\t_\t_\t_\n2\tbark{k % 3}\t_\tVERB\t_\t_\t_\t_\t_\t_\n\n" for k in range(40)
    )
    (tmp_path / "a.conllu").write_text(text)
    tagger = make("model.head={kind='softmax', scheme='none'}", "train.metric=accuracy", recipe="tagger/upos").fit(
        tmp_path / "a.conllu"
    )
    report = tagger.evaluate(tmp_path / "a.conllu")
    assert report.metrics == {"accuracy": 1.0} and tagger._model.labeller._allowed is None


def test_a_cell_of_ones_own_with_a_pairwise_crf(make, train, dev, tmp_path, monkeypatch):
    (tmp_path / "mine_own.py").write_text(CELL)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "new" / "model"
    own = make(
        "model.encoder={cell='mine_own:Forgetful', hidden=8}",
        "model.head={kind='crf', potentials='pairwise', scheme='bioes'}",
        "train.epochs=1",
    )
    with pytest.raises(ConfigError, match=r"allow.import"):
        own.fit(train, dev, out=out)
    assert not (tmp_path / "new").exists()  # the next try finds the folder as this one did
    own.fit(train, dev, out=out, allow_import=True)
    expected = list(own.tag([["dr", "ada", "runs"], ["new", "york"]]))

    monkeypatch.delitem(sys.modules, "mine_own")
    (tmp_path / "mine_own.py").unlink()
    loaded = load(out)  # its equation is in the folder
    assert list(loaded.tag([["dr", "ada", "runs"], ["new", "york"]])) == expected
    loaded.export(tmp_path / "exported")
    assert list(load(tmp_path / "exported").tag([["dr", "ada", "runs"], ["new", "york"]])) == expected


def test_a_second_fit_goes_on_from_what_the_recipe_says_and_needs_a_fresh_folder(make, train, dev, tmp_path):
    make(*SMALL).fit(train, dev, out=tmp_path / "m")
    with pytest.raises(ConfigError, match=r"m: is not empty. Give another --out, or --resume"):
        make(*SMALL).fit(train, dev, out=tmp_path / "m")
    before = {p: p.read_bytes() for p in (tmp_path / "m").rglob("*") if p.is_file()}
    again = make(*SMALL).fit(train, dev, out=tmp_path / "m", resume=True)
    assert again.notes == [f"{tmp_path / 'm'}: this training is finished; nothing to resume"]
    assert {p: p.read_bytes() for p in (tmp_path / "m").rglob("*") if p.is_file()} == before
    assert again.predict(["dr ada"])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"resume": True}, "resume: which run"),
        ({"resume": True, "out": "nowhere"}, "nowhere: no such folder, so there is nothing to resume"),
        ({"out": "file"}, "file: is a file; expected the folder of the new model"),
    ],
)
def test_where_to_is_asked_before_anything_is_read(make, tmp_path, monkeypatch, keywords, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=message):
        make().fit("nothere", **keywords)
    assert os.listdir(tmp_path) == ["file"]


class Stop(Exception):
    """The end of a process, without a word to anybody."""


def until(step: int):
    def listener(event: events.Event) -> None:
        if isinstance(event, events.Step) and event.step == step:
            raise Stop

    return listener


SHORT = "train.epochs=2"
OFTEN = "train.checkpoint_seconds=1e-9"


def interrupted(make, train: Path, dev: Path, out: Path, *settings: str, step: int = 20) -> None:
    with pytest.raises(Stop):
        make(SHORT, OFTEN, *settings).fit(train, dev, out=out, listeners=[until(step)])


def test_a_run_that_was_cut_off_is_used_and_resumed(make, train, dev, tmp_path):
    out = tmp_path / "parts"
    interrupted(make, train, dev, out)
    assert sorted(os.listdir(out)) == ["cache", "checkpoint"]
    unfinished = load(out)
    assert unfinished.notes == [f"{out}: the training is not finished; these are the best weights so far"]
    assert len(unfinished.predict(["dr ada"])[0].tags) == 2
    make(SHORT).fit(train, dev, out=out, resume=True)
    make(SHORT).fit(train, dev, out=tmp_path / "whole")
    for name in ("model.safetensors", "vocab/words.json", "vocab/tags.json", "vocab/tokenizer.json"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert load(out).notes == [] and not (out / "cache").exists()


def test_what_a_resumed_run_may_not_change(make, train, dev, tmp_path):
    out, data = tmp_path / "m", tmp_path / "train.conll"
    data.write_bytes(train.read_bytes())
    interrupted(make, data, dev, out)
    before = {p: p.read_bytes() for p in (out / "checkpoint").rglob("*") if p.is_file()}
    with pytest.raises(CheckpointError, match=r"other settings in \[model\]; a run is resumed with the same"):
        make(SHORT, "model.encoder.hidden=9").fit(data, dev, out=out, resume=True)
    data.write_bytes(train.read_bytes() + b"dr I-PER\n\n".replace(b" ", b"\t"))
    with pytest.raises(CheckpointError, match=r"train\.conll: was changed since the run began.*Restore the file"):
        make(SHORT).fit(data, dev, out=out, resume=True)
    assert {p: p.read_bytes() for p in (out / "checkpoint").rglob("*") if p.is_file()} == before
    data.write_bytes(train.read_bytes())
    tagger = make("train.epochs=3").fit(data, dev, out=out, resume=True)  # but more of the same is fine
    assert tagger.recipe.train.epochs == 3


def test_a_run_that_fails_before_its_first_checkpoint_leaves_the_folder_as_it_was(make, train, dev, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for out in (empty, tmp_path / "a" / "b"):
        with pytest.raises(Stop):
            make().fit(train, dev, out=out, listeners=[until(1)])
    assert os.listdir(tmp_path) == ["empty"] and os.listdir(empty) == []
    make(*SMALL).fit(train, dev, out=empty)


def test_what_stood_there_is_never_taken_away(make, train, dev, tmp_path):
    out = tmp_path / "m"
    interrupted(make, train, dev, out)
    (out / "mine.txt").write_text("mine")
    before = {p for p in out.rglob("*") if "cache" not in p.parts}
    with pytest.raises(CheckpointError):
        make(OFTEN, "model.encoder.hidden=9").fit(train, dev, out=out, resume=True)
    assert before <= set(out.rglob("*"))


def test_a_cache_of_ones_own_is_kept_and_used_again(make, train, dev, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    make(*SMALL, f"data.cache={cache}").fit(train, dev)
    assert (cache / "train" / "origin.json").is_file()
    builds = []
    from riverrun.data.corpus import Corpus

    real = Corpus.build
    monkeypatch.setattr(Corpus, "build", lambda *a, **k: builds.append(a[1]) or real(*a, **k))
    make(*SMALL, f"data.cache={cache}").fit(train, dev)
    assert [path.name for path in builds] == ["recoded-tag"]
    make(*SMALL, f"data.cache={cache}").fit(dev, dev)  # another file: built anew
    assert {path.name for path in builds} == {"recoded-tag", "train"}


def test_a_disk_that_is_full_at_the_end_leaves_the_checkpoint_and_resume_finishes(
    make, train, dev, tmp_path, monkeypatch
):
    out = tmp_path / "m"
    real = os.fsync
    full = False

    def fsync(file):
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    def at_the_end(event: events.Event) -> None:
        nonlocal full
        full = isinstance(event, events.Finished)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        make(*SMALL).fit(train, dev, out=out, listeners=[at_the_end])
    full = False
    assert not (out / "config.json").exists() and load(out).notes  # the unfinished run is used
    steps = []
    make(*SMALL).fit(train, dev, out=out, resume=True, listeners=[steps.append])
    assert not [e for e in steps if isinstance(e, events.Step)]  # nothing was lost
    whole = make(*SMALL).fit(train, dev, out=tmp_path / "whole")
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert whole.evaluate(dev).metrics == load(out).evaluate(dev).metrics
    assert not list(out.rglob(".*"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_ctrl_c_saves_and_resume_goes_on(make, train, dev, tmp_path):
    out = tmp_path / "m"

    def ctrl_c(event: events.Event) -> None:
        if isinstance(event, events.Step) and event.step == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        make(SHORT).fit(train, dev, out=out, listeners=[ctrl_c])
    assert (out / "checkpoint" / "6").is_dir() or (out / "checkpoint" / "5").is_dir()
    make(SHORT).fit(train, dev, out=out, resume=True)
    make(SHORT).fit(train, dev, out=tmp_path / "whole")
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


def test_in_another_thread_than_the_main_one(make, train, dev):
    done = []
    thread = threading.Thread(target=lambda: done.append(make(*SMALL).fit(train, dev)))
    thread.start()
    thread.join()
    assert len(done) == 1 and done[0].predict(["dr ada"])


def test_what_an_untrained_tagger_cannot(make, tmp_path, exported_folder):
    with pytest.raises(ConfigError, match=r"not trained yet: call fit\(train, dev\), or Tagger.load\(folder\)"):
        make().predict(["a"])
    assert repr(make()) == "Tagger(lstm, crf, not trained)"
    with pytest.raises(ConfigError, match="this tagger has no net: it was exported"):
        _ = load(exported_folder).net
    with pytest.raises(ConfigError, match="exported already; export the folder that training wrote"):
        load(exported_folder).export(tmp_path / "again")
    assert os.listdir(tmp_path) == []


def test_an_export_that_fails_leaves_nothing(tagger_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "write", lambda *a: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
    with pytest.raises(OSError, match="No space left"):
        load(tagger_folder).export(tmp_path / "new")
    assert os.listdir(tmp_path) == []
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        load(tagger_folder).export(tmp_path / "full")


def test_an_exported_model_needs_no_data_to_be_checked(tagger_folder, tmp_path):
    tagger = load(tagger_folder)
    moved = dict.fromkeys(tagger._model.config.data, "0" * 64)
    tagger._model.config = msgspec.structs.replace(tagger._model.config, data=moved)
    assert tagger._sample(5) == []
    tagger.export(tmp_path / "new")
    assert list(load(tmp_path / "new").tag([["dr", "ada"]])) == list(tagger.tag([["dr", "ada"]]))
