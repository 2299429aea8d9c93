"""N-gram models beside NLTK and KenLM: time to learn, perplexity, symbols a second, memory.

    python benchmarks/ngram.py TRAIN.txt TEST.txt [--peers-python PYTHON] [--lmplz BINARY] [--order 5] [--json FILE]

Modified Kneser-Ney on lines of words; lines without words are left out, and `<unk>` is a word like others. `--lmplz`
is KenLM's program that makes models: it learns from the same lines. KenLM has one symbol more, its own `<unk>`, which
shows in the fifth digit of a score. `--peers-python` is an interpreter that has nltk, and kenlm where scores are to be
compared. NLTK learns a model of order 3 from the first `--nltk-lines` lines and scores `--nltk-words` words; riverrun
does the same in the same run. NLTK's Kneser-Ney has one fixed discount, so that only times are compared with it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import platform
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from riverrun.classic.arpa import read_arpa, write_arpa
from riverrun.classic.counts import count
from riverrun.classic.ngram import NGram
from riverrun.classic.smoothing import smooth
from riverrun.classic.snm_training import learn_snm
from riverrun.classic.store import from_bytes, to_bytes
from riverrun.text.units import Words

Result = TypeVar("Result")

NLTK = """
import json, sys, time
from nltk.lm import KneserNeyInterpolated
from nltk.lm.preprocessing import padded_everygram_pipeline
lines, words = open(sys.argv[1], encoding="utf-8").read().splitlines(), int(sys.argv[3])
start = time.perf_counter()
model = KneserNeyInterpolated(3)
model.fit(*padded_everygram_pipeline(3, [line.split() for line in lines]))
fitted = time.perf_counter()
text = [word for line in open(sys.argv[2], encoding="utf-8") for word in ("<s>", "<s>", *line.split(), "</s>")]
places = [k for k, word in enumerate(text) if word != "<s>"][:words]
begin = time.perf_counter()
for k in places:
    model.logscore(text[k], text[k - 2 : k])
print(json.dumps({"learn": fitted - start, "score": len(places) / (time.perf_counter() - begin)}))
"""

KENLM = """
import json, sys, time
import kenlm
model = kenlm.Model(sys.argv[1])
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
start = time.perf_counter()
for line in lines:
    model.score(line)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "scores": [score for line in lines for score, _, _ in model.full_scores(line)]}))
"""


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """What it returns, and the seconds it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def lines_of(path: Path) -> list[str]:
    """The lines that have words."""
    return [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.strip()]


def learn(lines: list[str], order: int) -> tuple[Words, NGram, dict[str, float]]:
    """Vocabulary, counts and smoothing, and how long each took."""
    units, reading = timed(lambda: Words.learn(lines, bos_symbol="<s>"))
    ids, encoding = timed(lambda: np.concatenate(list(units.encode(lines))))
    counts, counting = timed(
        lambda: count(ids, order=order, size=units.size, bos=units.bos, eos=units.eos, unknown=units.unknown)
    )
    model, smoothing = timed(lambda: smooth(counts))
    return units, model, {"words": reading, "ids": encoding, "count": counting, "smooth": smoothing}


def warm_up() -> None:
    """Have everything compiled, or read from the cache of what was compiled."""
    ids = np.array([2, 3, 1, 2, 2, 1])
    for kind in (np.float32, np.float64):
        model = smooth(count(ids, order=2, size=5, bos=4, eos=1), "witten-bell", dtype=kind)
        dataclasses.replace(model, engine="numba").scores(ids)


def megabytes() -> float:
    """The largest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def scoring(model: NGram, ids: np.ndarray) -> float:
    """Seconds to score all symbols, the best of three rounds."""
    return min(timed(lambda: list(model.read(ids)))[1] for _ in range(3))


def ours(train: list[str], test: list[str], order: int) -> tuple[Words, NGram, dict[str, float]]:
    """Learn, score and store."""
    units, model, found = learn(train, order)
    found["memory"] = megabytes()
    found["ngrams"] = float(model.trie.base[-1])
    ids = np.concatenate(list(units.encode(test)))
    found["perplexity"] = model.perplexity(ids)
    for engine in ("numba", "numpy"):
        found[f"score_{engine}"] = len(ids) / scoring(dataclasses.replace(model, engine=engine), ids)
    data, found["save"] = timed(lambda: to_bytes(model))
    found["bytes"] = float(len(data))
    _, found["load"] = timed(lambda: from_bytes(data))
    return units, model, found


def beside_lmplz(binary: str, train: list[str], order: int, arpa: Path) -> float:
    """Seconds that KenLM takes for the same lines."""
    command = [binary, "-o", str(order), "-S", "2G", "-T", tempfile.gettempdir(), "--arpa", str(arpa)]
    text = spelled_out("".join(train)).encode()
    return timed(lambda: subprocess.run(command, input=text, check=True, capture_output=True))[1]


def spelled_out(text: str) -> str:
    """``<unk>`` as a word that KenLM does not know for a mark."""
    return text.replace("<unk>", "UNKNOWN-WORD")


def beside_kenlm(python: str, arpa: Path, test: list[str], mine: np.ndarray) -> dict[str, float]:
    """KenLM's speed, and how far its scores are from ours, in log10."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "test.txt"
        text.write_text(spelled_out("".join(test)), encoding="utf-8")
        found = run_peer(python, KENLM, str(arpa), str(text))
    theirs = np.array(found["scores"])
    return {
        "score": len(theirs) / found["seconds"],
        "difference": float(np.abs(theirs - mine / math.log(10)).max()),
        "perplexity": float(10 ** -theirs.mean()),
    }


