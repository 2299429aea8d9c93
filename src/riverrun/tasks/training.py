"""A run: the training loop with its listeners, Ctrl-C, and what is left in the folder when it is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from riverrun.config.train import Train
from riverrun.train.events import Event, Finished, Interrupted

if TYPE_CHECKING:
    from torch import nn

    from riverrun.train.loop import Loader

Listener = Callable[[Event], None]


def run(
    net: nn.Module,
    loader: Loader,
    settings: Train,
    *,
    checkpoints: Path,
    evaluate: Callable[[], Mapping[str, float]] | None,
    resume: bool,
    listeners: Sequence[Listener] = (),
) -> Finished:
    """Train until the end, telling the listeners; afterwards the net has its best weights, on the CPU.

    Raises:
        KeyboardInterrupt: after Ctrl-C, when the step is finished and saved.
    """
    from riverrun.train.checkpoint import Checkpoints
    from riverrun.train.interrupt import interruptible
    from riverrun.train.loop import fit

    last: Event | None = None
    with interruptible() as stop:
        for last in fit(
            net, loader, settings, checkpoints=Checkpoints(checkpoints), evaluate=evaluate, resume=resume, stop=stop
        ):
            for listener in listeners:
                listener(last)
    if isinstance(last, Interrupted):
        raise KeyboardInterrupt
    assert isinstance(last, Finished), last
    net.to("cpu")
    net.eval()
    return last
