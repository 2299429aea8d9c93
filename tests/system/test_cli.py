"""The command as people start it: how fast it answers, what it prints where, and how it ends."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from riverrun.tasks import folder

from .without_torch import WITHOUT_TORCH

BUNDLED = folder.bundled()
resource = pytest.importorskip("resource")  # not on Windows

RIVERRUN = (sys.executable, "-m", "riverrun")
# With buffers between print and pipe, as people have them.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
CONLLU = "1\tÉté\tété\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"


def ran(*arguments: str | bytes, code: int = 0, **options: object) -> subprocess.CompletedProcess[bytes]:
    """The command, which must end with this code and without a traceback."""
    options = {"env": BUFFERED, **options}
    done = subprocess.run([*RIVERRUN, *arguments], capture_output=True, timeout=60, **options)  # type: ignore[call-overload]
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode == code, (done.returncode, done.stderr.decode())
    return done


def piped(*arguments: str) -> subprocess.Popen[bytes]:
    """The command while it runs."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*RIVERRUN, *arguments], env=BUFFERED, **pipes)


def seconds(*command: str) -> float:
    """Processor time of the fastest of three runs: other work on the machine counts less than in time on the clock."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


@pytest.fixture
def conllu(tmp_path: Path) -> Path:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    return path


def test_help_and_import_answer_at_once() -> None:
    # The promises are 0.3 and 0.15 seconds; a busy machine may take twice as long.
    assert seconds(*RIVERRUN, "--help") < 0.6
    assert seconds(sys.executable, "-c", "import riverrun") < 0.3


@pytest.mark.parametrize("code", ["import riverrun", "from riverrun.cli import commands, main"])
def test_what_is_not_used_is_not_loaded(code: str) -> None:
    loaded = f"{code}; import sys; print([name for name in ('torch', 'numpy', 'onnxruntime') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["recipes"], 0),
        (["models", "--json"], 0),
        (["recipes", "tagger/upso"], 1),
        (["recipes", "no.toml"], 1),
        (["train", "tagger/upos", "a.conllu", "--set", "train.epoch=3"], 1),
        (["train", "tagger/upos", "nothere.conllu", "--out", os.devnull], 1),
        (["data", "check", "nothere"], 1),
        (["data", "check", "."], 1),
        (["data", "verify", "nothere"], 1),
        (["evaluate", "nothere", "file"], 1),
        (["predict", "nothere"], 1),
        (["export", "nothere", "there"], 1),
        (["recipes", "--nonsense"], 2),
        (["nonsense"], 2),
        ([], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_exit_codes_and_no_tracebacks(line: list[str], code: int, tmp_path: Path) -> None:
    done = ran(*line, code=code, cwd=tmp_path)
    if code:
        assert done.stdout == b"" and done.stderr
    assert os.listdir(tmp_path) == []


def test_doctor_reports_on_stdout() -> None:
    done = ran("doctor")
    for word in (b"riverrun", b"onnxruntime", b"devices", b"bundled models"):
        assert word in done.stdout
    assert b"MISSING" not in done.stdout


def test_without_torch_all_but_training_works(conllu: Path) -> None:
    def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", WITHOUT_TORCH, *arguments], capture_output=True, text=True, timeout=60
        )

    for line in (["doctor"], ["models"], ["recipes", "tagger/upos"], ["data", "check", str(conllu)]):
        done = bare(*line)
        assert done.returncode == 0, done.stderr
    assert "prediction only; torch is not installed" in bare("doctor").stdout
    done = bare("train", "tagger/upos", str(conllu))
    assert done.returncode == 1 and "pip install 'riverrun[train]'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("line", [["recipes", "--schema"], ["recipes"]], ids=["more than a buffer", "less"])
def test_a_reader_that_leaves_early_is_no_error(line: list[str]) -> None:
    process = piped(*line)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()  # as `| head` that has seen enough
    assert (process.communicate(timeout=30)[1], process.returncode) == (b"", 0)


def test_a_reader_of_errors_that_leaves_early_is_no_error_of_another_kind() -> None:
    process = piped("recipes", "nothere")
    assert process.stdout is not None and process.stderr is not None
    process.stderr.close()
    assert (process.communicate(timeout=30)[0], process.returncode) == (b"", 1)


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_without_stdout_and_stderr_it_still_ends_as_it_should() -> None:
    for line, code in (("recipes", 0), ("recipes nothere", 1)):
        shell = f'"{sys.executable}" -m riverrun {line} >&- 2>&-'
        assert subprocess.run(shell, shell=True, timeout=60, env=BUFFERED).returncode == code


@pytest.mark.skipif(os.name == "nt", reason="locales of POSIX")
def test_in_any_locale_results_are_utf_8_and_files_may_have_any_name(tmp_path: Path) -> None:
    plain = {**BUFFERED, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    path = os.fsencode(tmp_path) + b"/n\xe9.conllu"  # not UTF-8
    with open(path, "wb") as file:
        file.write(CONLLU.replace("NOUN", "ÉTÉ").encode())
    done = ran("data", "check", path, env=plain)
    assert "ÉTÉ".encode() in done.stdout and path in done.stdout
    assert json.loads(ran("data", "check", "a.conllu", "--json", env=plain, cwd=_named(tmp_path)).stdout)["tags"] == {
        "ÉTÉ": 1
    }
    ran("--help", env=plain)
    assert b"no such file" in ran("data", "check", b"\xe9\xe9", code=1, env=plain).stderr


def _named(tmp_path: Path) -> Path:
    (tmp_path / "a.conllu").write_text(CONLLU.replace("NOUN", "ÉTÉ"), encoding="utf-8")
    return tmp_path


def test_data_check_reads_files_streams_and_writes_json(conllu: Path) -> None:
    table = [line.split() for line in ran("data", "check", str(conllu)).stdout.decode().splitlines()]
    assert ["sentences", "1"] in table and ["NOUN", "1"] in table
    found = json.loads(ran("data", "check", str(conllu), "--json").stdout)
    assert (found["sentences"], found["tokens"], found["tags"]) == (1, 1, {"NOUN": 1})
    names = "a\tB-X\nb\tI-X\n\n" * 3
    found = json.loads(ran("data", "check", "-", "--format", "conll", "--json", input=names.encode()).stdout)
    assert (found["sentences"], found["scheme"], found["spans"]) == (3, "iob2", {"X": 3})


def test_data_verify_finds_what_was_changed(tmp_path: Path) -> None:
    data, model = tmp_path / "train.conllu", tmp_path / "model"
    data.write_text(CONLLU, encoding="utf-8")
    checksum = hashlib.sha256(data.read_bytes()).hexdigest()
    config = folder.Config(
        format=folder.FORMAT, task="tagger", riverrun="0", recipe={}, data={str(data): checksum, "gone.txt": checksum}
    )
    folder.write(model, config, {"metrics.json": b"{}"})
    done = ran("data", "verify", str(model))
    assert [line.split()[-1] for line in done.stdout.decode().splitlines()] == ["same", "same", "here"]
    data.write_text(CONLLU + "\n", encoding="utf-8")
    done = ran("data", "verify", str(model), code=1)
    assert b"CHANGED" in done.stdout and b"train.conllu: not the data that" in done.stderr
    (model / "metrics.json").write_bytes(b"{ }")
    assert b"metrics.json: its SHA-256 is not the one" in ran("data", "verify", str(model), code=1).stderr


def test_every_damaged_file_is_named(tmp_path: Path) -> None:
    content = {name: name.encode() for name in ("a", "b", "c")}
    config = folder.Config(format=folder.FORMAT, task="tagger", riverrun="0", recipe={})
    folder.write(tmp_path, config, content)
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "c").unlink()
    done = ran("data", "verify", str(tmp_path), code=1)
    assert [line.split()[-1] for line in done.stdout.decode().splitlines()] == ["CHANGED", "same", "CHANGED"]
    said = done.stderr.decode()
    assert f"{tmp_path}/a: its SHA-256 is not" in said and f"{tmp_path}/c: missing" in said


@pytest.mark.skipif(not BUNDLED, reason="no bundled model")
def test_what_was_begun_is_taken_away_when_it_is_ended(tmp_path: Path) -> None:
    with piped("predict", "en-upos", "-", "--out", str(tmp_path / "f")) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b"Dogs bark.\n")
        process.stdin.flush()
        for _ in range(300):
            if os.listdir(tmp_path):
                break
            time.sleep(0.1)
        assert os.listdir(tmp_path)[0].startswith(".f.")
        process.terminate()
        assert process.wait(60) == 130
        assert process.stderr.read() == b"Interrupted.\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not BUNDLED, reason="no bundled model")
@pytest.mark.parametrize(
    ("closed", "said"), [("<&-", b"standard input is closed"), (">&-", b"standard output is closed")]
)
def test_what_is_closed_is_said(closed: str, said: bytes) -> None:
    line = f"exec {sys.executable} -m riverrun predict en-upos {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], env=BUFFERED, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    assert done.returncode == 1 and said in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.skipif(not BUNDLED, reason="no bundled model")
def test_a_model_may_lie_under_any_name_in_any_locale(tmp_path: Path) -> None:
    shutil.copytree(BUNDLED["en-upos"], tmp_path / "é" / "m")
    plain = {**BUFFERED, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = ran("predict", "é/m".encode(), input=b"Dogs bark.\n", env=plain, cwd=tmp_path)
    assert done.stdout.startswith(b"Dogs\tNOUN\n")


@pytest.mark.parametrize("delay", [0.2, 0.5, 0.8])
def test_impatience_prints_no_traceback(delay: float) -> None:
    with piped("predict", "en-upos") as process:
        time.sleep(delay)
        for _ in range(4):
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        process.wait(60)
        assert process.stderr is not None
        said = process.stderr.read()
    assert b"Traceback" not in said or b"riverrun/cli" not in said  # while Python itself starts, it is Python's


def test_an_interrupt_is_130_wherever_it_came() -> None:
    code = """
from riverrun.cli import main
main._do = lambda arguments: exec("print('so far')\\nraise KeyboardInterrupt")
main.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=BUFFERED)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"so far\n", b"Interrupted.\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_ctrl_c_while_it_reads_is_130_and_a_line() -> None:
    process = piped("data", "check", "-", "--format", "conllu")
    assert process.stdin is not None
    process.stdin.write(CONLLU.encode() * 10_000)  # more than a pipe holds: then it is reading
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, b"Interrupted.\n")
