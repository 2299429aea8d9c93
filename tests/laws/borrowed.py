"""Another file of tests, for its laws: a test of the tests asks them again with a bug planted."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def borrow(path: str) -> ModuleType:
    """The module of this file below ``tests``: a copy of its own, in which a patch reaches nobody else."""
    file = Path(__file__).parent.parent / path
    spec = importlib.util.spec_from_file_location(f"laws_of_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up there
        spec.loader.exec_module(module)
    return module