def beside_nltk(python: str, train: list[str], test: list[str], words: int) -> dict[str, float]:
    """NLTK's seconds and speed, and ours on the same lines."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "train.txt", Path(folder) / "test.txt"]
        for file, lines in zip(files, (train, test), strict=True):
            file.write_text("".join(lines), encoding="utf-8")
        found = run_peer(python, NLTK, *map(str, files), str(words))
    units, model, seconds = learn(train, 3)
    ids = np.concatenate(list(units.encode(test)))
    return {
        "nltk_learn": found["learn"],
        "nltk_score": found["score"],
        "learn": sum(seconds.values()),
        "score": len(ids) / scoring(model, ids),
    }


def run_peer(python: str, program: str, *arguments: str) -> Any:
    """What a program prints in another interpreter."""
    done = subprocess.run([python, "-c", program, *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def matrix(train: list[str], test: list[str]) -> dict[str, float]:
    """The sparse non-negative matrix model, with its usual settings."""
    units = Words.learn(train, bos_symbol="<s>")
    ids, text = (np.concatenate(list(units.encode(lines))) for lines in (train, test))
    model, seconds = timed(lambda: learn_snm(ids, size=units.size, bos=units.bos, eos=units.eos))
    perplexity, scored = timed(lambda: model.perplexity(text))
    return {"learn": seconds, "perplexity": perplexity, "score": len(text) / scored, "entries": float(len(model.word))}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--lmplz", help="KenLM's program that makes models")
    parser.add_argument("--peers-python", help="an interpreter that has nltk, and kenlm with --lmplz")
    parser.add_argument("--nltk-lines", type=int, default=2000)
    parser.add_argument("--nltk-words", type=int, default=100)
    parser.add_argument("--snm", action="store_true", help="the sparse non-negative matrix model too: minutes")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    train, test = lines_of(options.train), lines_of(options.test)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    warm_up()
    units, model, found = ours(train, test, options.order)
    result: dict[str, dict[str, float]] = {"riverrun": found}
    print(
        f"riverrun, order {options.order}: {found['count'] + found['smooth']:.2f} s to count and smooth "
        f"({found['words'] + found['ids']:.2f} s to read the words), {found['ngrams']:,.0f} n-grams, "
        f"perplexity {found['perplexity']:.3f}, {found['memory']:.0f} MB at most\n"
        f"  scores {found['score_numba'] / 1e6:.2f} M symbols/s by numba, {found['score_numpy'] / 1e6:.2f} M by numpy; "
        f"{found['bytes'] / 1e6:.0f} MB on disk, loaded in {found['load']:.2f} s"
    )
    with tempfile.TemporaryDirectory() as folder:
        arpa = Path(folder) / "model.arpa"
        _, found["write_arpa"] = timed(lambda: write_arpa(arpa, model, units.vocab))
        _, found["read_arpa"] = timed(lambda: read_arpa(arpa))
        print(f"  ARPA of {arpa.stat().st_size / 1e6:.0f} MB: written in {found['write_arpa']:.1f} s, read in "
              f"{found['read_arpa']:.1f} s")  # fmt: skip
        if options.lmplz:
            other: dict[str, float] = {"learn": beside_lmplz(options.lmplz, train, options.order, arpa)}
            ours_too = sum(found[part] for part in ("words", "ids", "count", "smooth"))
            print(
                f"KenLM: lmplz {other['learn']:.2f} s from text to ARPA; riverrun {ours_too:.2f} s from text to model"
            )
            if options.peers_python:
                scores = np.concatenate([s for _, s in model.read(np.concatenate(list(units.encode(test))))])
                other |= beside_kenlm(options.peers_python, arpa, test, scores)
                print(
                    f"  scores {other['score'] / 1e6:.2f} M symbols/s, perplexity {other['perplexity']:.3f}; the "
                    f"largest difference of a symbol's score is {other['difference']:.1e} in log10"
                )
            result["kenlm"] = other
    if options.peers_python:
        slow = beside_nltk(options.peers_python, train[: options.nltk_lines], test, options.nltk_words)
        result["nltk"] = slow
        print(
            f"NLTK, order 3, {options.nltk_lines} lines: learned in {slow['nltk_learn']:.2f} s, riverrun "
            f"{slow['learn']:.2f} s ({slow['nltk_learn'] / slow['learn']:.0f} x); scores {slow['nltk_score']:.0f} "
            f"words/s, riverrun {slow['score']:,.0f} ({slow['score'] / slow['nltk_score']:,.0f} x)"
        )
    if options.snm:
        result["snm"] = dense = matrix(train, test)
        print(
            f"sparse non-negative matrix: learned in {dense['learn']:.0f} s, {dense['entries']:,.0f} entries, "
            f"perplexity {dense['perplexity']:.2f}, scores {dense['score']:,.0f} symbols/s"
        )
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
