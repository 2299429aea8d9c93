"""How fast a language model is trained: riverrun and a good loop in plain PyTorch, side by side in one run.

    python benchmarks/language_model.py --train FILE [--json OUT]        FILE: words between white space
    python benchmarks/language_model.py --memory [--words 500000]        peak memory of one process for each output

All peers have the same net (vectors of 650 numbers, two layers of an LSTM with 650 units, dropout 0.5), the same first
weights, plain SGD, gradients cut at the norm 0.25, 20 places of the text read side by side in windows of 35 words, the
state carried on, the same threads and windows. The rows:

    plain            ``plain_language_model.py``: nn.LSTM, nn.Linear, cross_entropy
    full             riverrun with all words scored; the same loss
    chunked          the same, of which 64 positions at a time are held
    adaptive         riverrun with an adaptive softmax (cut at 2,000 and 10,000 words)
    ... bfloat16     the large products in bfloat16, as train.precision has it

The peers take turns, and the median of the rounds counts; a ratio is the median of the rounds' ratios, so that what
else the machine does hits both sides. The processor's time is given beside the clock's: it says more on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: beside other work, waiting threads must not spin

import numpy as np
import torch
from plain_language_model import Plain

from riverrun.config.lm import LmTrain
from riverrun.data.batch import Batch
from riverrun.data.padded import Padded
from riverrun.nn.layers.adaptive_softmax import AdaptiveSoftmax
from riverrun.nn.layers.blackout import BlackOut
from riverrun.nn.layers.convert import from_torch
from riverrun.nn.layers.dropout import Dropout
from riverrun.nn.layers.embed import Embedding
from riverrun.nn.layers.full_softmax import FullSoftmax
from riverrun.nn.layers.output import Output
from riverrun.nn.layers.sampled_softmax import SampledSoftmax
from riverrun.nn.layers.stack import Stack
from riverrun.nn.models.recurrent_lm import RecurrentLM
from riverrun.train.learner import Learner
from riverrun.version import __version__

SIZE, LAYERS, BATCH, BPTT = 650, 2, 20, 35
DROPOUT, RATE, CLIP = 0.5, 1.0, 0.25
UPDATES = 4  # a round
CUTOFFS = [2000, 10000]

Window = tuple[np.ndarray, np.ndarray]

OUTPUTS: dict[str, Callable[[int], Output]] = {
    "full": lambda words: FullSoftmax(SIZE, words),
    "chunked": lambda words: FullSoftmax(SIZE, words, chunk=64),
    "adaptive": lambda words: AdaptiveSoftmax(SIZE, words, cutoffs=CUTOFFS),
    "sampled": lambda words: SampledSoftmax(SIZE, words, samples=1024, sparse=True),
    "blackout": lambda words: BlackOut(SIZE, words, samples=1024, sparse=True),
}


class Riverrun:
    """What ``riverrun train`` does in each step."""

    def __init__(self, output: str, words: int, *, bf16: bool = False, peer: Plain | None = None) -> None:
        embedding = Embedding(words, SIZE, sparse=True)
        embedding.draw()
        encoder = Stack("lstm", SIZE, SIZE, layers=LAYERS, dropout=DROPOUT)
        drop = Dropout(DROPOUT)
        net = RecurrentLM(embedding, encoder, OUTPUTS[output](words), input_dropout=drop, output_dropout=drop)
        if peer is not None:
            from_torch(encoder, peer.lstm.state_dict())
            with torch.no_grad():
                embedding.weight.copy_(peer.embedding.weight)
                if isinstance(net.output, FullSoftmax):
                    net.output.weight.copy_(peer.output.weight)
                    net.output.bias.copy_(peer.output.bias)
        precision = "bfloat16" if bf16 else "float32"
        settings = LmTrain(optimizer="sgd", rate=RATE, clip=CLIP, precision=precision)
        self.learner = Learner(net, settings, torch.device("cpu"))

    def train_on(self, windows: Sequence[Window]) -> tuple[float, float]:
        """An update on each window; the mean loss, and the seconds it took."""
        begin, total = time.perf_counter(), 0.0
        lengths, fresh = np.full(BATCH, BPTT), np.zeros(BATCH, bool)
        for ids, targets in windows:
            batch = Batch(ids=Padded(ids, lengths), targets=Padded(targets, lengths), fresh=fresh)
            total += self.learner.update([batch], rate=RATE).loss
        return total / len(windows), time.perf_counter() - begin


def read(path: Path, updates: int) -> tuple[int, list[Window]]:
    """How many words there are, and the first windows of the text."""
    lines = [[*line.split(), "</s>"] for line in path.open(encoding="utf-8")]
    counts = Counter(word for line in lines for word in line)
    number = {word: k for k, (word, _) in enumerate(counts.most_common())}
    stream = np.array([number[word] for line in lines for word in line])
    places = stream[: len(stream) // BATCH * BATCH].reshape(BATCH, -1)
    found = [places[:, a : a + BPTT + 1] for a in range(0, updates * BPTT, BPTT)]
    return len(number), [(np.ascontiguousarray(x[:, :-1]), np.ascontiguousarray(x[:, 1:])) for x in found]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Peer -> the seconds of the clock, of the processor, and the loss of each round."""
    words, windows = read(options.train, UPDATES * (options.rounds + 1))
    torch.manual_seed(options.seed)
    size = {"dropout": DROPOUT, "rate": RATE, "clip": CLIP}
    plain = Plain(words, SIZE, LAYERS, bf16=False, **size)
    peers: dict[str, Plain | Riverrun] = {"plain": plain}
    peers |= {name: Riverrun(name, words, peer=plain) for name in ("full", "chunked", "adaptive")}
    if options.bf16:
        short = Plain(words, SIZE, LAYERS, bf16=True, **size)
        short.load_state_dict(plain.state_dict())
        peers["plain, bfloat16"] = short
        peers |= {f"{name}, bfloat16": Riverrun(name, words, bf16=True, peer=plain) for name in ("full", "adaptive")}
    found: dict[str, dict[str, list[float]]] = {name: {"s": [], "cpu": [], "loss": []} for name in peers}
    for number in range(options.rounds + 1):  # the first one warms up
        part = windows[number * UPDATES : (number + 1) * UPDATES]
        for name, peer in peers.items():
            before = time.process_time()
            loss, seconds = peer.train_on(part)
            cpu = time.process_time() - before
            print(f"round {number}: {name} {seconds / UPDATES:.2f} s an update, loss {loss:.3f}", file=sys.stderr)
            if number:
                found[name]["s"].append(seconds / UPDATES)
                found[name]["cpu"].append(cpu / UPDATES)
                found[name]["loss"].append(loss)
    return {"words": words, "peers": found}


