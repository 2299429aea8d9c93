"""``riverrun doctor``: what is installed, what each part gives, and whether the bundled models run."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec

import msgspec

from riverrun.cli.screen import aligned
from riverrun.version import __version__

# package, the extra that installs it, what it gives
OPTIONAL = (
    ("torch", "train", "training"),
    ("numba", "train", "linear and diagonal cells on a CPU, fast"),
    ("onnx", "export", "export to a folder that needs no torch"),
    ("onnxscript", "export", "export to a folder that needs no torch"),
    ("zstandard", "zst", "reading and writing .zst"),
    ("huggingface_hub", "hub", "sharing models"),
)
NEEDED = ("numpy", "onnxruntime", "msgspec", "safetensors", "tyro", "rich", "array-api-compat")


class Doctor(msgspec.Struct, frozen=True, kw_only=True):
    """Say what is installed and what is missing, and try the bundled models."""

    def run(self) -> None:
        """Print the report; a bundled model that does not run is an error."""
        print(
            aligned([("riverrun", __version__), ("python", platform.python_version()), ("system", platform.platform())])
        )
        print(aligned([("cores", os.cpu_count()), ("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "not set"))]))
        print("\nneeded\n" + aligned((package, _version(package) or "MISSING") for package in NEEDED))
        print("\noptional\n" + aligned(_optional(*entry) for entry in OPTIONAL))
        print("\ndevices\n" + _devices())
        print("\nbundled models")
        try_models()


def try_models() -> None:
    """Load each bundled model and let it answer.

    Raises:
        RiverrunError: of the first model that does not.
    """
    from riverrun import tasks
    from riverrun.tasks.folder import bundled

    names = list(bundled())
    if not names:
        print("none in this installation")
    for name in names:
        (answer,) = tasks.load(name).predict(["Dogs bark ."])
        print(f"{name}: {answer}")


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _optional(package: str, extra: str, gives: str) -> tuple[str, str, str]:
    found = _version(package)
    return package, found or "-", gives if found else f"{gives}: pip install 'riverrun[{extra}]'"


def _devices() -> str:
    if find_spec("torch") is None:
        return "cpu (prediction only; torch is not installed)"
    try:
        import torch
    except (ImportError, OSError) as wrong:
        return f"cpu (prediction only; torch does not start: {wrong})"
    rows = [("cpu", f"{torch.get_num_threads()} threads")]
    rows += [(f"cuda:{k}", torch.cuda.get_device_name(k)) for k in range(torch.cuda.device_count())]
    return aligned(rows)
