"""A tagger as people use it: every verb of the command, from a file of theirs to tags without torch."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.train

from riverrun.data.synthetic import last_word, parity  # noqa: E402
from riverrun.runtime.session import Session  # noqa: E402
from riverrun.tasks.tagger import Tagger  # noqa: E402
from riverrun.text.formats import write_conll  # noqa: E402

from .without_torch import WITHOUT_TORCH  # noqa: E402

RIVERRUN = (sys.executable, "-m", "riverrun")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def ran(*arguments: object, code: int = 0, torch: bool = True, given: str | None = None, cwd: Path | None = None):
    """The command, which must end with this code and without a traceback: (stdout, stderr)."""
    command = RIVERRUN if torch else (sys.executable, "-c", WITHOUT_TORCH)
    done = subprocess.run(
        [*command, *map(str, arguments)],
        input=None if given is None else given.encode(),
        capture_output=True,
        timeout=120,
        env=ENVIRONMENT,
        cwd=cwd,
    )
    out, said = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in said, said
    assert done.returncode == code, (done.returncode, said)
    return out, said


MEMORY = (
    "model.words={size=8}",
    "model.chars=none",
    "model.encoder={cell='lstm', hidden=16, bidirectional=false, dropout=0.0}",
    "model.head={kind='softmax', scheme='none'}",
    "train={optimizer='adam', rate=0.03, schedule='constant', epochs=25, batch=16, threads=1}",
)


def flags(settings: tuple[str, ...]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="module")
def parity_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the command has trained a net to count the ones."""
    folder = tmp_path_factory.mktemp("parity")
    write_conll(folder / "train.conll", parity(300, seed=1))
    write_conll(folder / "dev.conll", parity(60, seed=2, longest=16))
    _, said = ran("train", "tagger/upos", "train.conll", "dev.conll", "--out", "model", *flags(MEMORY), cwd=folder)
    assert "tagger/upos -> model" in said and "Done: model (model/checkpoint is not needed" in said
    return folder


def test_train_learns_to_remember_and_evaluate_says_so(parity_run):
    out, said = ran("evaluate", "model", "dev.conll", "--json", cwd=parity_run)
    report = json.loads(out)
    assert report["metrics"]["accuracy"] > 0.95, report
    assert list(report)[:4] == ["task", "n", "metrics", "signature"]
    assert (report["task"], report["n"], said) == ("tagger", 60, "")
    table, _ = ran("evaluate", "model", "dev.conll", cwd=parity_run)
    assert table.split()[0] == "accuracy" and report["signature"] in table


def test_only_a_net_that_reads_backwards_knows_the_last_word(tmp_path):
    write_conll(tmp_path / "train.conll", last_word(120, seed=1))
    write_conll(tmp_path / "test.conll", last_word(60, seed=2))
    accuracy = {}
    for both in (False, True):
        settings = (*MEMORY, f"model.encoder.bidirectional={str(both).lower()}", "train.epochs=6")
        tagger = Tagger("tagger/upos", settings=settings).fit(tmp_path / "train.conll")
        accuracy[both] = tagger.evaluate(tmp_path / "test.conll").metrics["accuracy"]
    assert accuracy[True] > 0.95 and accuracy[False] < 0.8, accuracy


@pytest.mark.parametrize("int8", [pytest.param(False, marks=pytest.mark.slow), True])
def test_export_and_then_everything_without_torch(parity_run, tmp_path, int8):
    _, said = ran("export", "model", tmp_path / "new", *["--int8"] * int8, cwd=parity_run)
    assert "largest difference from the model" in said and "| riverrun predict" in said
    assert Session(tmp_path / "new").info.int8 == int8
    out, said = ran("evaluate", tmp_path / "new", parity_run / "dev.conll", "--json", torch=False)
    assert json.loads(out)["metrics"]["accuracy"] > 0.95 and said == ""
    out, _ = ran("predict", tmp_path / "new", parity_run / "dev.conll", torch=False)
    if not int8:
        assert out == ran("predict", "model", "dev.conll", cwd=parity_run)[0]
    assert [line.split()[:1] for line in out.splitlines()] == [
        line.split()[:1] for line in (parity_run / "dev.conll").read_text().splitlines()
    ]


