"""Recurrent cells as equations, and what is derived from them. No torch."""

from riverrun.nn.cells.cell import Cell as Cell
from riverrun.nn.cells.cell import TracedCell as TracedCell
from riverrun.nn.cells.graph import CellError as CellError
from riverrun.nn.cells.graph import Graph as Graph
from riverrun.nn.cells.graph import Noise as Noise
from riverrun.nn.cells.table import CELLS as CELLS
from riverrun.nn.cells.table import make_cell as make_cell
from riverrun.nn.cells.wrap import RecurrentDropout as RecurrentDropout
from riverrun.nn.cells.wrap import Zoneout as Zoneout
