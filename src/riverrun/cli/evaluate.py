"""``riverrun evaluate``: the scores of a model on a file, with what they depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from tyro.conf import Positional, arg

from riverrun.cli.options import read_columns
from riverrun.cli.screen import aligned, say

if TYPE_CHECKING:
    from riverrun.metrics.report import Report


class Evaluate(msgspec.Struct, frozen=True, kw_only=True):
    """Score a model on a file, by type, with a signature that says how it was scored."""

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """A model's folder, or the name of a bundled model."""

    file: Annotated[Positional[str], arg(metavar="FILE")]
    """A file with the right answers; - is stdin."""

    format: str | None = None
    """The format of FILE; guessed where it is not given."""

    columns: str | None = None
    """Which column holds what, for example "form=0, tag=3"; as in training where it is not given."""

    json: bool = False
    """One JSON object instead of a table."""

    threads: int | None = None
    """CPU threads."""

    def run(self) -> None:
        """Print the scores."""
        from riverrun import tasks

        task = tasks.load(self.model, threads=self.threads)
        report = task.evaluate(self.file, format=self.format, columns=read_columns(self.columns))
        print(msgspec.json.encode(report).decode() if self.json else table(report))
        for note in task.notes:
            say(f"Note: {note}")


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
