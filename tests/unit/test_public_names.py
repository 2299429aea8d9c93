"""``riverrun.<name>``: each is there, and is looked up when it is first used."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import riverrun


@pytest.mark.parametrize("name", riverrun.__all__)
def test_each_public_name_is_that_of_its_module(name: str) -> None:
    module = riverrun._PUBLIC[name]
    if module.startswith("riverrun.nn.layers"):
        pytest.importorskip("torch")
    assert getattr(riverrun, name) is getattr(import_module(module), name)
    assert name in dir(riverrun)


def test_what_is_looked_up_is_what_is_declared() -> None:
    tree = ast.parse(Path(riverrun.__file__).read_text(encoding="utf-8"))
    declared = {
        alias.name: node.module
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert declared == riverrun._PUBLIC
    assert sorted(riverrun._PUBLIC) == riverrun.__all__


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'riverrun' has no attribute 'nonsense'"):
        _ = riverrun.nonsense  # type: ignore[attr-defined]


def test_without_torch_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.delitem(vars(riverrun), "Recurrent", raising=False)  # found once, it is not looked up again
    monkeypatch.setattr(riverrun, "import_module", without)
    with pytest.raises(
        riverrun.ConfigError, match=r"riverrun\.Recurrent needs the package 'torch', .*riverrun\[train\]"
    ):
        _ = riverrun.Recurrent
