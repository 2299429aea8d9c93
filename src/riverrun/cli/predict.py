"""``riverrun predict``: a model's answers for a file or a stream, in the order of the input."""

from __future__ import annotations

from typing import Annotated

import msgspec
from tyro.conf import Positional, arg

from riverrun.cli.options import read_columns
from riverrun.cli.screen import say


class Predict(msgspec.Struct, frozen=True, kw_only=True):
    """Tag text. Raw text is split into words; given the training format, that format comes back, filled in."""

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """A model's folder, or the name of a bundled model."""

    file: Annotated[Positional[str], arg(metavar="FILE")] = "-"
    """What to read; - is stdin. .gz and .zst are read."""

    format: str | None = None
    """The format of FILE, for example conllu; guessed where it is not given."""

    columns: str | None = None
    """Which column holds what, for example "form=0, tag=3"; as in training where it is not given."""

    encoding: str | None = None
    """The character encoding of FILE, for example latin-1; found out where it is not given."""

    json: bool = False
    """One JSON object a sentence."""

    out: str = "-"
    """The file to write; - is stdout."""

    threads: int | None = None
    """CPU threads."""

    def run(self) -> None:
        """Read, predict and write, a part at a time."""
        from riverrun import tasks

        task = tasks.load(self.model, threads=self.threads)
        task.predict_file(
            self.file,
            self.out,
            format=self.format,
            columns=read_columns(self.columns),
            encoding=self.encoding,
            as_json=self.json,
        )
        for note in task.notes:
            say(f"Note: {note}")
