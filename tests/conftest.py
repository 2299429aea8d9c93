"""What every test stands on: poisoned memory, fixed seeds, and the data sets that are read where they are present."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy as np
import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: beside other work, waiting threads must not spin
HAS_TORCH = importlib.util.find_spec("torch") is not None
ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("RIVERRUN_DATA", ROOT.parent / "shared" / "data"))

# How long an example takes is no law: other work on the machine counts too.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

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


TINY = (
    "model.words={size=8, dropout=0.2}",
    "model.chars={kind='cnn', size=6, filters=8, width=3}",
    "model.encoder={cell='lstm', hidden=12, dropout=0.1}",
    "model.head={kind='crf', scheme='bioes'}",
    "train={optimizer='adam', rate=0.03, epochs=4, batch=16, threads=1, checkpoint_seconds=1e9}",
)
"""Settings of a tagger that is trained in a second."""


@pytest.fixture(scope="session")
def names_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.conll and dev.conll: names of people and places, in IOB1."""
    from riverrun.data.synthetic import names
    from riverrun.text.formats import write_conll

    folder = tmp_path_factory.mktemp("names")
    write_conll(folder / "train.conll", names(240, seed=1))
    write_conll(folder / "dev.conll", names(60, seed=2))
    return folder


@pytest.fixture(scope="session")
def tiny_settings() -> tuple[str, ...]:
    """Settings, on top of any tagger recipe, with which training takes a second."""
    return TINY


@pytest.fixture(scope="session")
def tagger_folder(names_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained tagger of names; nobody changes it."""
    pytest.importorskip("torch")
    from riverrun.tasks.tagger import Tagger

    folder = tmp_path_factory.mktemp("tagger") / "model"
    Tagger("tagger/ner", settings=TINY).fit(names_data / "train.conll", names_data / "dev.conll", out=folder)
    return folder


@pytest.fixture(scope="session")
def exported_folder(tagger_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tagger, exported; nobody changes it."""
    pytest.importorskip("onnx_ir")
    from riverrun.tasks.tagger import Tagger

    folder = tmp_path_factory.mktemp("exported") / "model"
    Tagger.load(tagger_folder).export(folder)
    return folder
