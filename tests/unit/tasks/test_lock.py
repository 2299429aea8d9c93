"""One run a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from riverrun.errors import CheckpointError
from riverrun.tasks.lock import LOCK, Writer, locked, refuse_running

HOLDS = """
import sys, time
from pathlib import Path
from riverrun.tasks.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_is_held_and_let_go(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    with locked(place):
        with pytest.raises(CheckpointError, match=rf"b: another run is writing here \(process {os.getpid()}\)"):
            refuse_running(place)
        with pytest.raises(CheckpointError, match="another run"), locked(place):
            pass
        assert (place / LOCK).is_file()  # who was refused has taken nothing away
    assert os.listdir(place) == []
    refuse_running(place)


def test_who_fails_lets_go(tmp_path: Path) -> None:
    with pytest.raises(ValueError), locked(tmp_path):
        raise ValueError
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot kill like this")
def test_another_process_is_seen_until_it_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(CheckpointError, match=rf"another run is writing here \(process {other.pid}\)"):
            refuse_running(tmp_path)
        other.send_signal(signal.SIGKILL)
    assert (tmp_path / LOCK).is_file()
    with locked(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_number_that_was_given_to_another_process_since_is_not_that_one(tmp_path: Path) -> None:
    if not Writer.of(os.getpid()).began:
        pytest.skip("this system does not tell when a process began")
    lock = tmp_path / LOCK
    before = msgspec.structs.replace(Writer.of(os.getpid()), began="1")
    lock.write_bytes(msgspec.json.encode(before))
    refuse_running(tmp_path)
    assert not lock.exists()


def test_a_file_that_was_cut_off_means_nothing(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_bytes(b"{")
    with locked(tmp_path):
        pass


def test_of_another_machine_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_bytes(msgspec.json.encode(Writer(1, "elsewhere", "")))
    with pytest.raises(CheckpointError, match=r"\(process 1 on elsewhere\).*if it is surely over, remove the file"):
        refuse_running(tmp_path)
