"""``[data]``: the files that a recipe reads."""

from __future__ import annotations

from typing import Literal

import msgspec

from riverrun.config.struct import Config, Share

FormatName = Literal[
    "conllu",
    "conll",
    "lines",
    "text",
    "tsv",
    "csv",
    "jsonl",
    "parallel",
    "brackets",
    "scan",
    "features",
    "lm1b",
]


class Data(Config, frozen=True):
    """The files to train, choose and test on. Paths start from the current folder; .gz and .zst are read."""

    train: str | None = None
    """The file to learn from."""

    dev: str | None = None
    """The file that chooses the best epoch; without it, a part of the training file is held out (`hold_out`)."""

    test: str | None = None
    """The file that is scored once, after training."""

    format: FormatName | None = None
    """How the files are written; guessed from the file where it is not given."""

    columns: dict[str, int | str] = msgspec.field(default_factory=dict)
    """Which column holds what, by number (from 0) or by name, for example `{ form = 0, tag = 3 }`."""

    encoding: str | None = None
    """The character encoding, for example `latin-1`; found out from the file where it is not given."""

    cache: str | None = None
    """The folder of the memory-mapped, encoded corpus; beside the model folder where it is not given."""

    hold_out: Share = 0.1
    """The share of the training sentences that is held out where there is no `dev`."""
