"""The rooms: what may import what, what must do without torch, and that each says what it is for."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import riverrun

ROOT = Path(riverrun.__file__).parent
PROJECT = ROOT.parent.parent
MODULES = sorted(
    module.name for module in pkgutil.walk_packages([str(ROOT)], "riverrun.") if module.name != "riverrun.__main__"
)
# Rooms that are used where torch is not installed; train.events is what their listeners hear.
WITHOUT_TORCH = (
    *("version", "errors", "config", "text", "data", "metrics", "decode", "classic", "runtime", "tasks", "cli"),
    *("train.events", "train.interrupt"),
)

IMPORT_ALL = """
import sys
class Torchless:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numba", "onnx", "onnxscript", "onnx_ir"):
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Torchless())
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
print(len(sys.argv) - 1)
"""


def test_every_module_of_the_rooms_without_torch_is_imported_without_it() -> None:
    names = [name for name in MODULES if name.removeprefix("riverrun.").startswith(WITHOUT_TORCH)]
    rooms = {name.split(".")[1] for name in names}
    assert {"config", "text", "data", "metrics", "decode", "runtime", "tasks", "cli"} <= rooms and len(names) > 70
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL, *names], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{len(names)}\n"), done.stderr


def test_the_check_itself_finds_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, "riverrun.nn.models.tagger"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "No module named 'torch'" in done.stderr


def test_rooms_import_one_way() -> None:
    if not (PROJECT / "pyproject.toml").is_file():
        pytest.skip("the contracts are in pyproject.toml of the source tree")
    pytest.importorskip("importlinter")
    program = "import sys; from importlinter.cli import lint_imports_command as main; main(['--no-cache'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kept, 0 broken" in done.stdout


@pytest.mark.parametrize("name", ["riverrun", "riverrun.__main__", *MODULES])
def test_a_module_says_what_it_is_for(name: str) -> None:
    path = ROOT.joinpath(*name.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert text is not None and not text.startswith("TODO")
    assert text.split("\n\n")[0].endswith((".", ":"))
