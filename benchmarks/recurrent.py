"""How long a recurrence takes: our engines beside torch's modules on plain padding, in one process, interleaved.

    python benchmarks/recurrent.py [--rounds 15] [--json FILE]

Ours run ragged batches (lengths from 1 to T) and keep the promises about padding; torch's run the same arrays without
looking at the lengths. Each number is the minimum over the rounds, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from riverrun.data.padded import Padded
from riverrun.nn.layers.recurrent import Recurrent

CLOCK = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter  # the former does not see other jobs
SIZES = {"words": (32, 25, 150, 256), "characters": (400, 10, 32, 32), "stream": (1, 1, 256, 256)}
TORCH: dict[str, type[nn.RNNBase]] = {"lstm": nn.LSTM, "gru-reset-after": nn.GRU, "elman": nn.RNN}
RUNS = (
    ("lstm", "vendor"),
    ("lstm", "eager"),
    ("gru-reset-after", "vendor"),
    ("gru-reset-after", "eager"),
    ("elman", "vendor"),
    ("elman", "eager"),
    ("gru", "eager"),
    ("lstm-peephole", "eager"),
    ("sru-projected", "scan"),
    ("sru-projected", "eager"),
    ("mingru", "scan"),
    ("mingru", "eager"),
)


def _both(run: Callable[[], Tensor], parameters: list[Tensor]) -> dict[str, Callable[[], object]]:
    def forward() -> object:
        with torch.no_grad():
            return run()

    return {"forward": forward, "both": lambda: torch.autograd.grad(run().sum(), parameters)}


def _torch(kind: type[nn.RNNBase], x: Tensor, H: int) -> dict[str, Callable[[], object]]:
    layer = kind(x.shape[-1], H, batch_first=True)
    return _both(lambda: layer(x)[0], [x, *layer.parameters()])


def _ours(cell: str, engine: str, x: Tensor, lengths: Tensor, H: int) -> dict[str, Callable[[], object]]:
    layer = Recurrent(cell, x.shape[-1], H, engine=engine)
    return _both(lambda: layer(Padded(x, lengths))[0].data, [x, *layer.parameters()])


def measure(rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """size -> run -> forward and both -> milliseconds."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for size, (B, T, D, H) in SIZES.items():
        x = torch.randn(B, T, D, requires_grad=True)
        lengths = torch.randint(1, T + 1, (B,))
        lengths[0] = T
        runs = {f"torch.nn {name}": _torch(kind, x, H) for name, kind in TORCH.items()}
        runs |= {f"{cell} {engine}": _ours(cell, engine, x, lengths, H) for cell, engine in RUNS}
        times = {name: dict.fromkeys(calls, float("inf")) for name, calls in runs.items()}
        for _ in range(rounds + 2):  # the first two warm up
            for name, calls in runs.items():
                for what, call in calls.items():
                    start = CLOCK()
                    call()
                    times[name][what] = min(times[name][what], 1e3 * (CLOCK() - start))
        found[size] = times
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.rounds)
    for size, times in found.items():
        B, T, D, H = SIZES[size]
        print(f"\n{size}: B={B} T={T} D={D} H={H}, {torch.get_num_threads()} threads, torch {torch.__version__}")
        for name, each in times.items():
            rival = times.get(f"torch.nn {name.split()[0]}")
            ratio = "".join(f"  {each[w] / rival[w]:5.2f}" for w in each) + "  of torch.nn" if rival else ""
            print(f"  {name:24} forward {each['forward']:8.3f}   with gradients {each['both']:8.3f}{ratio}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
