"""Named tensors as bytes and back: safetensors without time or path, so that equal weights are equal bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from riverrun.errors import CheckpointError
from riverrun.text.durable import sync_folder, write_durably


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a file that appears complete or not at all.

    A tensor with several names, such as a tied embedding, is stored once and has all its names when it is read.
    """
    try:
        write_durably(path, to_bytes(tensors))
        sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"{path}: could not be written: {error.strerror}") from error


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of ``save_weights``, on the CPU."""
    try:
        return from_bytes(path.read_bytes(), path)
    except OSError as error:
        raise CheckpointError(f"{path}: could not be read: {error.strerror}") from error


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The file as bytes, the same for the same names and values in any order.

    >>> a, b = torch.zeros(2), torch.ones(3)
    >>> to_bytes({"a": a, "b": b}) == to_bytes({"b": b.clone(), "a": a.clone()})
    True
    """
    stored: dict[str, Tensor] = {}
    first_name: dict[tuple[object, ...], str] = {}
    tied: dict[str, str] = {}
    storages: set[int] = set()
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and place in first_name:
            tied[name] = first_name[place]
            continue
        first_name[place] = name
        storage = tensor.untyped_storage()
        # safetensors refuses a tensor that is a part of its memory, and two that share it.
        alone = storage.nbytes() == tensor.numel() * tensor.element_size() and storage.data_ptr() not in storages
        stored[name] = tensor.contiguous() if alone else tensor.clone(memory_format=torch.contiguous_format)
        storages.add(storage.data_ptr())
    # One key only: the order of several is not fixed.
    return save(stored, metadata={"tied": json.dumps(tied, sort_keys=True)} if tied else None)


def from_bytes(data: bytes, path: Path) -> dict[str, Tensor]:
    """The inverse of ``to_bytes``; the path is named in errors."""
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        tied = msgspec.json.decode(header.get("__metadata__", {}).get("tied", "{}"), type=dict[str, str])
        return {**tensors, **{name: tensors[source] for name, source in tied.items()}}
    except (SafetensorError, msgspec.MsgspecError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{path}: expected a complete safetensors file, received {len(data)} bytes: {error}"
        ) from error


def fingerprint(weights: Mapping[str, Tensor]) -> str:
    """The SHA-256 of the weights by name: equal where the model is, whatever the file is.

    >>> fingerprint({"w": torch.zeros(1)}) == fingerprint({"w": torch.zeros(1)})
    True
    """
    digest = hashlib.sha256()
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
