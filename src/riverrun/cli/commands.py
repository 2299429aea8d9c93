"""The verbs of ``riverrun``, in the order of its help, and the command line as one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

from riverrun.cli.data import Check, Verify
from riverrun.cli.demo import Demo
from riverrun.cli.doctor import Doctor
from riverrun.cli.evaluate import Evaluate
from riverrun.cli.export import Export
from riverrun.cli.generate import Generate
from riverrun.cli.models import Models
from riverrun.cli.predict import Predict
from riverrun.cli.recipes import Recipes
from riverrun.cli.score import Score
from riverrun.cli.screen import aligned, say
from riverrun.cli.train import Train
from riverrun.errors import nearest

WRONG_LINE = 2


class Verb(Protocol):
    """What was asked for."""

    def run(self) -> None:
        """Do it."""


VERBS: dict[str, type[Verb]] = {
    "demo": Demo,
    "train": Train,
    "evaluate": Evaluate,
    "predict": Predict,
    "generate": Generate,
    "score": Score,
    "export": Export,
    "data check": Check,
    "data verify": Verify,
    "recipes": Recipes,
    "models": Models,
    "doctor": Doctor,
}

HELP = """usage: riverrun VERB ...

Train, measure and ship recurrent neural networks for text.

First steps: riverrun demo, then riverrun train tagger/upos YOUR.conllu

{verbs}

riverrun VERB --help shows the options of a verb, riverrun --version the version."""


def parse(arguments: Sequence[str]) -> Verb:
    """The verb that a command line means, with its options.

    Raises:
        SystemExit: after the help, and with the code 2 where the line is wrong.
    """
    import tyro
    from tyro.conf import FlagCreatePairsOff

    name, rest = _named(list(arguments))
    verb: Verb = tyro.cli(VERBS[name], prog=f"riverrun {name}", args=rest, config=(FlagCreatePairsOff,))
    return verb


def _named(arguments: list[str]) -> tuple[str, list[str]]:
    """The name of a verb, which has one word or two, and what stands behind it."""
    words: list[str] = []
    rest = arguments
    while True:
        begun = " ".join(words)
        if begun in VERBS:
            return begun, rest
        choices = {name: verb for name, verb in VERBS.items() if name.startswith(f"{begun} " if begun else "")}
        if rest[:1] in (["-h"], ["--help"]):
            print(_help(choices))
            raise SystemExit(0)
        if not rest:
            say(_help(choices))
            raise SystemExit(WRONG_LINE)
        allowed = list(dict.fromkeys(name.split()[len(words)] for name in choices))
        word, rest = rest[0], rest[1:]
        if word not in allowed:
            _refuse(" ".join(["riverrun", *words]), word, allowed)
        words.append(word)


def _refuse(program: str, word: str, allowed: Sequence[str]) -> NoReturn:
    what = "option" if word.startswith("-") else "verb"
    hint = nearest(word, ["--help", "--version"] if what == "option" else allowed) or "."
    say(f"{program}: unknown {what} '{word}'{hint} Expected one of {', '.join(allowed)}; see {program} --help")
    raise SystemExit(WRONG_LINE)


def _help(verbs: dict[str, type[Verb]]) -> str:
    """Each verb with the first sentence of what it does."""
    rows = [(f"  {name}", " ".join((verb.__doc__ or "").split("\n\n")[0].split())) for name, verb in verbs.items()]
    return HELP.format(verbs=aligned(rows))
