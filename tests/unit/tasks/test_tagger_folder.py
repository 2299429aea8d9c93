"""A tagger's folder: what ``config.json`` lists is read, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from riverrun.data.sentences import SentenceFields
from riverrun.errors import CheckpointError
from riverrun.tasks import folder as folders
from riverrun.tasks import load
from riverrun.tasks.tagger_folder import read_vocabularies, vocabularies
from riverrun.text.fields import CharField, TagField, WordField
from riverrun.text.tokenize import Tokenizer
from riverrun.text.vocab import Vocab

CONFIG = folders.Config(format=folders.FORMAT, task="tagger", riverrun="0", recipe={})
WORDS = WordField(Vocab(["<unk>", "a"], "<unk>"))
FIELDS = {
    "words and characters": SentenceFields(WORDS, CharField.count({"ab": 1}), TagField(Vocab(["X"]))),
    "words": SentenceFields(WORDS, None, TagField(Vocab(["X"]))),
    "characters": SentenceFields(None, CharField.count({"ab": 1}), TagField(Vocab(["X"]), "iob2", "iob2")),
}


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_what_is_written_is_read(tmp_path, fields):
    folders.write(tmp_path, CONFIG, vocabularies(fields, Tokenizer()))
    assert read_vocabularies(tmp_path, folders.read(tmp_path)) == (fields, Tokenizer())


@pytest.mark.parametrize("content", [b"{", vocabularies(FIELDS["characters"], Tokenizer())["vocab/chars.json"]])
def test_a_file_that_is_not_listed_is_not_read(tmp_path, content):
    # It may be another model's, copied over: nobody has compared it with a checksum.
    folders.write(tmp_path, CONFIG, vocabularies(FIELDS["words"], Tokenizer()))
    (tmp_path / "vocab" / "chars.json").write_bytes(content)
    assert read_vocabularies(tmp_path, folders.read(tmp_path))[0] == FIELDS["words"]


@pytest.mark.parametrize("name", ["tags", "tokenizer"])
def test_a_vocabulary_that_is_missing_is_an_error(tmp_path, name):
    files = vocabularies(FIELDS["words"], Tokenizer())
    (tmp_path / "vocab").mkdir()
    (tmp_path / "vocab" / f"{name}.json").write_bytes(files.pop(f"vocab/{name}.json"))  # there, but not listed
    folders.write(tmp_path, CONFIG, files)
    with pytest.raises(CheckpointError, match=rf"vocab/{name}\.json: not listed in config\.json; copy the whole"):
        read_vocabularies(tmp_path, folders.read(tmp_path))


def without(model: Path, copy: Path, name: str) -> Path:
    """A copy of a model whose config does not list one of its files."""
    shutil.copytree(model, copy)
    config = json.loads((copy / "config.json").read_bytes())
    del config["files"][name]
    (copy / "config.json").write_bytes(msgspec.json.encode(config))
    return copy


@pytest.mark.train
def test_weights_that_are_not_listed_are_not_read(tagger_folder, tmp_path):
    model = without(tagger_folder, tmp_path / "model", "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors: not listed in config\.json; copy the whole folder"):
        load(model)
    (model / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: not listed in config\.json; copy the whole folder"):
        load(model)


@pytest.mark.train
@pytest.mark.parametrize("names", [("words",), ("chars",), ("words", "chars")], ids=" ".join)
@pytest.mark.parametrize("kind", ["tagger_folder", "exported_folder"])
def test_a_vocabulary_that_the_model_reads_is_missing(request, tmp_path, kind, names):
    model = request.getfixturevalue(kind)
    for name in names:
        model = without(model, tmp_path / name, f"vocab/{name}.json")
    with pytest.raises(CheckpointError, match=rf"vocab/{names[0]}\.json: not listed in config\.json; copy the whole"):
        load(model)


@pytest.mark.train
def test_a_graph_that_is_not_listed_is_not_read(exported_folder, tmp_path):
    with pytest.raises(CheckpointError, match=r"model\.safetensors: not listed in config\.json; copy the whole folder"):
        load(without(exported_folder, tmp_path / "model", "model.onnx"))
