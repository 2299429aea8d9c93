"""The verbs of ``riverrun``, in the order of its help."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from tyro.conf import subcommand

from riverrun.cli.data import Check, Verify
from riverrun.cli.demo import Demo
from riverrun.cli.doctor import Doctor
from riverrun.cli.evaluate import Evaluate
from riverrun.cli.export import Export
from riverrun.cli.models import Models
from riverrun.cli.predict import Predict
from riverrun.cli.recipes import Recipes
from riverrun.cli.train import Train


class Verb(Protocol):
    """What was asked for."""

    def run(self) -> None:
        """Do it."""


Data = Annotated[Check, subcommand("check")] | Annotated[Verify, subcommand("verify")]
Command: Any = (
    Annotated[Demo, subcommand("demo")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Predict, subcommand("predict")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Data, subcommand("data", description="Look at data before a run; check files after one.")]
    | Annotated[Recipes, subcommand("recipes")]
    | Annotated[Models, subcommand("models")]
    | Annotated[Doctor, subcommand("doctor")]
)
