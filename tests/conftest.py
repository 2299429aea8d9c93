"""What every test stands on: poisoned memory, fixed seeds, and the data sets that are read where they are present."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("RIVERRUN_DATA", ROOT.parent / "shared" / "data"))

# Without torch, the tests of the rooms that need it are not collected at all.
collect_ignore_glob = [] if HAS_TORCH else ["train/*"]


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that starts the same in every test."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the data sets; a test that asks for it is skipped where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"the data sets are not here ({DATA}); set RIVERRUN_DATA to their folder")
    return DATA


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch.empty gives NaN, so that a result that was never computed cannot look right; torch's seed is fixed."""
    if not HAS_TORCH:
        yield
        return
    import torch

    torch.manual_seed(0)
    real = {name: getattr(torch, name) for name in ("empty", "empty_like")}

    def poison(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    def empty(*args: object, **keywords: object) -> torch.Tensor:
        return poison(real["empty"](*args, **keywords))

    def empty_like(*args: object, **keywords: object) -> torch.Tensor:
        return poison(real["empty_like"](*args, **keywords))

    new_empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch, "empty_like", empty_like)
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, *a, **k: poison(new_empty(self, *a, **k)))
    yield
