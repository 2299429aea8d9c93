"""A linear CRF over hand-made features (python-crfsuite), on the same files as our taggers: what they must beat.

python benchmarks/feature_crf.py TRAIN.conllu TEST.conllu [OTHER.conllu ...]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pycrfsuite

from riverrun.metrics.accuracy import Accuracy
from riverrun.text.formats import read_conllu

LENGTHS = (1, 2, 3, 4)  # of beginnings and endings
NEIGHBOURS = (-2, -1, 1, 2)


def features(forms: list[str]) -> list[list[str]]:
    """For each word: itself, its beginnings and endings, its shape, the words around it."""
    lower = [form.lower() for form in forms]
    rows = []
    for k, form in enumerate(forms):
        word = lower[k]
        row = ["bias", f"word={word}", f"form={form}", f"first={word.split(' ')[0]}", f"last={word.split(' ')[-1]}"]
        row += [f"ends {word[-n:]}" for n in LENGTHS] + [f"begins {word[:n]}" for n in LENGTHS]
        row += ["capital"] if form[0].isupper() else []
        row += ["capitals"] if form.isupper() else []
        row += ["digit"] if any(c.isdigit() for c in form) else []
        row += ["mark"] if not any(c.isalnum() for c in form) else []
        row += ["start"] if k == 0 else []
        for step in NEIGHBOURS:
            row.append(f"{step}: {lower[k + step] if 0 <= k + step < len(forms) else '-'}")
        rows.append(row)
    return rows


def read(path: str) -> Iterator[tuple[list[str], list[str]]]:
    """(forms, tags) of each sentence."""
    return ((sentence.forms, sentence.upos) for sentence in read_conllu(path))


def main() -> None:
    """Train on the first file, score on the others."""
    train, *others = sys.argv[1:]
    begin = time.perf_counter()
    trainer = pycrfsuite.Trainer(verbose=False)
    for forms, tags in read(train):
        trainer.append(features(forms), tags)
    trainer.set_params({"c1": 0.05, "c2": 0.05, "max_iterations": 100})
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model.crfsuite")
        trainer.train(model)
        print(f"trained in {time.perf_counter() - begin:.0f} s, one core; {Path(model).stat().st_size / 1e6:.1f} MB")
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        for path in others:
            counts = Accuracy()
            for forms, tags in read(path):
                counts.add(tags, tagger.tag(features(forms)))
            print(f"{path}: accuracy {counts.metrics['accuracy']:.4f} of {counts.tokens} words; {counts.signature}")


if __name__ == "__main__":
    main()
