"""``riverrun predict``: a model's answers for a file or a stream, in the order of the input."""

from __future__ import annotations

from typing import Annotated

import msgspec
from tyro.conf import arg

from riverrun.cli.options import Flag, Input, Model, Name, Number, Text, read_columns
from riverrun.cli.screen import say_notes


class Predict(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answers for text: tags, or what comes next. Given the training format, it comes back, filled in."""

    model: Model
    """A model's folder, or the name of a bundled model."""

    file: Input = "-"
    """What to read; - is stdin. .gz and .zst are read."""

    format: Name = None
    """The format of FILE, for example conllu; guessed where it is not given."""

    columns: Text = None
    """Which column holds what, for example "form=0, tag=3"; as in training where it is not given."""

    encoding: Name = None
    """The character encoding of FILE, for example latin-1; found out where it is not given."""

    json: Flag = False
    """One JSON object a sentence."""

    out: Annotated[str, arg(metavar="FILE", help_behavior_hint="")] = "-"
    """The file to write; - is stdout."""

    threads: Number = None
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
        say_notes(task.notes)
