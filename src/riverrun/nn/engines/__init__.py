"""Engines: how an equation is run over time. Each gives the same numbers; they differ in speed and in what they run."""

from riverrun.nn.engines.table import ENGINES as ENGINES
from riverrun.nn.engines.table import Engine as Engine
from riverrun.nn.engines.watch import Ran as Ran
from riverrun.nn.engines.watch import watch as watch