def test_without_torch_a_model_that_was_not_exported_says_what_is_missing(tagger_folder):
    _, said = ran("predict", tagger_folder, given="dr ada", torch=False, code=1)
    assert "a model that was not exported needs the package 'torch'" in said
    assert "pip install 'riverrun[train]'" in said


# -- predict, by the exported tagger of names: it starts in a moment


def test_text_from_stdin_is_split_and_tagged(exported_folder):
    out, said = ran("predict", exported_folder, given="dr ada runs in new york. dr eve.\n\nbern\n", torch=False)
    assert said == ""
    rows = [[line.split("\t") for line in part.split("\n")] for part in out.removesuffix("\n\n").split("\n\n")]
    assert [row[0] for part in rows for row in part] == [
        *("dr", "ada", "runs", "in", "new", "york", "."),
        *("dr", "eve", ".", "bern"),
    ]
    assert all(len(row) == 2 for part in rows for row in part)
    assert ["ada", "I-PER"] in rows[0] and rows[-1] == [["bern", "I-LOC"]]
    assert ran("predict", exported_folder, "-", given="", torch=False) == ("", "")
    as_json, _ = ran(
        "predict", exported_folder, "--json", given="dr ada runs in new york. dr eve.\n\nbern\n", torch=False
    )
    objects = [json.loads(line) for line in as_json.splitlines()]
    assert [list(zip(o["forms"], o["tags"], strict=True)) for o in objects] == [[tuple(r) for r in p] for p in rows]


def test_each_line_is_a_text_of_its_own(exported_folder):
    out, _ = ran("predict", exported_folder, "--format", "lines", given="dr ada\nruns\n", torch=False)
    assert [len(part.splitlines()) for part in out.removesuffix("\n\n").split("\n\n")] == [2, 1]


CONLLU = (
    "# sent_id = 1\n# text = drada runs\n"
    "1-2\tdrada\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "1\tdr\tdr\t?\tX\t_\t2\tdep\t_\t_\n"
    "2\tada\t_\t?\t_\tA=b\t0\troot\t_\t_\n"
    "2.1\tnull\t_\tVERB\t_\t_\t_\t_\t_\t_\n"
    "3\truns\t_\t?\t_\t_\t2\tx\t_\t_\n"
    "\n# no words of it are empty\n1\tbern\t_\t?\t_\t_\t_\t_\t_\t_\n\n"
)


@pytest.mark.parametrize("way", ["stdin", "file", "gz"])
def test_conllu_comes_back_as_it_was_with_its_column_filled(exported_folder, tmp_path, way):
    if way == "stdin":  # known by its first line that is no comment
        out, _ = ran("predict", exported_folder, given=CONLLU, torch=False)
    else:
        path = tmp_path / ("a.conllu.gz" if way == "gz" else "a.conllu")
        path.write_bytes(gzip.compress(CONLLU.encode()) if way == "gz" else CONLLU.encode())
        target = tmp_path / "out.conllu.gz"
        out, _ = ran("predict", exported_folder, path, "--out", target, torch=False)
        assert out == ""
        out = gzip.decompress(target.read_bytes()).decode()
    assert "?" not in out and re.sub(r"\t([IB]-(PER|LOC)|O)\t", "\t?\t", out) == CONLLU
    assert re.findall(r"^\d\t(\w+)\t\S+\t(\S+)", out, re.M) == [
        ("dr", "I-PER"),
        ("ada", "I-PER"),
        ("runs", "O"),
        ("bern", "I-LOC"),
    ]


@pytest.mark.parametrize("way", ["stdin", "file", "aligned"])
def test_columns_are_known_without_their_name(exported_folder, tmp_path, way):
    text = "dr\tI-PER\nada\tO\r\nruns\tI-PER\n\nbern\tO\n\n"
    text = text.replace("\t", "     ") if way == "aligned" else text
    if way == "stdin":
        out, said = ran("predict", exported_folder, given=text, torch=False)
    else:
        (tmp_path / "x.dat").write_bytes(text.encode())
        target = tmp_path / "out"
        _, said = ran("predict", exported_folder, tmp_path / "x.dat", "--out", target, torch=False)
        out = target.read_bytes().decode()
    assert re.sub(r"I-PER|I-LOC|O", "?", out) == re.sub(r"I-PER|O", "?", text)  # all else is as it was
    assert re.findall(r"I-PER|I-LOC|O", out) == ["I-PER", "I-PER", "O", "I-LOC"] and said == ""


