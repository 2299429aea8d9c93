"""Train a tagger on the miniature treebank that comes with riverrun, look at its scores, tag a sentence, export it.

    python examples/train_tagger.py [SETTING...]

Settings are those of a recipe, for example ``train.epochs=5``. One epoch takes less than a minute on two CPU cores.
"""

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import riverrun

treebank = Path(str(files("riverrun"))) / "bundled" / "mini-treebank"
settings = ["train.epochs=1", *sys.argv[1:]]

tagger = riverrun.Tagger("tagger/upos", settings=settings)
tagger.fit(treebank / "train.conllu", treebank / "dev.conllu")

report = tagger.evaluate(treebank / "test.conllu")
print(f"accuracy {report.metrics['accuracy']:.3f} on {report.n} sentences ({report.signature})")
print(tagger.predict(["The river runs past Eve and Adam's."])[0])

with tempfile.TemporaryDirectory() as place:
    tagger.save_pretrained(place)  # a folder that `riverrun predict` and `riverrun.load` read
    print(riverrun.load(place).predict([["Dogs", "bark", "."]])[0])
