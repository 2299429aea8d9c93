"""How fast a tagger is trained and tags: riverrun, a good loop in plain PyTorch and flair, side by side in one run.

    python benchmarks/tagger.py --train FILE --dev FILE [--flair-python PYTHON] [--json OUT]

All peers have the same net (words 100; characters 25, read by an LSTM of 25 units in each direction; an LSTM of 256 in
each direction; a CRF), dropout, Adam, batches of 32 sentences, the same threads and the same files. riverrun and flair
are used through their public interfaces, the plain loop is ``plain_tagger.py``, flair runs in its own interpreter.
The peers take turns, and the median of the rounds counts; a ratio is the median of the rounds' ratios, so that what
else the machine does hits both sides. Training is timed from ids or sentences in memory to the last update, tagging
from lists of words to lists of tags.

The last figure is ``riverrun predict en-upos`` from raw text on stdin to tags on stdout, the start of the process
included.
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
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

import numpy as np
import torch
from plain_tagger import Pair, Plain

from riverrun.config.recipe import load_recipe
from riverrun.data.corpus import Corpus
from riverrun.data.loader import SentenceLoader
from riverrun.data.sampler import Buckets
from riverrun.data.sentences import SentenceEncoder
from riverrun.tasks import tagger_fields as learned
from riverrun.tasks.labelled import Labelled
from riverrun.tasks.labeller import Labeller
from riverrun.tasks.tagger_net import build_net
from riverrun.text.formats import read_conllu
from riverrun.train.learner import Learner
from riverrun.version import __version__

SIZES = {"word": 100, "char": 25, "spelling": 25, "hidden": 256}
DROPOUT, RATE, BATCH = 0.5, 0.002, 32
RECIPE = f"""
task = "tagger"
[model]
words = {{ size = {SIZES["word"]} }}
chars = {{ kind = "lstm", size = {SIZES["char"]}, hidden = {SIZES["spelling"]} }}
encoder = {{ cell = "lstm", hidden = {SIZES["hidden"]}, dropout = {DROPOUT} }}
head = {{ kind = "crf" }}
[train]
optimizer = "adam"
rate = {RATE}
batch = {BATCH}
"""
STEPS, FLAIR_STEPS = 30, 10  # updates a round
FLAIR_TAGS = 400  # sentences a round
MODEL = "en-upos"


class Riverrun:
    """What ``riverrun train`` does in each step, and what ``Tagger.tag`` does."""

    def __init__(self, train: Path, folder: Path, *, seed: int) -> None:
        (folder / "bench.toml").write_text(RECIPE)
        recipe = load_recipe(folder / "bench.toml", settings=[f"train.seed={seed}"])
        source = Labelled(str(train))
        corpus = Corpus.build(
            ({"form": forms, "tag": tags} for forms, tags in source.pairs()), folder / "corpus", columns=("form", "tag")
        )
        tags = learned.tag_field(corpus, source, recipe.model)
        words = learned.lexicon(corpus, recipe.model.words)
        fields = learned.fields(corpus, tags, recipe.model, words)
        torch.manual_seed(seed)
        self.net = build_net(recipe.model, fields, lexicon=words)
        self.loader = SentenceLoader(corpus, SentenceEncoder(fields), Buckets(corpus.lengths, batch=BATCH, seed=seed))
        self.learner = Learner(self.net, recipe.train, torch.device("cpu"))
        self.labeller = Labeller.of_net(fields, self.net, constrained=True)
        self.epoch = 0

    def train(self, batches: int) -> tuple[int, float]:
        """So many updates; tokens and seconds."""
        self.net.train()
        begin, tokens = time.perf_counter(), 0
        for _, batch in zip(range(batches), self.loader.batches(self.epoch), strict=False):
            tokens += self.learner.update([batch], rate=RATE).tokens
        self.epoch += 1
        return tokens, time.perf_counter() - begin

    def tag_all(self, sentences: Sequence[Sequence[str]]) -> tuple[list[list[str]], float]:
        """The tags of every sentence, in order, and the seconds it took."""
        self.net.eval()
        begin = time.perf_counter()
        answers = list(self.labeller.tag(sentences))
        return answers, time.perf_counter() - begin


class Flair:
    """flair in its own interpreter."""

    def __init__(self, python: str, task: dict[str, Any], folder: Path) -> None:
        path = folder / "task.json"
        path.write_text(json.dumps(task))
        script = Path(__file__).with_name("flair_tagger.py")
        self._process = subprocess.Popen(
            [python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
        )
        self.about = self._ask(str(path))

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        # flair logs to stdout too.
        answer = next((line for line in self._process.stdout if line.startswith("{")), None)
        if answer is None:
            raise SystemExit(f"flair ended with status {self._process.wait()}; what it said is above")
        found: dict[str, Any] = json.loads(answer)
        return found

    def train(self, batches: int) -> tuple[int, float]:
        """So many updates; tokens and seconds."""
        answer = self._ask(f"train {batches}")
        return answer["tokens"], answer["seconds"]

    def tag(self, sentences: int) -> tuple[int, float, float]:
        """The first sentences of the dev data; tokens, seconds and accuracy."""
        answer = self._ask(f"tag {sentences}")
        return answer["tokens"], answer["seconds"], answer["accuracy"]

    def __enter__(self) -> Flair:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def pairs(path: Path) -> list[Pair]:
    """(forms, tags) of each sentence."""
    return [(list(sentence.forms), list(sentence.upos)) for sentence in read_conllu(path)]


def accuracy(gold: Sequence[Pair], answers: Sequence[Sequence[str]]) -> float:
    """The share of right tags."""
    right = sum(
        a == b for (_, tags), found in zip(gold, answers, strict=True) for a, b in zip(tags, found, strict=True)
    )
    return right / sum(len(tags) for _, tags in gold)


def measure(options: argparse.Namespace, folder: Path, stack: ExitStack) -> dict[str, Any]:
    """The peers' names, and peer -> train and tag -> tokens a second in each round."""
    train, dev = pairs(options.train), pairs(options.dev)
    forms = [words for words, _ in dev]
    count = sum(map(len, forms))
    ours = Riverrun(options.train, folder, seed=options.seed)
    plain = Plain(train, sizes=SIZES, dropout=DROPOUT, rate=RATE, batch=BATCH, seed=options.seed)
    names = {"riverrun": f"riverrun {__version__}", "plain": "plain PyTorch"}
    right: dict[str, float] = {}

    def tag(name: str, peer: Riverrun | Plain) -> tuple[int, float]:
        answers, seconds = peer.tag_all(forms)
        right[name] = accuracy(dev, answers)
        return count, seconds

    # In this order they take turns.
    runs: dict[str, dict[str, Callable[[], tuple[int, float]]]] = {
        "train": {name: partial(peer.train, STEPS) for name, peer in (("riverrun", ours), ("plain", plain))},
        "tag": {name: partial(tag, name, peer) for name, peer in (("riverrun", ours), ("plain", plain))},
    }
    if options.flair_python:
        task = {"train": train, "dev": dev, "sizes": SIZES, "dropout": DROPOUT, "rate": RATE, "batch": BATCH}
        task |= {"seed": options.seed, "threads": options.threads}
        flair = stack.enter_context(Flair(options.flair_python, task, folder))
        names["flair"] = f"flair {flair.about['version']} with torch {flair.about['torch']}"
        runs["train"]["flair"] = partial(flair.train, FLAIR_STEPS)

        def tag_flair() -> tuple[int, float]:
            tokens, seconds, right["flair"] = flair.tag(FLAIR_TAGS)
            return tokens, seconds

        runs["tag"]["flair"] = tag_flair
    speeds: dict[str, dict[str, list[float]]] = {name: {what: [] for what in runs} for name in names}
    for number in range(options.rounds + 1):  # the first one warms up
        for what, peers in runs.items():
            for name, run in peers.items():
                tokens, seconds = run()
                print(f"round {number}: {what} {name} {tokens / seconds:,.0f} tokens/s", file=sys.stderr)
                if number:
                    speeds[name][what].append(tokens / seconds)
    return {"names": names, "speeds": speeds, "accuracy": right}


