"""How much memory training needs on a treebank larger than any: the peak of one process, and its time.

    python benchmarks/memory.py TREEBANK.conllu [--gigabytes 1] [--steps 100] [--recipe NAME] [--json FILE]

A file of that size is made by repeating the treebank, in the temporary folder, and the recipe is trained on it for some
steps, in a process of its own; the begin of the treebank is dev. Two numbers are printed: the peak of the resident
memory, and that of its anonymous part, without the pages of mapped files, which the system takes back when it needs
them. Both are sampled from /proc (Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from riverrun.version import __version__

INTERVAL = 0.1  # seconds between two looks at the process
DEV = 1_000_000  # bytes of dev data
LIMIT = 2.0  # GB, what training must stay below


def repeated(treebank: Path, size: int, target: Path) -> None:
    """A file of at least this size: the treebank again and again."""
    content = treebank.read_bytes()
    with target.open("wb") as file:
        written = 0
        while written < size:
            written += file.write(content)


def memory(process: int) -> dict[str, float]:
    """The resident memory of a process and its anonymous part, in GB."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    values = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmRSS", "RssAnon"))}
    return {
        name: int(values[key]) * 1024 / 1e9
        for name, key in (("resident", "VmRSS"), ("anonymous", "RssAnon"))
        if key in values
    }


def train(recipe: str, data: Path, dev: Path, out: Path, steps: int) -> dict[str, float]:
    """Peaks in GB and seconds of a training, which may make that many steps."""
    settings = [f"train.steps={steps}", f"train.evaluate_every={steps}", "model.head.scheme=none"]
    command = [sys.executable, "-m", "riverrun", "train", recipe, str(data), str(dev), "--out", str(out)]
    begin = time.monotonic()
    process = subprocess.Popen([*command, *(part for setting in settings for part in ("--set", setting))])
    peaks = {"resident": 0.0, "anonymous": 0.0}
    while process.poll() is None:
        peaks = {name: max(peak, memory(process.pid).get(name, 0.0)) for name, peak in peaks.items()}
        time.sleep(INTERVAL)
    if process.returncode:
        sys.exit(process.returncode)
    return {**peaks, "seconds": time.monotonic() - begin}


def main() -> None:
    """Make the file, train, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--recipe", default="tagger/blstm-cnn-crf")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="riverrun-memory-") as folder:
        data = Path(folder) / "train.conllu"
        repeated(options.treebank, int(options.gigabytes * 1e9), data)
        size = data.stat().st_size / 1e9
        dev = Path(folder) / "dev.conllu"
        dev.write_bytes(options.treebank.read_bytes()[:DEV].rpartition(b"\n\n")[0] + b"\n\n")
        found = train(options.recipe, data, dev, Path(folder) / "model", options.steps)
    print(f"riverrun {__version__}, {options.recipe}, {size:.2f} GB of {options.treebank.name}, {options.steps} steps")
    print(f"peak resident memory {found['resident']:.2f} GB, of it anonymous {found['anonymous']:.2f} GB")
    print(f"{found['seconds']:.0f} seconds, OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS', 'not set')}")
    if options.json:
        about = {"riverrun": __version__, "machine": platform.platform(), "gigabytes": size, "steps": options.steps}
        options.json.write_text(json.dumps({**about, "recipe": options.recipe, **found}, indent=2) + "\n")
    if found["anonymous"] > LIMIT:
        sys.exit(f"more than {LIMIT} GB")


if __name__ == "__main__":
    main()
