"""``riverrun demo``: the whole way in a few minutes: use a model, train one, score it, use it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from tyro.conf import Positional, arg

from riverrun.cli.evaluate import table
from riverrun.cli.needs import needs_torch
from riverrun.cli.progress import listeners
from riverrun.cli.train import next_folder
from riverrun.config.recipe import load_recipe

if TYPE_CHECKING:
    from riverrun.tasks.tagger import Tagger

SENTENCE = "The river runs past Eve and Adam's ."
RECIPE = "tagger/upos"
# A miniature of a corpus: smaller batches and fewer epochs than the recipe has for a whole one.
SETTINGS = ("train.batch=16", "train.epochs=7")


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """Use the bundled model, train one on the bundled miniature treebank, score it, say what to do next."""

    what: Annotated[Positional[Literal["tagger"]], arg(metavar="WHAT")] = "tagger"
    """What to show: tagger."""

    out: Annotated[str | None, arg(metavar="DIR")] = None
    """The new model's folder; runs/demo-1, -2, ... where it is not given."""

    def run(self) -> None:
        """Show the bundled model, then train and show one."""
        from riverrun import tasks

        print(f"1. The bundled model en-upos tags a sentence:\n   {tagged(tasks.load('en-upos'))}\n")
        needs_torch("the second half of the demo, training,")
        from riverrun.tasks.tagger import Tagger

        treebank = Path(str(resources.files("riverrun"))) / "bundled" / "mini-treebank"
        data = {part: str(treebank / f"{part}.conllu") for part in ("train", "dev")}
        recipe = load_recipe(RECIPE, settings=SETTINGS, data=data)
        out = Path(self.out) if self.out else next_folder("demo")
        print(f"2. Training {RECIPE} on a miniature treebank, into {out}:", flush=True)
        with listeners(out) as heard:
            model = Tagger(recipe).fit(out=out, listeners=heard)
        test = treebank / "test.conllu"
        print(f"\n3. Its scores on sentences that it has not seen:\n{table(model.evaluate(test))}\n")
        print(f"4. The new model tags the sentence:\n   {tagged(model)}\n")
        print(f"The model is the folder {out}. What to type next:")
        print(f"   echo '{SENTENCE}' | riverrun predict {out}")
        print(f"   riverrun evaluate {out} {test}")
        print(f"   riverrun train {RECIPE} YOUR-TRAIN.conllu YOUR-DEV.conllu")


def tagged(model: Tagger) -> str:
    """The sentence with the model's tags."""
    (answer,) = model.predict([SENTENCE])
    return " ".join(f"{form}/{tag}" for form, tag in zip(answer.forms, answer.tags, strict=True))
