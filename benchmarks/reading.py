"""How fast a CoNLL-U file is read into sentences: riverrun and the package conllu, side by side in one run.

    python benchmarks/reading.py TREEBANK.conllu [--rounds 5] [--json FILE]

Both read the file from the disk's cache, one sentence at a time, and give every word's form and part of speech. The
best of the rounds counts; the rounds take turns, so that what else the machine does hits both. Time is that of the
clock; that of the processor stands beside it, which is the same on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import conllu

from riverrun.text.formats import read_conllu
from riverrun.version import __version__


def ours(path: Path) -> int:
    """Read with riverrun; the number of words, as the others."""
    words = 0
    for sentence in read_conllu(path):
        words += len(list(zip(sentence.forms, sentence.upos, strict=True)))
    return words


def sentences_alone(path: Path) -> int:
    """Read with riverrun and look at no column."""
    return sum(len(sentence) for sentence in read_conllu(path))


def package(path: Path) -> int:
    """Read with the package conllu."""
    words = 0
    with path.open(encoding="utf-8") as file:
        for sentence in conllu.parse_incr(file):
            words += len([(token["form"], token["upos"]) for token in sentence if isinstance(token["id"], int)])
    return words


READERS: dict[str, Callable[[Path], int]] = {
    f"riverrun {__version__}": ours,
    f"riverrun {__version__}, sentences alone": sentences_alone,
    f"conllu {version('conllu')}": package,
}


def measure(path: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Megabytes a second of each reader, by the clock and by the processor, the best of all rounds."""
    best = {name: {"clock": float("inf"), "processor": float("inf")} for name in READERS}
    counts = set()
    for _ in range(rounds):
        for name, read in READERS.items():
            start = {"clock": time.perf_counter(), "processor": time.process_time()}
            counts.add(read(path))
            end = {"clock": time.perf_counter(), "processor": time.process_time()}
            best[name] = {kind: min(seconds, end[kind] - start[kind]) for kind, seconds in best[name].items()}
    if len(counts) != 1:
        raise SystemExit(f"the readers do not agree on the number of words: {sorted(counts)}")
    size = path.stat().st_size / 1e6
    return {name: {kind: size / seconds for kind, seconds in times.items()} for name, times in best.items()}


def machine() -> str:
    """The processor, the system and the interpreter."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().split("\n") if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    speeds = measure(options.file, options.rounds)
    baseline = list(speeds.values())[-1]["clock"]
    print(f"{options.file.name}, {options.file.stat().st_size / 1e6:.1f} MB, best of {options.rounds}\n{machine()}\n")
    for name, speed in speeds.items():
        clock, processor = speed["clock"], speed["processor"]
        print(f"{name:<36}{clock:8.1f} MB/s {clock / baseline:8.1f} x      processor alone {processor:8.1f} MB/s")
    if options.json:
        result = {"machine": machine(), "file": options.file.name, "rounds": options.rounds, "mb_per_s": speeds}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
