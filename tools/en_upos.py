"""Make the bundled model en-upos: train a shipped recipe on UD English-EWT, export it as int8, measure, write its card.

python tools/en_upos.py FOLDER

FOLDER holds en_ewt-ud-{train,dev,test}.conllu and LICENSE.txt of UD English-EWT, and the vectors GloVe 6B, 100 numbers,
as glove.txt.gz (the first 80,000 words of a filtered list were used). What is trained stays in FOLDER/en-upos.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import riverrun
from riverrun.tasks import folder as folders
from riverrun.text.formats import read_conllu

TARGET = Path(__file__).resolve().parent.parent / "src" / "riverrun" / "bundled" / "en-upos"
SETTINGS = (
    "data.test=en_ewt-ud-test.conllu",
    "model.words.vectors=glove.txt.gz",
    "model.words.extra=12000",
    "model.words.dropout=0.25",
    'model.chars={kind="cnn",size=50,filters=50,width=3}',
    "model.affixes=none",
    "model.encoder.hidden=128",
    "train.epochs=25",
    "train.threads=1",
)
TRAIN = ["riverrun", "train", "tagger/upos", "en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu"]
TRAIN += [part for setting in SETTINGS for part in ("--set", setting)] + ["--out", "en-upos"]
EXPORT = ["riverrun", "export", "en-upos", "en-upos-int8", "--int8"]


def words_per_second(model: str | Path, text: Path, words: int) -> float:
    """Raw text in, tags out, one thread, start-up included: the best of three."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        with text.open("rb") as file:
            command = [sys.executable, "-m", "riverrun", "predict", str(model), "--threads", "1"]
            subprocess.run(command, stdin=file, stdout=subprocess.DEVNULL, check=True)
        best = min(best, time.perf_counter() - begin)
    return words / best


def card(scores: dict[str, float], size: int, speed: float) -> str:
    """The README.md of the bundled model."""
    machine = f"{os.cpu_count()} cores of {platform.machine()}, Python {platform.python_version()}"
    versions = ", ".join(f"{name} {version(name)}" for name in ("riverrun", "torch", "onnxruntime", "numpy"))
    commands = "\n".join(shlex.join(line) for line in (TRAIN, EXPORT))
    return f"""# en-upos

Universal parts of speech for English, from raw text or from words. A bidirectional LSTM (128 units in each direction)
over word vectors and a character CNN, with a softmax for each word; weights in 8 bits; {size / 1e6:.2f} MB in all. It
runs without PyTorch. The tokeniser and sentence splitter were learned from the same training file.

## Scores

| UD English-EWT | accuracy, gold words |
|---|---|
| dev, as trained (fp32) | {scores["dev fp32"]:.4f} |
| test, as trained (fp32) | {scores["test fp32"]:.4f} |
| test, this model (int8) | {scores["test int8"]:.4f} |

Signature: `accuracy:token|v1`. Hyper-parameters were chosen on dev; test was scored once for this model.

Speed: {speed:,.0f} words a second through `riverrun predict` from raw text on stdin, one thread, start-up included
({machine}, not idle; {versions}).

## Data and licence

Trained on UD English-EWT (Universal Dependencies English Web Treebank, official split), CC BY-SA 4.0; this model is
under the same licence (`LICENSE.txt`). Word vectors begin as GloVe 6B (Pennington, Socher and Manning 2014), Public
Domain Dedication and License. Web text of the 2000s (weblogs, newsgroups, email, reviews, answers): expect less on
other kinds.

## The commands that made it

`python tools/en_upos.py FOLDER`, which runs in FOLDER:

```sh
{commands}
```
"""


def main() -> None:
    """Train where nothing was trained yet, then export, measure and bundle."""
    os.chdir(sys.argv[1])
    if not Path("en-upos", folders.CONFIG).is_file():
        subprocess.run([sys.executable, "-m", *TRAIN], check=True)
    subprocess.run(["rm", "-rf", str(TARGET)], check=True)
    subprocess.run([sys.executable, "-m", *EXPORT[:-2], str(TARGET), "--int8"], check=True)
    scores = {
        f"{part} {kind}": riverrun.load(model).evaluate(f"en_ewt-ud-{part}.conllu").metrics["accuracy"]
        for kind, model in (("fp32", "en-upos"), ("int8", TARGET))
        for part in ("dev", "test")
    }
    sentences = list(read_conllu("en_ewt-ud-train.conllu"))
    raw = Path("raw.txt")
    raw.write_text("\n".join(str(sentence.text) for sentence in sentences), encoding="utf-8")
    speed = words_per_second(TARGET, raw, sum(map(len, sentences)))
    size = sum(file.stat().st_size for file in TARGET.rglob("*") if file.is_file())
    papers = {"README.md": card(scores, size, speed).encode(), "LICENSE.txt": Path("LICENSE.txt").read_bytes()}
    folders.write(TARGET, folders.read(TARGET), papers)
    print(scores, speed, size)


if __name__ == "__main__":
    main()
