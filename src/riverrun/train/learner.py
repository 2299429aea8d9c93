"""A model and all the tensors that training adds to it: how they are updated, evaluated, kept and restored."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from riverrun.config.train import Train
from riverrun.data.batch import Batch
from riverrun.decode.state import State
from riverrun.errors import CheckpointError, ConfigError
from riverrun.nn.models.loss import Loss
from riverrun.nn.models.scorer import to_tensor
from riverrun.train.average import Average
from riverrun.train.optim import numbers, optimizer, scale_gradients, step


@dataclass(frozen=True)
class Update:
    """What an update saw.

    Args:
        loss: divided as ``reduce`` says.
        parts: its terms, likewise.
        norm: of the gradient of this loss, before it was cut.
        tokens: in its batches.
    """

    loss: float
    parts: dict[str, float]
    norm: float
    tokens: int

    @property
    def finite(self) -> bool:
        """Whether loss and gradient are numbers; the weights were changed only then."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class Learner:
    """A model in training.

    A model that says ``carries = True`` remembers the batches before: its ``loss(batch, state)`` gives a ``Loss`` and
    the state after the batch, which the next one is given, without gradients. The first one is given None; the model
    begins anew the rows that a batch calls ``fresh``. An update that is left out leaves the state as it was, too.

    Args:
        model: an ``nn.Module`` whose ``loss(batch)`` is a ``Loss``; moved to the device.
        settings: of the training.
        device: where it runs.
    """

    def __init__(self, model: nn.Module, settings: Train, device: torch.device) -> None:
        self.model = model.to(device).train()
        self.settings = settings
        self.device = device
        self.trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        if not self.trained:
            raise ConfigError("the model has no parameters to train; expected at least one that is not frozen")
        self.optimizer = optimizer(self.trained.values(), settings)
        self.carries = bool(getattr(model, "carries", False))
        self.carried: State | None = None
        self.average: Average | None = None
        if settings.ema is not None:
            self.average = Average(self.trained, decay=settings.ema)

    def update(self, batches: Sequence[Batch], *, rate: float) -> Update:
        """One step of the optimiser on the sum of the losses of some batches, unless that is not finite.

        The sums are divided after all were added: cutting a batch into several changes nothing.
        """
        self.optimizer.zero_grad(set_to_none=True)
        before = self.carried
        tokens = sequences = 0
        total: Tensor | float = 0.0
        parts: dict[str, Tensor | float] = {}
        for batch in batches:
            loss = self._loss(batch.map(lambda array: to_tensor(array, self.device)))
            loss.sum.backward()  # type: ignore[no-untyped-call]
            tokens += int(loss.tokens)
            sequences += int(loss.sequences)
            total = total + loss.sum.detach().double()
            for name, part in loss.parts.items():
                parts[name] = parts.get(name, 0.0) + part.detach().double()

        divisor = {"token-mean": max(1, tokens), "sequence-mean": max(1, sequences), "sum": 1}[self.settings.reduce]
        gradients = []
        for weight in self.trained.values():
            if weight.grad is not None:
                weight.grad = weight.grad.coalesce() if weight.grad.is_sparse else weight.grad
                gradients.append(numbers(weight.grad))
        update = Update(
            norm=scale_gradients(gradients, divisor=divisor, limit=self.settings.clip),
            loss=float(total) / divisor,
            parts={name: float(part) / divisor for name, part in parts.items()},
            tokens=tokens,
        )
        if update.finite:
            step(self.optimizer, rate=rate)
            if self.average is not None:
                self.average.update()
        else:
            self.carried = before
        return update

    def _loss(self, batch: Batch) -> Loss:
        with self._autocast():
            if not self.carries:
                return self.model.loss(batch)  # type: ignore[no-any-return,operator]
            loss, state = self.model.loss(batch, self.carried)  # type: ignore[operator]
        self.carried = state.map(torch.detach)
        return loss  # type: ignore[no-any-return]

    def begin_averaging(self) -> None:
        """From the next update on, keep the plain mean of the weights."""
        self.average = Average(self.trained, decay=1.0)

    def evaluate(self, evaluate: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
        """Score the weights that would be kept, without dropout and gradients."""
        self.model.eval()
        try:
            with self._averaged(), torch.no_grad():
                return evaluate()
        finally:
            self.model.train()

    def weights(self) -> dict[str, Tensor]:
        """The state dict with the weights that would be kept: the averaged ones, where there is an average."""
        with self._averaged():
            return dict(self.model.state_dict())

    def state(self) -> dict[str, Tensor]:
        """Everything else on which the next update depends."""
        state: dict[str, Tensor] = {"rng.cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        for name, weight in self.trained.items():
            for key, value in self.optimizer.state.get(weight, {}).items():
                if isinstance(value, Tensor):
                    state[f"optimizer.{key}.{name}"] = value
        if self.average is not None:
            state["average.count"] = torch.tensor(self.average.count)
            state |= {f"weights.{name}": weight.detach() for name, weight in self.trained.items()}
        if self.carried is not None:
            state |= {f"carried.{name}": value for name, value in self.carried.moving.items()}
        return state

    def restore(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
        """Become the learner that gave these ``weights`` and this ``state``."""
        load(self.model, weights)
        self.average = None
        if "average.count" in state:
            self.average = Average(self.trained, decay=1.0 if self.settings.ema is None else self.settings.ema)
            self.average.count = int(state["average.count"])
            with torch.no_grad():
                for name, weight in self.trained.items():
                    weight.copy_(state[f"weights.{name}"])
        self._restore_optimizer(state)
        carried = {
            name.removeprefix("carried."): v.to(self.device) for name, v in state.items() if name.startswith("carried.")
        }
        self.carried = State(moving=carried) if carried else None
        torch.set_rng_state(state["rng.cpu"])
        if "rng.cuda" in state and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["rng.cuda"], self.device)

    def _restore_optimizer(self, state: Mapping[str, Tensor]) -> None:
        groups = self.optimizer.state_dict()["param_groups"]
        in_order = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        number = {weight: k for k, weight in enumerate(in_order)}
        values: dict[int, dict[str, Tensor]] = {}
        for full_name, value in state.items():
            if full_name.startswith("optimizer."):
                _, key, name = full_name.split(".", 2)
                values.setdefault(number[self.trained[name]], {})[key] = value
        self.optimizer.load_state_dict({"state": values, "param_groups": groups})

    def _averaged(self) -> AbstractContextManager[None]:
        return nullcontext() if self.average is None else self.average.applied()

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.settings.precision == "bfloat16")


def load(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a model these weights, which must have its names and shapes."""
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    received = {name: tuple(value.shape) for name, value in weights.items()}
    if expected != received:
        name = min(name for name in {*expected, *received} if expected.get(name) != received.get(name))
        raise CheckpointError(
            f"the checkpoint belongs to another model: for '{name}' expected {expected.get(name, 'nothing')}, "
            f"received {received.get(name, 'nothing')}. Train with the recipe it was made with, or into another folder"
        )
    model.load_state_dict(weights)


def choose_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is one, else the CPU.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"train.device: expected a device that this machine has, received '{name}'; torch {torch.__version__} sees "
            f"{torch.cuda.device_count()} CUDA devices. Choose 'cpu', or 'auto' for CUDA where there is one"
        )
    return torch.device("cuda", torch.cuda.current_device()) if name == "cuda" else device