def stream(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Words a second of ``riverrun predict``, the median of the rounds; the start of the process counts."""
    text = "\n".join(
        sentence_text(line) for line in options.train.open(encoding="utf-8") if line.startswith("# text = ")
    )
    (folder / "text").write_text(text + "\n", encoding="utf-8")
    found: list[float] = []
    words = 0
    for _ in range(options.rounds):
        begin = time.perf_counter()
        with (folder / "text").open("rb") as given, (folder / "answers").open("wb") as answers:
            command = [sys.executable, "-m", "riverrun", "predict", MODEL, "-"]
            subprocess.run(command, stdin=given, stdout=answers, check=True)
        seconds = time.perf_counter() - begin
        words = sum(1 for line in (folder / "answers").open(encoding="utf-8") if line != "\n")
        found.append(words / seconds)
    return {"words": words, "words_per_s": median(found)}


def sentence_text(comment: str) -> str:
    """The text of a comment ``# text = ...``."""
    return comment.partition("=")[2].strip()


def table(result: dict[str, Any]) -> str:
    """The figures as Markdown."""
    speeds, lines = result["speeds"], ["| | train, tokens/s | riverrun is | tag, tokens/s | riverrun is | accuracy |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for name, shown in result["names"].items():
        cells = []
        for what in ("train", "tag"):
            ratio = result["ratios"][name][what]
            cells += [f"{median(speeds[name][what]):,.0f}", "" if name == "riverrun" else f"{ratio:.2f} x"]
        lines.append(f"| {shown} | {' | '.join(cells)} | {result['accuracy'][name]:.3f} |")
    return "\n".join(lines)


def ratios(speeds: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """peer -> train and tag -> how many times faster riverrun is, the median of the rounds."""
    ours = speeds["riverrun"]
    return {
        name: {what: median(a / b for a, b in zip(ours[what], each[what], strict=True)) for what in each}
        for name, each in speeds.items()
    }


def machine() -> str:
    """The processor, the system, the interpreter and torch."""
    info = Path("/proc/cpuinfo")
    found = [line.partition(":")[2].strip() for line in info.open() if "model name" in line] if info.exists() else []
    model = found[0] if found else platform.processor() or platform.machine()
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}"
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, {versions}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="a CoNLL-U file")
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--flair-python", help="an interpreter that has flair; without it, flair is left out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    options.train, options.dev = options.train.resolve(), options.dev.resolve()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as place:
        with ExitStack() as stack:
            result = measure(options, Path(place), stack)
        result["ratios"] = ratios(result["speeds"])
        print(table(result), file=sys.stderr)
        result["predict"] = stream(options, Path(place))
    result |= {"machine": machine(), "threads": options.threads, "seed": options.seed, "rounds": options.rounds}
    predict = result["predict"]
    print(f"{result['machine']}; {options.threads} threads, seed {options.seed}, {options.rounds} rounds\n")
    print(table(result))
    print(
        f"\n`riverrun predict {MODEL}` from stdin: {predict['words_per_s']:,.0f} words/s "
        f"({predict['words']:,} words, the start of the process included)"
    )
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
