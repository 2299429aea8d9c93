"""How fast a language model writes and reads, one text at a time: the net in torch, its exported graph, and int8.

    python benchmarks/generation.py [--rounds N] [--threads N] [--json OUT]

Two nets: two LSTMs of 650 units over 33,278 words (WikiText-2; Zaremba et al.'s medium one), and two of 512 over 100
characters (``lm/char``). Their weights are random, which costs as much time as others. All three are used through
``decode.generate`` and ``StepModel.score``, with one row. The peers take turns, and the median of the rounds counts; a
ratio is the median of the rounds' ratios, so that what else the machine does hits all of them.

``step`` is one symbol without choosing it; ``greedy`` takes the most probable symbol, ``draw`` draws one, ``top-p``
draws one of the most probable nine tenths; ``score`` reads a text of 1000 symbols.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
import torch

from riverrun.data.padded import Padded
from riverrun.decode.filters import compose
from riverrun.decode.generate import generate
from riverrun.decode.step import StepModel
from riverrun.decode.stream import Stream
from riverrun.export.language_model import export_language_model
from riverrun.nn.layers.embed import Embedding
from riverrun.nn.layers.full_softmax import FullSoftmax
from riverrun.nn.layers.stack import Stack
from riverrun.nn.models.recurrent_lm import RecurrentLM
from riverrun.nn.models.stepper import NetStepper
from riverrun.runtime.stepper import GraphStepper
from riverrun.version import __version__

MODELS = {
    "words": {"symbols": 33_278, "size": 650, "hidden": 650, "layers": 2},
    "characters": {"symbols": 100, "size": 64, "hidden": 512, "layers": 2},
}
WRITTEN, READ = 60, 1000
Run = Callable[[StepModel, int], int]  # a model and a seed: so many symbols


def net(symbols: int, size: int, hidden: int, layers: int) -> RecurrentLM:
    """With random weights."""
    torch.manual_seed(1)
    stack = Stack("lstm", size, hidden, layers=layers)
    return RecurrentLM(Embedding(symbols, size), stack, FullSoftmax(hidden, symbols)).eval()


def step(model: StepModel, seed: int) -> int:
    """One symbol after the other; nothing is chosen."""
    state = model.start()
    ids = state.like(np.full((1, 1), seed % model.size))
    for _ in range(WRITTEN):
        state = model.step(ids, state).state
    return WRITTEN


def write(**wish: Any) -> Run:
    """A text that is written; ``seed`` where symbols are drawn."""

    def run(model: StepModel, seed: int) -> int:
        wishes = {**wish, "seed": seed} if "filter" in wish else wish
        return len(generate(model, Stream.begin(model), limit=WRITTEN, **wishes).finish()[0].ids)

    return run


def score(model: StepModel, seed: int) -> int:
    """A text that is read."""
    ids = np.random.default_rng(seed).integers(0, model.size, (1, READ))
    Stream.begin(model).feed(model, Padded(ids, np.array([READ])))
    return READ


RUNS: dict[str, Run] = {
    "step": step,
    "greedy": write(),
    "draw": write(filter=compose()),
    "top-p": write(filter=compose(top_p=0.9)),
    "score": score,
}


def measure(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """peer -> what -> symbols a second in each round, and the sizes of the files in MB."""
    torch_net = net(**MODELS[name])
    peers: dict[str, StepModel] = {"torch": NetStepper(torch_net, bos=0)}
    sizes = {"torch": sum(4 * parameter.numel() for parameter in torch_net.parameters()) / 1e6}
    for peer, int8 in (("exported", False), ("int8", True)):
        report = export_language_model(torch_net, folder / f"{name}-{peer}.onnx", int8=int8)
        peers[peer] = GraphStepper(report.path, bos=0, threads=options.threads)
        sizes[peer] = report.bytes / 1e6
    speeds: dict[str, dict[str, list[float]]] = {peer: {what: [] for what in RUNS} for peer in peers}
    for number in range(options.rounds + 1):  # the first one warms up
        for what, run in RUNS.items():
            for peer, model in peers.items():  # in this order they take turns
                begin = time.perf_counter()
                symbols = run(model, number)
                speed = symbols / (time.perf_counter() - begin)
                print(f"{name}, round {number}: {what} {peer} {speed:,.0f} symbols/s", file=sys.stderr)
                if number:
                    speeds[peer][what].append(speed)
    return {"speeds": speeds, "megabytes": sizes, "ratios": ratios(speeds)}


def ratios(speeds: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """peer -> what -> how many times faster than torch it is, the median of the rounds."""
    return {
        peer: {what: median(a / b for a, b in zip(each[what], speeds["torch"][what], strict=True)) for what in each}
        for peer, each in speeds.items()
    }


def table(name: str, result: dict[str, Any]) -> str:
    """The figures as Markdown, in symbols a second."""
    lines = [f"| {name} | MB | {' | '.join(RUNS)} |", f"|---|---:|{'---:|' * len(RUNS)}"]
    for peer, each in result["speeds"].items():
        cells = [f"{median(each[what]):,.0f}" for what in RUNS]
        if peer != "torch":
            cells = [f"{cell} ({result['ratios'][peer][what]:.1f} x)" for cell, what in zip(cells, RUNS, strict=True)]
        lines.append(f"| {peer} | {result['megabytes'][peer]:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def machine() -> str:
    """The processor, the system, the interpreter and the libraries."""
    info = Path("/proc/cpuinfo")
    found = [line.partition(":")[2].strip() for line in info.open() if "model name" in line] if info.exists() else []
    model = found[0] if found else platform.processor() or platform.machine()
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, onnxruntime {onnxruntime.__version__}"
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, {versions}, riverrun {__version__}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as place:
        result = {name: measure(name, Path(place), options) for name in options.models}
    print(f"{machine()}; {options.threads} threads, {options.rounds} rounds, symbols a second\n")
    print("\n\n".join(table(name, each) for name, each in result.items()))
    if options.json:
        about = {"machine": machine(), "threads": options.threads, "rounds": options.rounds}
        options.json.write_text(json.dumps({**about, "models": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