def table(result: dict[str, Any]) -> str:
    """The figures as Markdown."""
    peers = result["peers"]
    lines = ["| | words/s | plain takes | of the processor | loss of the last round |", "|---|---:|---:|---:|---:|"]
    for name, each in peers.items():
        ratios = {
            kind: median(a / b for a, b in zip(peers["plain"][kind], each[kind], strict=True)) for kind in ("s", "cpu")
        }
        speed = BATCH * BPTT / median(each["s"])
        lines.append(
            f"| {name} | {speed:,.0f} | {ratios['s']:.2f} x | {ratios['cpu']:.2f} x | {each['loss'][-1]:.3f} |"
        )
    return "\n".join(lines)


def one_output(name: str, words: int) -> None:
    """Three updates; what a child of ``memory`` does."""
    random = np.random.default_rng(1)
    peer = Riverrun(name, words)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    windows = [(random.integers(0, words, (BATCH, BPTT)), random.integers(0, words, (BATCH, BPTT))) for _ in range(3)]
    _, seconds = peer.train_on(windows)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) * 1024
    weights = sum(value.numel() * 4 for value in peer.learner.trained.values())
    print(json.dumps({"weights": weights, "peak": peak, "seconds": seconds / 3}))


def memory(words: int) -> str:
    """The peak memory of a process that trains with each output, as Markdown; of Linux alone."""
    lines = [f"{words:,} words, {BATCH} x {BPTT} positions, {SIZE} units\n", "| | weights | peak | s an update |"]
    lines.append("|---|---:|---:|---:|")
    for name in OUTPUTS:
        command = [sys.executable, __file__, "--words", str(words), "--one", name]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        sizes = " | ".join(f"{found[key] / 1e6:,.0f} MB" for key in ("weights", "peak"))
        lines.append(f"| {name} | {sizes} | {found['seconds']:.2f} |")
    return "\n".join(lines)


def machine() -> str:
    """The processor, the system, the interpreter and torch."""
    info = Path("/proc/cpuinfo")
    found = [line.partition(":")[2].strip() for line in info.open() if "model name" in line] if info.exists() else []
    model = found[0] if found else platform.processor() or platform.machine()
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}"
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, {versions}, riverrun {__version__}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, help="a text of words between white space, as that of WikiText-2")
    parser.add_argument("--bf16", action="store_true", help="with the rows in bfloat16")
    parser.add_argument("--memory", action="store_true", help="measure memory, not speed")
    parser.add_argument("--words", type=int, default=500_000, help="of the vocabulary, for --memory")
    parser.add_argument("--one", choices=OUTPUTS, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.one:
        one_output(options.one, options.words)
        return
    print(f"{machine()}; {options.threads} threads, seed {options.seed}, {options.rounds} rounds\n")
    if options.memory:
        print(memory(options.words))
        return
    if options.train is None:
        parser.error("--train: expected a text")
    result = measure(options)
    print(f"{result['words']:,} words\n\n{table(result)}")
    if options.json:
        options.json.write_text(json.dumps({**result, "machine": machine()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
