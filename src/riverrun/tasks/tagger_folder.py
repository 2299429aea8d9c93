"""What a tagger's folder holds besides its config: the vocabularies, and the net or the exported graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from riverrun.config.tagger import TaggerRecipe
from riverrun.data.sentences import SentenceFields
from riverrun.errors import CheckpointError, ConfigError
from riverrun.tasks import folder as folders
from riverrun.tasks.folder import VOCABULARIES
from riverrun.tasks.net_file import net_weights, stored_cell
from riverrun.tasks.tagger_net import build_net
from riverrun.text.fields import CharField, TagField, WordField
from riverrun.text.tokenize import Tokenizer

if TYPE_CHECKING:
    from riverrun.nn.models.tagger import Tagger as Net

_STORED: dict[str, type] = {"words": WordField, "chars": CharField, "tags": TagField, "tokenizer": Tokenizer}


def vocabularies(fields: SentenceFields, tokenizer: Tokenizer) -> dict[str, bytes]:
    """Name in the folder -> content."""
    values = {"words": fields.words, "chars": fields.chars, "tags": fields.tags, "tokenizer": tokenizer}
    return {
        f"{VOCABULARIES}/{name}.json": msgspec.json.encode(value) for name, value in values.items() if value is not None
    }


def read_vocabularies(root: Path, config: folders.Config) -> tuple[SentenceFields, Tokenizer]:
    """The inverse of ``vocabularies``; only what ``config.json`` lists was checked, and is read."""
    found: dict[str, Any] = {}
    for name, type_ in _STORED.items():
        path = root / VOCABULARIES / f"{name}.json"
        if f"{VOCABULARIES}/{name}.json" in config.files:
            try:
                found[name] = msgspec.json.decode(path.read_bytes(), type=type_)
            except (msgspec.MsgspecError, ConfigError) as error:
                raise CheckpointError(f"{path}: {error}. The file was changed; copy the model again") from None
    for name in ("tags", "tokenizer"):
        if name not in found:
            raise not_listed(root, name)
    return SentenceFields(found.get("words"), found.get("chars"), found["tags"]), found["tokenizer"]


def not_listed(root: Path, name: str) -> CheckpointError:
    """The error about a vocabulary that ``config.json`` does not name."""
    return CheckpointError(
        f"{root / VOCABULARIES / name}.json: not listed in {folders.CONFIG}; copy the whole folder again"
    )


def read_net(
    root: Path, recipe: TaggerRecipe, config: folders.Config, fields: SentenceFields, *, unfinished: bool
) -> Net:
    """The net of a folder, in evaluation mode; of one whose training is not finished, with the best weights so far."""
    weights = net_weights(root, config, unfinished=unfinished)
    net = build_net(recipe.model, fields, cell=stored_cell(config))
    from riverrun.train.learner import load

    load(net, weights)
    return net.eval()
