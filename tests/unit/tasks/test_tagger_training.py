"""``Tagger.fit``: what it reads, what it leaves in its folder, and how a run that was cut off goes on."""

from __future__ import annotations

import errno
import json
import os
import shutil
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


def test_tags_that_only_held_out_sentences_have_are_said(make, tmp_path):
    rows = (["a\tX\nb\tY\n\n"] * 9 + ["a\tX\nb\tRARE\nc\tODD\nd\tODD\n\n"]) * 2
    (tmp_path / "a.conll").write_text("".join(rows))
    head = "model.head={kind='softmax', scheme='none'}"
    assert facts(make(*SMALL, head, recipe="tagger/upos"), tmp_path / "a.conll")["dev"] == (
        "2 sentences, 8 words, held out of train; 6 of them with a tag that the rest has not, which count as not "
        "found: ODD, RARE"
    )


def facts(tagger: Tagger, *files: Path) -> dict[str, str]:
    """The pre-flight report."""
    seen: list[events.Event] = []
    tagger.fit(*files, listeners=[seen.append])
    assert isinstance(seen[0], events.Prepared)
    return seen[0].facts


def test_spans_without_types_are_spans(make, tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("the\tO\nneural\tB\nnet\tI\nis\tO\nit\tB\n\n" * 20)
    tagger = make("train.epochs=8")
    assert facts(tagger, path)["tags"] == "5, spans in iob2, learned as bioes"
    report = tagger.evaluate(path)
    assert report.signature == "spans:conlleval|scheme:iob2|v1" and report.metrics["f1"] == 1.0
    assert list(tagger.tag([["the", "neural", "net", "is", "it"]])) == [["O", "B", "I", "O", "B"]]


@pytest.mark.parametrize("scoring", ["conlleval", "strict"])
def test_how_spans_are_counted_is_a_setting(make, train, dev, tmp_path, scoring):
    out = tmp_path / "m"
    make(*SMALL, f"scoring={scoring}", f"data.test={dev}").fit(train, dev, out=out)
    reports = json.loads((out / "metrics.json").read_bytes())["reports"]
    assert {report["signature"] for report in reports.values()} == {f"spans:{scoring}|scheme:iob1|v1"}


def test_a_run_that_counts_in_another_way_is_not_resumed(make, train, dev, tmp_path):
    interrupted(make, train, dev, tmp_path / "m")
    with pytest.raises(
        CheckpointError, match=r"m/checkpoint: the run that is here counts spans in another way \(scoring"
    ):
        make(SHORT, "scoring=strict").fit(train, dev, out=tmp_path / "m", resume=True)


def test_the_published_score_stands_beside_what_came_out(make, train, dev, tmp_path):
    tagger = make(*SMALL, "expects={f1=0.912, accuracy=0.01, bleu=3}", f"data.test={dev}").fit(train, dev, out=tmp_path)
    metrics = json.loads((tmp_path / "metrics.json").read_bytes())["metrics"]
    other = "Other data, vectors or settings give other scores"
    expected = [
        f"The recipe's published score is f1 0.912; here f1 is {metrics['f1']:.4f} on test, which does not reach it. "
        + other,
        f"The recipe's published score is accuracy 0.01; here accuracy is {metrics['accuracy']:.4f} on test, which "
        f"reaches it. {other}",
        "The recipe's published score is bleu 3; here no bleu was measured",
    ]
    assert tagger.notes == expected
    card = (tmp_path / "README.md").read_text()
    assert all(f"\n\n{line}\n\n" in card for line in expected)


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


def held(out: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in (out / "checkpoint").rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def cut_off(names_data, tiny_settings, tmp_path_factory) -> Path:
    """A run that was cut off, on both files of names; nobody changes it."""
    out = tmp_path_factory.mktemp("cut") / "off"
    with pytest.raises(Stop):
        Tagger("tagger/ner", settings=(*tiny_settings, SHORT, OFTEN)).fit(
            names_data / "train.conll", names_data / "dev.conll", out=out, listeners=[until(5)]
        )
    return out


OTHER_DATA = {
    "another train": (("other", "dev"), ()),
    "another dev": (("train", "other"), ()),
    "both exchanged": (("dev", "train"), ()),
    "no dev": (("train", None), ()),
    "the columns by number": (("train", "dev"), ("data.columns={form=0, tag=1}",)),
    "the format by name": (("train", "dev"), ("data.format=conll",)),
    "an encoding": (("train", "dev"), ("data.encoding=latin-1",)),
    "another share": (("train", "dev"), ("data.hold_out=0.2",)),
}


@pytest.mark.parametrize("case", OTHER_DATA)
def test_a_run_is_not_resumed_on_other_data(make, cut_off, names_data, tmp_path, case):
    (train, dev), settings = OTHER_DATA[case]
    out, files = tmp_path / "m", {name: names_data / f"{name}.conll" for name in ("train", "dev")}
    files["other"] = tmp_path / "other.conll"
    files["other"].write_bytes(files["train"].read_bytes() + b"dr\tI-PER\n\n")
    shutil.copytree(cut_off, out)
    before = held(out)
    with pytest.raises(CheckpointError, match=r"reads other data, or reads it in another way \(\[data\]\)"):
        make(SHORT, *settings).fit(files[train], dev and files[dev], out=out, resume=True)
    assert held(out) == before


def test_a_run_is_resumed_on_the_same_data_wherever_it_lies(make, cut_off, train, dev, tmp_path):
    for name, more in (("moved", ()), ("tested", (f"data.test={dev}", f"data.cache={tmp_path / 'cache'}"))):
        out, place = tmp_path / name, tmp_path / f"{name}-data"
        shutil.copytree(cut_off, out)
        place.mkdir()
        files = [shutil.copy(file, place) for file in (train, dev)]
        seen: list[events.Event] = []
        make(SHORT, *more).fit(*files, out=out, resume=True, listeners=[seen.append])
        assert min(e.step for e in seen if isinstance(e, events.Step)) > 1
        assert load(out).recipe.data.train == str(files[0])


def test_a_run_is_not_resumed_with_another_equation_of_the_cell(make, train, dev, tmp_path, monkeypatch):
    out, module = tmp_path / "m", tmp_path / "mine_own_too.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same second would be taken for the old one
    own = make(SHORT, OFTEN, "model.encoder={cell='mine_own_too:Forgetful', hidden=4}")

    def fit(equation: str, **more: object) -> Tagger:
        monkeypatch.delitem(sys.modules, "mine_own_too", raising=False)
        module.write_text(equation)
        return own.fit(train, dev, out=out, allow_import=True, **more)

    with pytest.raises(Stop):
        fit(CELL, listeners=[until(5)])
    before = held(out)
    # The weights are the same, and so they would be loaded.
    for other in (CELL.replace("f * s.h + (1 - f)", "(1 - f) * s.h + f"), CELL.replace("tanh(x.n", "sigmoid(x.n")):
        assert other != CELL
        with pytest.raises(CheckpointError, match=r"the equation of the cell was changed since the run began"):
            fit(other, resume=True)
        assert held(out) == before
    fit(CELL.replace("A state that half", "What half") + "# a comment\n", resume=True)  # the same in other words


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


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_stopped_is_told_how_to_go_on(make, train, dev, tmp_path, number):
    def stopped(event: events.Event) -> None:
        if isinstance(event, events.Step) and event.step == 2:
            signal.raise_signal(number)

    out = tmp_path / "m"
    with pytest.raises(KeyboardInterrupt, match=r"saved in .*m: the same call with resume=True goes on"):
        make(SHORT).fit(train, dev, out=out, listeners=[stopped])
    assert sorted(os.listdir(out)) == ["cache", "checkpoint"]  # and no lock
    with pytest.raises(KeyboardInterrupt, match=r"what was learned is lost: give fit a folder, out=\.\.\."):
        make(SHORT).fit(train, dev, listeners=[stopped])


def test_two_runs_do_not_share_a_folder(make, train, dev, tmp_path):
    refused = []

    def second(event: events.Event) -> None:
        if isinstance(event, events.Step) and not refused:
            for resume in (False, True):
                with pytest.raises(CheckpointError, match="another run is writing here") as found:
                    make(*SMALL).fit(train, dev, out=tmp_path / "m", resume=resume)
                refused.append(found)

    make(*SMALL).fit(train, dev, out=tmp_path / "m", listeners=[second])
    assert len(refused) == 2 and load(tmp_path / "m").notes == []


def test_a_disk_that_is_full_at_the_first_checkpoint_promises_nothing(make, train, dev, tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = tmp_path / "m"

    def training(event: events.Event) -> None:
        if isinstance(event, events.Started):
            monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(
        CheckpointError, match=r"No space left on device\. It is the first one, so that nothing is kept"
    ):
        make(*SMALL).fit(train, dev, out=out, listeners=[training])
    assert not out.exists()


def test_a_setting_that_is_changed_on_the_way_is_said_and_remembered(make, cut_off, train, dev, tmp_path):
    out = tmp_path / "m"
    shutil.copytree(cut_off, out)
    step = max(int(path.name) for path in (out / "checkpoint").iterdir() if path.name.isdecimal())
    said = f"train.rate was 0.03 until step {step}, is 0.01 from there on"
    seen: list[events.Event] = []
    with pytest.raises(KeyboardInterrupt):
        make(SHORT, OFTEN, "train.rate=0.01").fit(
            train, dev, out=out, resume=True, listeners=[seen.append, interrupting(step + 2)]
        )
    assert isinstance(seen[0], events.Prepared) and seen[0].facts["changed 1"] == said
    tagger = make(SHORT, OFTEN, "train.rate=0.01").fit(train, dev, out=out, resume=True)
    assert said not in tagger.notes  # nothing was changed this time
    assert json.loads((out / "config.json").read_bytes())["changes"] == [said]


def interrupting(step: int):
    """A listener that asks to stop at a step."""

    def hear(event: events.Event) -> None:
        if isinstance(event, events.Step) and event.step == step:
            signal.raise_signal(signal.SIGINT)

    return hear


def test_a_finished_run_is_not_resumed_with_other_settings_or_data(tagger_folder, names_data, make, tmp_path):
    train, dev = names_data / "train.conll", names_data / "dev.conll"
    before = (tagger_folder / "config.json").read_bytes()
    copy = tmp_path / "copy.conll"
    copy.write_bytes(train.read_bytes())
    done = make().fit(copy, dev, out=tagger_folder, resume=True)  # the same content
    assert done.notes == [f"{tagger_folder}: this training is finished; nothing to resume"]
    copy.write_bytes(dev.read_bytes())
    with pytest.raises(ConfigError) as wrong:
        make("train.epochs=9", "model.words.size=3").fit(copy, dev, out=tagger_folder, resume=True)
    first, *lines, last = str(wrong.value).splitlines()
    assert first == f"{tagger_folder}: this training is finished, with other settings or data; nothing was done."
    assert lines == [
        f"data.train = {train}, received {copy}", "model.words.size = 8, received 3", "train.epochs = 4, received 9"
    ]  # fmt: skip
    assert last == "To train with these, give another folder (--out)"
    assert (tagger_folder / "config.json").read_bytes() == before


def test_a_model_that_was_loaded_reads_no_file_that_nobody_named(tagger_folder, train, tmp_path):
    tagger = load(tagger_folder)
    assert tagger.recipe.data.dev is not None
    seen: list[events.Event] = []
    tagger.recipe = msgspec.structs.replace(
        tagger.recipe, train=msgspec.structs.replace(tagger.recipe.train, epochs=1, steps=2)
    )
    tagger.fit(train, listeners=[seen.append])
    assert isinstance(seen[0], events.Prepared) and seen[0].facts["dev"].endswith("held out of train")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_training_reads_files_that_can_be_read_again(make, train, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(
        DataError, match=r"pipe: a pipe can be read only once, and a training reads data\.train several"
    ):
        make().fit(pipe)
    with pytest.raises(
        DataError, match=r"-: standard input can be read only once, .*data\.dev several times; expected"
    ):
        make().fit(train, "-")


def test_without_dev_something_must_be_held_out(make, train):
    with pytest.raises(ConfigError, match=r"data\.hold_out: 0 holds nothing out, and there is no dev file"):
        make("data.hold_out=0").fit(train)


@pytest.mark.parametrize("tag", ["_", "NOUN"])
def test_one_tag_alone_is_nothing_to_learn(make, tmp_path, tag):
    path = tmp_path / "a.conll"
    path.write_text(f"ada\t{tag}\ndr\t{tag}\n\n" * 20)
    with pytest.raises(DataError, match=rf"a\.conll: every word has the tag `{tag}`; expected at least two tags"):
        make(*SMALL, "model.head={kind='softmax', scheme='none'}").fit(path)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
def test_names_that_cannot_be_written_down_are_refused_before_anything_is_learned(make, train, dev, tmp_path):
    strange = tmp_path / os.fsdecode(b"\xff.conll")
    strange.write_bytes(dev.read_bytes())
    with pytest.raises(ConfigError, match="this name is not UTF-8, in which recipes and logs are written; rename it"):
        make(*SMALL).fit(train, strange)
    with pytest.raises(ConfigError, match="this name is not UTF-8"):
        make(*SMALL).fit(train, dev, out=tmp_path / os.fsdecode(b"\xff"))
    assert os.listdir(tmp_path) == [strange.name]


@pytest.mark.parametrize("said", ["DefaultCPUAllocator: can't allocate memory: you tried", "CUDA out of memory. Tried"])
def test_too_large_a_net_is_out_of_memory(make, train, dev, monkeypatch, said):
    def too_large(*arguments: object, **more: object) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr("riverrun.tasks.tagger_training.build_net", too_large)
    with pytest.raises(MemoryError):
        make().fit(train, dev)


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
