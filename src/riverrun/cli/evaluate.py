"""``riverrun evaluate``: the scores of a model on a file, with what they depend on."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from tyro.conf import Positional, arg

from riverrun.cli.options import File, Flag, Model, Name, Number, Text, read_columns
from riverrun.cli.screen import aligned, say_notes
from riverrun.errors import ConfigError

if TYPE_CHECKING:
    from riverrun.metrics.report import Report


class Evaluate(msgspec.Struct, frozen=True, kw_only=True):
    """Score a model on a file, by type, with a signature that says how it was scored."""

    model: Model
    """A model's folder, or the name of a bundled model."""

    file: Annotated[Positional[str | None], arg(metavar="[FILE]", help_behavior_hint="")] = None
    """A file with the right answers, or the text that a language model is to predict; - is stdin."""

    agreement: File = None
    """Minimal pairs, a file or a folder, in place of FILE: how often a language model prefers the right sentence."""

    format: Name = None
    """The format of FILE; guessed where it is not given."""

    columns: Text = None
    """Which column holds what, for example "form=0, tag=3"; as in training where it is not given."""

    scoring: Annotated[
        Literal["conlleval", "strict"] | None, arg(metavar="{conlleval,strict}", help_behavior_hint="")
    ] = None
    """How spans whose tags break their scheme are counted: read as conlleval does, or not at all; as in training where
    it is not given."""

    encoding: Name = None
    """The character encoding of FILE, for example latin-1; as in training, or found out."""

    unknown: Annotated[
        Literal["scored", "excluded", "charged"] | None,
        arg(metavar="{scored,excluded,charged}", help_behavior_hint=""),
    ] = None
    """What becomes of words that a language model does not know: scored as <unk>, excluded, or charged for their
    spelling too. Pairs with such words are excluded unless they are to be scored."""

    json: Flag = False
    """One JSON object instead of a table."""

    threads: Number = None
    """CPU threads."""

    def run(self) -> None:
        """Print the scores."""
        from riverrun import tasks

        task = tasks.load(self.model, threads=self.threads)
        given = {
            "format": self.format,
            "columns": read_columns(self.columns) or None,
            "encoding": self.encoding,
            "scoring": self.scoring,
            "unknown": self.unknown,
        }
        named = {name: value for name, value in given.items() if value is not None}
        if (self.file is None) == (self.agreement is None):
            raise ConfigError("evaluate: on which file? Give FILE, or minimal pairs as --agreement FILE")
        evaluate: Callable[..., Report] | None = task.evaluate
        if self.agreement is not None:
            evaluate = getattr(task, "agreement", None)
        if evaluate is None:
            raise ConfigError(f"--agreement: is for language models; {self.model} has the task '{task.recipe.task}'")
        for name in named:
            if name not in signature(evaluate).parameters:
                raise ConfigError(f"--{name}: means nothing to the task '{task.recipe.task}' here; remove it")
        report = evaluate(self.agreement or self.file, **named)
        print(msgspec.json.encode(report).decode() if self.json else table(report))
        say_notes(task.notes)


def table(report: Report) -> str:
    """A report for people: the scores, those by type, the signature."""
    lines = [aligned([*((name, f"{value:.4f}") for name, value in report.metrics.items())], right=[1])]
    if report.by_type:
        names = list(next(iter(report.by_type.values())))
        rows = [
            (kind, *(f"{scores[name]:.4f}" if isinstance(scores[name], float) else scores[name] for name in names))
            for kind, scores in report.by_type.items()
        ]
        lines.append(aligned([("type", *names), *rows], right=range(1, len(names) + 1)))
    lines.append(report.signature)
    return "\n\n".join(lines)
