"""What a language model's folder holds: the units, and a net, counts, or an exported graph."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from riverrun.config.lm import LmRecipe
from riverrun.decode.step import StepModel
from riverrun.errors import CheckpointError
from riverrun.tasks import folder as folders
from riverrun.tasks.folder import GRAPH, VOCABULARIES, WEIGHTS
from riverrun.tasks.lm_net import build_net
from riverrun.tasks.net_file import net_weights, stored_cell
from riverrun.tasks.task import Held
from riverrun.text.units import AnyUnits, dump_units, load_units

if TYPE_CHECKING:
    from riverrun.classic.context import ContextModel
    from riverrun.nn.models.recurrent_lm import RecurrentLM
    from riverrun.nn.models.window_lm import WindowLM

COUNTS = "classic/arrays.safetensors"
UNITS = f"{VOCABULARIES}/units.json"


@dataclass(eq=False)
class HeldLm(Held):
    """A language model that is trained or loaded.

    Args:
        config: of its folder.
        units: text to ids and back.
        model: what predicts.
        net: where it has one.
        counted: where it counts.
        graph: where it was exported.
    """

    config: folders.Config
    units: AnyUnits
    model: StepModel
    net: RecurrentLM | WindowLM | None = None
    counted: ContextModel | None = None
    graph: Path | None = None
    papers: dict[str, bytes] = field(default_factory=dict)

    @staticmethod
    def of_net(config: folders.Config, units: AnyUnits, net: RecurrentLM | WindowLM) -> HeldLm:
        """Around a net, which is put into evaluation mode."""
        from riverrun.nn.models.stepper import NetStepper

        return HeldLm(config, units, NetStepper(net.eval(), bos=units.bos, eos=units.eos), net=net)

    @staticmethod
    def of_counts(config: folders.Config, units: AnyUnits, counted: ContextModel) -> HeldLm:
        """Around counts."""
        return HeldLm(config, units, counted, counted=counted)

    @staticmethod
    def read(root: Path, recipe: LmRecipe, config: folders.Config, *, unfinished: bool, threads: int | None) -> HeldLm:
        """What lies in a folder whose files were checked."""
        if UNITS not in config.files:
            raise CheckpointError(f"{root / UNITS}: not listed in {folders.CONFIG}; copy the whole folder again")
        units = load_units((root / UNITS).read_bytes(), str(root / UNITS))
        if GRAPH in config.files:
            from riverrun.runtime.stepper import GraphStepper

            model = GraphStepper(root / GRAPH, bos=units.bos, eos=units.eos, threads=threads)
            _fits(root / GRAPH, model, units)
            return HeldLm(config, units, model, graph=root / GRAPH)
        if COUNTS in config.files:
            from riverrun.classic.store import from_bytes

            counted = from_bytes((root / COUNTS).read_bytes(), str(root / COUNTS))
            _fits(root / COUNTS, counted, units)
            return HeldLm.of_counts(config, units, counted)
        weights = net_weights(root, config, unfinished=unfinished)
        net = build_net(recipe, units.size, bos=units.bos, cell=stored_cell(config))
        from riverrun.train.learner import load

        load(net, weights)
        return HeldLm.of_net(config, units, net)

    @property
    def exportable(self) -> bool:
        """Whether there is a net."""
        return self.net is not None

    @property
    def normalised(self) -> bool:
        """Whether the scores are logarithms of probabilities."""
        return self.counted is None or self.counted.normalised

    @property
    def identity(self) -> str:
        """A hash of units and weights."""
        units = dump_units(self.units)
        if self.counted is not None:
            learned = hashlib.sha256(self.content()[COUNTS]).hexdigest()
        elif self.net is not None:
            from riverrun.train.weights import fingerprint

            learned = fingerprint(self.net.state_dict())
        else:
            from riverrun.runtime.stepper import GraphStepper

            assert isinstance(self.model, GraphStepper)
            learned = self.model.info.model
        return hashlib.sha256(units + learned.encode()).hexdigest()

    def content(self) -> dict[str, bytes]:
        """Weights, counts or graph."""
        if self.counted is not None:
            from riverrun.classic.store import to_bytes

            return {COUNTS: to_bytes(self.counted)}
        if self.net is not None:
            from riverrun.train import weights

            return {WEIGHTS: weights.to_bytes(self.net.state_dict())}
        assert self.graph is not None  # what neither counts nor has a net was exported
        return {GRAPH: self.graph.read_bytes()}

    def vocabularies(self) -> dict[str, bytes]:
        """The units."""
        return {UNITS: dump_units(self.units)}


def _fits(path: Path, model: StepModel, units: AnyUnits) -> None:
    """Refuse the vocabulary of another model."""
    if model.size != units.size:
        raise CheckpointError(
            f"{path}: a model of {model.size} symbols beside a vocabulary of {units.size}; one of the two files "
            "belongs to another model. Copy the whole folder again"
        )