def test_two_words_a_line_are_text(exported_folder):
    out, said = ran("predict", exported_folder, given="dr ada\ndr eve\n\nin bern\nin paris\n", torch=False)
    assert " ".join(line.split("\t")[0] for line in out.split("\n")) == "dr ada dr eve  in bern in paris  "
    assert said == ""


def test_a_file_of_words_alone_gets_a_column_of_tags(exported_folder, tmp_path):
    (tmp_path / "a.conll").write_text("dr\nada\n\nbern\n")
    out, _ = ran("predict", exported_folder, tmp_path / "a.conll", torch=False)
    assert [line.split() for line in out.splitlines()] == [["dr", "I-PER"], ["ada", "I-PER"], [], ["bern", "I-LOC"]]


def read_within(stream, seconds: float) -> bytes:
    """What comes out of a pipe within this time, up to an empty line."""
    got = bytearray()

    def read() -> None:
        while not got.endswith(b"\n\n") and (byte := stream.read(1)):
            got.extend(byte)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(seconds)
    return bytes(got)


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        (["dr ada runs .\n\n", "bern\n\n"], b"dr\tI-PER\nada\tI-PER\nruns\tO\n.\tO\n\n"),
        # A sentence of columns is known to be over when the next one begins.
        ([CONLLU.split("# no words")[0] + "# no words of it are empty\n", CONLLU.split("empty\n")[1]], None),
    ],
    ids=["text", "conllu"],
)
def test_a_slow_stream_is_answered_as_it_comes(exported_folder, parts, answer):
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_TORCH, "predict", str(exported_folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        bufsize=0,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(parts[0].encode())
            first = read_within(process.stdout, 30)
            assert first == answer if answer else first.endswith(b"3\truns\t_\tO\t_\t_\t2\tx\t_\t_\n\n")
            process.stdin.write(parts[1].encode())
            process.stdin.close()
            assert b"bern" in process.stdout.read() and process.wait(30) == 0
        finally:
            process.kill()


# -- what else there is


def test_data_check_verify_and_models(exported_folder, names_data):
    found = json.loads(ran("data", "check", names_data / "train.conll", "--json", torch=False)[0])
    assert (found["sentences"], found["scheme"]) == (240, "iob1")
    out, _ = ran("data", "verify", exported_folder, torch=False)
    assert {line.split()[-1] for line in out.splitlines()} == {"same"} and "model.onnx" in out
    ran("models", torch=False)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_or_interrupted_is_resumed_to_the_same_bytes(
    how, names_data, tagger_folder, tiny_settings, tmp_path
):
    line = ["train", "tagger/ner", names_data / "train.conll", names_data / "dev.conll", "--out", tmp_path / "m"]
    line += [*flags(tiny_settings), "--set", "train.checkpoint_seconds=1e-9"]
    process = subprocess.Popen([*RIVERRUN, *map(str, line)], stderr=subprocess.PIPE, env=ENVIRONMENT)
    deadline = time.monotonic() + 60
    checkpoints = tmp_path / "m" / "checkpoint"
    while not any(p.name.isdecimal() and int(p.name) >= 5 for p in checkpoints.glob("*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert not (tmp_path / "m" / "config.json").exists(), "it was over before the signal came"
    if how == signal.SIGINT:
        assert process.returncode == 130 and b"Traceback" not in said
        (again,) = [line for line in said.decode().splitlines() if line.startswith("Stopped. To go on: ")]
        assert again.endswith("--resume")
    else:
        assert process.returncode == -signal.SIGKILL
    ran(*line, "--resume")
    for name in ("model.safetensors", "vocab/words.json"):
        assert (tmp_path / "m" / name).read_bytes() == (tagger_folder / name).read_bytes()
