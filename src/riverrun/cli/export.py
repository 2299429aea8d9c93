"""``riverrun export``: a trained model as a folder that runs without torch."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import msgspec
from tyro.conf import Positional, arg

from riverrun.cli.options import Flag, Model
from riverrun.cli.screen import say, size
from riverrun.errors import needs_torch


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """Write a model as a folder that runs without torch; compared with the original before it is written."""

    model: Model
    """The folder of a trained model."""

    folder: Annotated[Positional[str], arg(metavar="DIR", help_behavior_hint="")]
    """The new folder."""

    int8: Flag = False
    """Keep the large weights as 8-bit integers, about a quarter of the size; sums stay float32. It says which large
    weights stayed float."""

    def run(self) -> None:
        """Load, export, and say what came out."""
        needs_torch("exporting a model")
        from riverrun import tasks

        task = tasks.load(self.model)
        for note in task.export(Path(self.folder), int8=self.int8):
            say(note)
        written = sum(file.stat().st_size for file in Path(self.folder).rglob("*") if file.is_file())
        say(f"{self.folder}: {size(written)}. Try: {task.first_use.format(shlex.quote(self.folder))}")
