"""A tagger in Python: what it is asked, in which encodings, and where it is written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from riverrun.errors import CheckpointError, ConfigError, DataError
from riverrun.tasks import load
from riverrun.tasks.tagger import Tagger

pytestmark = pytest.mark.train  # the models are trained for these tests

SAID = "{}: not UTF-8; read as Latin-1; name it with data.encoding"


@pytest.fixture
def tagger(exported_folder) -> Tagger:
    """One that was exported: it is loaded in a moment."""
    return load(exported_folder)


def test_one_text_is_not_a_list_of_texts(tagger):
    # Each of its letters would be a text, and the answer as long as it has letters.
    with pytest.raises(ConfigError, match=r"predict: expected a list of texts, received one text; write predict\(\["):
        tagger.predict("dr ada runs")
    assert str(tagger.predict(["dr ada"])[0]) == str(tagger.predict([["dr", "ada"]])[0]) == "dr/I-PER ada/I-PER"


# format -> words that are tagged
WRITTEN = {"conll": "ada\tO\n{}\tO\n\n", "text": "ada {}\n", "lines": "ada {}\n"}


@pytest.mark.parametrize("format", WRITTEN)
@pytest.mark.parametrize(
    ("encoding", "word"), [("latin-1", "café"), ("utf-8", "café"), ("koi8-r", "кафе"), ("shift_jis", "カフェ")]
)
def test_a_file_is_read_in_the_encoding_that_was_named(tagger, tmp_path, format, encoding, word):
    (tmp_path / "in").write_bytes(WRITTEN[format].format(word).encode(encoding))
    tagger.predict_file(tmp_path / "in", tmp_path / "out", format=format, encoding=encoding)
    lines = (tmp_path / "out").read_text(encoding="utf-8").split("\n")
    assert [line.split("\t")[0] for line in lines] == ["ada", word, "", ""]
    assert tagger.notes == []


@pytest.mark.parametrize("format", WRITTEN)
def test_what_is_found_out_about_a_file_is_a_note(tagger, tmp_path, format):
    path = tmp_path / "in"
    path.write_bytes(WRITTEN[format].format("café").encode("latin-1"))
    tagger.predict_file(path, tmp_path / "out", format=format)
    answers = (tmp_path / "out").read_text(encoding="utf-8")
    assert "café\t" in answers
    assert tagger.notes == [SAID.format(path)]
    with pytest.raises(DataError, match=r"in:[12]: byte 0xE9 is not valid utf-8, the encoding that was named"):
        tagger.predict_file(path, tmp_path / "out", format=format, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"data\.encoding: unknown encoding 'latin-x'"):
        tagger.predict_file(path, tmp_path / "out", format=format, encoding="latin-x")
    assert (tmp_path / "out").read_text(encoding="utf-8") == answers


@pytest.mark.parametrize("encoding", ["latin-1", "shift_jis", None])
def test_what_a_file_holds_is_seen_in_its_encoding(tagger, tmp_path, encoding):
    word, path = "カフェ" if encoding == "shift_jis" else "café", tmp_path / "a.txt"
    path.write_bytes(f"ada {word}\n".encode(encoding or "latin-1"))
    tagger.predict_file(path, tmp_path / "out", encoding=encoding)
    assert (tmp_path / "out").read_text(encoding="utf-8").split("\n")[1].split("\t")[0] == word
    assert tagger.notes == ([] if encoding else [SAID.format(path)])


def test_what_is_scored_is_read_in_the_encoding_of_the_recipe(tagger, tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes("ada\tI-PER\ncafé\tO\n\n".encode("latin-1"))
    assert tagger.evaluate(path).n == 1
    assert tagger.notes == [SAID.format(path)]
    recipe = tagger.recipe
    tagger.recipe = msgspec.structs.replace(recipe, data=msgspec.structs.replace(recipe.data, encoding="utf-8"))
    with pytest.raises(DataError, match=r"a\.conll:2: byte 0xE9 is not valid utf-8, the encoding that was named"):
        tagger.evaluate(path)
    tagger.recipe = msgspec.structs.replace(recipe, data=msgspec.structs.replace(recipe.data, encoding="latin-1"))
    tagger.notes.clear()
    assert tagger.evaluate(path).n == 1 and tagger.notes == []


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_model_is_not_written_among_other_files(tagger, tmp_path):
    for name in ("README.md", "vocab/mine", "checkpoint"):  # the last as a file: no run
        mine = tmp_path / name.replace("/", "-") / name
        mine.parent.mkdir(parents=True)
        mine.write_bytes(b"mine")
        place = tmp_path / name.replace("/", "-")
        with pytest.raises(ConfigError, match=rf"{place.name}: is not empty\. Give another folder"):
            tagger.save_pretrained(place)
        assert content(place) == {name: b"mine"}
    with pytest.raises(ConfigError, match=r"README\.md: is a file; expected the folder of the new model"):
        tagger.save_pretrained(tmp_path / "README.md" / "README.md")


def test_a_model_is_written_into_a_new_folder_an_empty_one_and_over_a_model(tagger, exported_folder, tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "new" / "model", tmp_path / "empty"):
        tagger.save_pretrained(place)
        assert content(place) == content(exported_folder)
    (place / "mine").write_bytes(b"mine")
    tagger.save_pretrained(place)  # over the one that is there, and even if it is where this one was loaded from
    load(place).save_pretrained(place)
    assert content(place) == {**content(exported_folder), "mine": b"mine"}


def test_a_model_is_written_over_the_run_that_it_came_from(tagger_folder, tmp_path):
    place = tmp_path / "model"
    load(tagger_folder).save_pretrained(place / "checkpoint")  # what a run leaves there while it lasts
    load(tagger_folder).save_pretrained(place, overwrite=True)
    assert list(load(place).tag([["dr", "ada"]])) == [["I-PER", "I-PER"]]
    assert not (place / "checkpoint").exists()  # it was another run's


def test_another_model_or_run_is_replaced_only_where_that_is_asked(tagger, tagger_folder, tmp_path):
    place = tmp_path / "model"
    shutil.copytree(tagger_folder, place)  # a net with its checkpoints; the tagger here is a graph
    (place / "metrics.jsonl").touch()
    before = content(place)
    with pytest.raises(
        ConfigError, match=r"model: holds another model, or a run that is not finished; .*overwrite=True"
    ):
        tagger.save_pretrained(place)
    assert content(place) == before
    tagger.save_pretrained(place, overwrite=True)
    assert "model.onnx" in os.listdir(place) and not {"checkpoint", "metrics.jsonl"} & set(os.listdir(place))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").touch()
    with pytest.raises(ConfigError, match="mine: is not empty"):  # whatever is asked
        tagger.save_pretrained(tmp_path / "mine", overwrite=True)


def test_a_run_is_not_ended_by_saving_its_best_weights_so_far(tagger_folder, tmp_path):
    place = tmp_path / "model"
    shutil.copytree(tagger_folder, place)
    (place / "config.json").unlink()
    (place / "model.safetensors").unlink()
    best = load(place)
    assert best.notes == [f"{place}: the training is not finished; these are the best weights so far"]
    with pytest.raises(ConfigError, match="a run that is not finished"):
        best.save_pretrained(place)


def test_a_folder_that_lost_its_config_is_not_a_training_that_was_cut_off(tagger_folder, exported_folder, tmp_path):
    place = tmp_path / "model"
    shutil.copytree(tagger_folder, place)
    (place / "config.json").unlink()
    assert "config.json is missing, so that model.safetensors cannot be trusted" in load(place).notes[0]
    shutil.rmtree(place / "checkpoint")
    with pytest.raises(CheckpointError, match=r"no config\.json, although model\.safetensors is there"):
        load(place)


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_how_many_threads_there_may_be(exported_folder, threads):
    with pytest.raises(ConfigError, match=f"threads: expected a whole number from 1 to 1024, received {threads}"):
        load(exported_folder, threads=threads)


@pytest.mark.parametrize("item", [None, 3, b"text", ["a", None]])
def test_what_is_no_text_is_not_tagged(tagger, item):
    with pytest.raises(ConfigError, match="predict: item 2: expected a text or a list of words, received"):
        tagger.predict(["ada", item])


def test_scores_on_another_kind_of_tags_are_an_error(tagger, tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("ada\tI-XYZ\ndr\tI-XYZ\n\n")
    said = r"a\.conll: not one of its tags is a tag of the model, .*such as O, .*received I-XYZ\. .*data\.columns"
    with pytest.raises(DataError, match=said):
        tagger.evaluate(path)
    path.write_text("ada\tI-XYZ\ndr\tO\n\n")  # one that the model has
    assert tagger.evaluate(path).n == 1
