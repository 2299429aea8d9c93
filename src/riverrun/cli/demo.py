"""``riverrun demo``: the whole way in a few minutes: train a model, look at its scores, use it."""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from tyro.conf import Positional, arg

from riverrun.cli.evaluate import table
from riverrun.cli.options import Dir
from riverrun.cli.progress import listeners
from riverrun.cli.train import next_folder
from riverrun.errors import needs_torch

if TYPE_CHECKING:
    from riverrun.tasks.tagger import Tagger

SENTENCE = "The river runs past Eve and Adam's ."
PROMPT = "ROMEO:\n"
# Miniatures of a corpus: smaller batches and fewer epochs than the recipes have for a whole one.
TAGGER, TAGGER_SETTINGS = "tagger/upos", ("train.batch=16", "train.epochs=7")
LM = "lm/char"
LM_SETTINGS = (
    "model.encoder={ hidden = 320, layers = 1, dropout = 0.1 }",
    "train={ epochs = 9, batch = 16, rate = 0.006, schedule = 'one-cycle' }",
)


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """Train a model on a bundled miniature, show its scores and what it does, say what to do next."""

    what: Annotated[Positional[Literal["tagger", "lm"]], arg(metavar="[WHAT]", help_behavior_hint="")] = "tagger"
    """What to show: tagger, or lm, a language model that writes."""

    out: Dir = None
    """The new model's folder; runs/demo-1, -2, ... where it is not given."""

    def run(self) -> None:
        """Train and show."""
        out = Path(self.out) if self.out else next_folder("demo")
        (show_tagger if self.what == "tagger" else show_lm)(out)


def show_tagger(out: Path) -> None:
    """A bundled tagger, and one that is trained."""
    from riverrun.tasks.tagger import Tagger

    print(f"1. The bundled model en-upos tags a sentence:\n   {tagged(Tagger.load('en-upos'))}\n")
    needs_torch("the second half of the demo, training,")
    treebank = bundled("mini-treebank")
    print(f"2. Training {TAGGER} on a miniature treebank, into {out}:", flush=True)
    with listeners(out) as heard:
        model = Tagger(TAGGER, settings=TAGGER_SETTINGS)
        model.fit(treebank / "train.conllu", treebank / "dev.conllu", out=out, listeners=heard)
    test = treebank / "test.conllu"
    print(f"\n3. Its scores on sentences that it has not seen:\n{table(model.evaluate(test))}\n")
    print(f"4. The new model tags the sentence:\n   {tagged(model)}\n")
    place = shlex.quote(str(out))
    print(f"The model is the folder {out}. What to type next:")
    print(f"   echo {shlex.quote(SENTENCE)} | riverrun predict {place}")
    print(f"   riverrun evaluate {place} {shlex.quote(str(test))}")
    print(f"   riverrun train {TAGGER} YOUR-TRAIN.conllu YOUR-DEV.conllu")


def show_lm(out: Path) -> None:
    """A language model of characters that is trained and writes."""
    needs_torch("training a language model")
    from riverrun.tasks.language_model import LanguageModel

    print(f"1. Training {LM} on some of Shakespeare's plays, into {out}:", flush=True)
    with listeners(out) as heard:
        model = LanguageModel(LM, settings=LM_SETTINGS)
        model.fit(bundled("mini-shakespeare") / "plays.txt", out=out, listeners=heard)
    print(f"\n2. It writes, character by character:\n\n{PROMPT}", end="", flush=True)
    for piece in model.generate(PROMPT, strategy="top-p", length=500, seed=1):
        print(piece.text, end="", flush=True)
    place = shlex.quote(str(out))
    print(f"\n\nThe model is the folder {out}. What to type next:")
    print(f"   riverrun generate {place} --prompt 'JULIET:' --strategy top-p --length 300")
    print(f"   echo 'What light is this?' | riverrun score {place} --tokens")
    print(f"   riverrun train {LM} YOUR-TEXT.txt")


def bundled(name: str) -> Path:
    """The folder of a bundled miniature."""
    return Path(str(resources.files("riverrun"))) / "bundled" / name


def tagged(model: Tagger) -> str:
    """The sentence with the model's tags."""
    (answer,) = model.predict([SENTENCE])
    return " ".join(f"{form}/{tag}" for form, tag in zip(answer.forms, answer.tags, strict=True))
