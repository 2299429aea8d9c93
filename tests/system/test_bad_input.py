"""Bad input: each mistake is one message with its file and line, exit code 1, and nothing is lost or left behind."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.train

from riverrun.cli.main import run  # noqa: E402
from riverrun.tasks import folder as folders  # noqa: E402

GOOD = "dr\tI-PER\nada\tI-PER\nruns\tO\n\n" * 12
CONLLU = "1\tdogs\t_\tNOUN\t_\t_\t_\t_\t_\t_\n2\tbark\t_\tVERB\t_\t_\t_\t_\t_\t_\n\n"
MULTIWORD = (
    "# sent_id = 2\n# text = xdogs y\n"
    "1-2\txdogs\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tx\t_\tNOUN\t_\t_\t_\t_\t_\t_\n"
    "2\tdogs\t_\tNOUN\t_\t_\t_\t_\t_\t_\n"
    "2.1\tz\t_\tNEVER\t_\t_\t_\t_\t_\t_\n"
    "3\ty\t_\tINTJ\t_\t_\t_\t_\t_\t_\n\n"
)
VECTORS = "dr 1 2\nada 3 4\nruns 5 6\n"
NER, UPOS = "tagger/ner", "tagger/upos"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with good files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.conll").write_text(GOOD)
    (tmp_path / "good.conllu").write_text(CONLLU * 12)
    (tmp_path / "good.vec").write_text(VECTORS)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *line: object) -> str:
    """What the command says of a mistake: it ends with 1, and prints no result."""
    assert run([str(part) for part in line]) == 1
    out, text = capsys.readouterr()
    assert out == "" and "Traceback" not in text
    return text


# content of bad.* as (name, bytes), recipe, train, dev, settings, what is said
TRAINING = {
    "a column less": (
        ("bad.conllu", CONLLU.encode() * 2 + CONLLU.replace("\t_\n", "\n", 1).encode()),
        (UPOS, "bad.conllu"),
        "DataError: bad.conllu:7: expected 10 tab-separated columns, received 9",
    ),
    "a column less in conll": (
        ("bad.conll", (GOOD + "dr\n").encode()),
        (NER, "bad.conll"),
        "DataError: bad.conll:49: expected 2 tab-separated columns, received 1",
    ),
    "one column": (
        ("bad.conll", b"# nothing\ndr\nada\n\n" * 20),
        (NER, "bad.conll"),
        "DataError: bad.conll:1: the words and their tags are the same column; expected a column of tags",
    ),
    "a column that is not there": (
        ("bad.conll", GOOD.encode()),
        (NER, "bad.conll", "--set", "data.columns.tag=3"),
        "DataError: bad.conll:1: no column 3; it has 2 columns, counted from 0. Name another one (data.columns)",
    ),
    "an unknown scheme": (
        ("bad.conll", b"dr\tB-PER\nada\tL-PER\neve\tU-PER\nruns\tO\n\n" * 20),
        (NER, "bad.conll"),
        "DataError: bad.conll:2: tags of no known scheme: they begin with B, L, U, as 'L-PER' does (bad.conll:2)",
    ),
    "mixed schemes": (
        ("bad.conll", GOOD.encode() + b"eve\tB-PER\nruns\tO\n\n"),
        (NER, "bad.conll"),
        "DataError: bad.conll:49: tags that mix schemes, or break one: they begin with B, I, and are not iob1, because "
        "'B-PER' follows 'O' (bad.conll:49); not iob2, because 'I-PER' follows 'O' (bad.conll:1)",
    ),
    "dev in another scheme": (
        ("bad.conll", b"eve\tB-PER\nruns\tO\n\n"),
        (NER, "good.conll", "bad.conll"),
        "DataError: bad.conll: its spans are in the scheme iob2, those of the training data in iob1",
    ),
    "no spans where there must be": (
        ("bad.conll", b"a\tX\nb\tY\n\n" * 20),
        (NER, "bad.conll"),
        "ConfigError: model.head.scheme: 'bioes' is for tags of spans such as B-PER and I-PER",
    ),
    "an empty file": (
        ("bad.conllu", b""),
        (UPOS, "bad.conllu"),
        "DataError: bad.conllu: the file is empty; expected text",
    ),
    "a file of blank lines": (("bad.conll", b"\n\n\n"), (NER, "bad.conll"), "DataError: bad.conll: the file is empty"),
    "a missing file": (
        None,
        (UPOS, "god.conllu"),
        "DataError: god.conllu: no such file; did you mean 'good.conllu'?",
    ),
    "a missing dev file": (None, (UPOS, "good.conllu", "there/dev"), "DataError: there/dev: no such file"),
    "a folder": (None, (UPOS, "."), "DataError: .: this is a folder; expected a file"),
    "a binary file": (
        ("bad.conllu", CONLLU.encode() + b"\x7fELF\x00\x01\xff"),
        (UPOS, "bad.conllu"),
        "DataError: bad.conllu:4: a binary file; expected text",
    ),
    "a damaged character": (
        ("bad.conllu", "1\tété\t_\tNOUN\t_\t_\t_\t_\t_\t_\n\n".encode() * 20 + b"# \xff\n" + CONLLU.encode()),
        (UPOS, "bad.conllu"),
        "DataError: bad.conllu:41: byte 0xFF is not valid UTF-8, although the rest of the file is",
    ),
    "another format": (
        ("bad.jsonl", b'{"a": 1}\n'),
        (UPOS, "bad.jsonl"),
        "ConfigError: bad.jsonl: a tagger reads the formats conllu, conll, received jsonl",
    ),
    "a tag of dev that train has not": (
        ("bad.conllu", (CONLLU + MULTIWORD).encode()),
        (UPOS, "good.conllu", "bad.conllu"),
        "DataError: bad.conllu:10: the tag 'INTJ' is never seen in the training data (1 such tag: INTJ)",
    ),
    "a type of dev that train has not": (
        ("bad.conll", GOOD.encode() + b"# a comment\nbern\tI-LOC\n\n"),
        (NER, "good.conll", "bad.conll"),
        "DataError: bad.conll:50: the tag 'I-LOC' is never seen in the training data",
    ),
    "a test file, which is read when the training is over": (
        ("bad.conll", (GOOD + "dr\n").encode()),
        (NER, "good.conll", "--set", "data.test=bad.conll"),
        "DataError: bad.conll:49: expected 2 tab-separated columns, received 1",
    ),
    "a test file in another scheme": (
        ("bad.conll", b"eve\tS-PER\n\n"),
        (NER, "good.conll", "--set", "data.test=bad.conll"),
        "DataError: bad.conll: its spans are in the scheme bioes, those of the training data in iob1",
    ),
    "a tag of test that train has not": (
        ("bad.conllu", (CONLLU + MULTIWORD).encode()),
        (UPOS, "good.conllu", "--set", "data.test=bad.conllu"),
        "DataError: bad.conllu:10: the tag 'INTJ' is never seen in the training data (1 such tag: INTJ), so no model "
        "can predict it. Is it the same column of the same annotation (data.columns)? Then correct the tag, add "
        "training sentences with it, or leave its sentence out. `riverrun evaluate` reads such files, and counts such "
        "tags as not found",
    ),
    "vectors of another width": (
        None,
        (NER, "good.conll", "--set", "model.words.vectors=good.vec"),
        "DataError: good.vec:1: expected vectors of 100 numbers, received 2; set the size to 2",
    ),
    "vectors of other words": (
        ("bad.vec", b"chien 1 2\nruns 1 2\n"),
        (NER, "good.conll", "--set", "model.words={vectors='bad.vec', size=2, coverage=0.9}"),
        "DataError: bad.vec: has a vector for 33.3% of the running words of the training data, expected at least 90.0%",
    ),
    "vectors that are not there": (
        None,
        (NER, "good.conll", "--set", "model.words.vectors=god.vec"),
        "DataError: god.vec: no such file; did you mean 'good.vec'?",
    ),
    "a cell that is not known": (
        None,
        (NER, "nothere.conll", "--set", "model.encoder.cell=lsmt"),
        "ConfigError: model.encoder.cell: no cell 'lsmt'; did you mean 'lstm'?",
    ),
    "an option of a cell that is not known": (
        None,
        (NER, "nothere.conll", "--set", "model.encoder.cell={kind='mogrifier', round=3}"),
        "ConfigError: model.encoder.cell 'mogrifier' has no option 'round'; did you mean 'rounds'?",
    ),
    "an engine that is not known": (
        None,
        (NER, "nothere.conll", "--set", "model.encoder.engine=scna"),
        "ConfigError: model.encoder.engine: no engine 'scna'; did you mean 'scan'?",
    ),
    "a cell of one's own, not allowed": (
        None,
        (NER, "nothere.conll", "--set", "model.encoder.cell=os.path:join"),
        "allow-import",
    ),
    "a device that is not here": (
        None,
        (NER, "good.conll", "--set", "train.device=cuda:77", "--set", "model.head.scheme=none"),
        "ConfigError: train.device: ",
    ),
    "a metric that is not known": (
        None,
        (NER, "nothere.conll", "--set", "train.metric=acuracy"),
        "ConfigError: train.metric: a tagger has no score 'acuracy'; did you mean 'accuracy'? Expected one of "
        "accuracy, f1, precision, recall",
    ),
    "a metric of spans where there are none": (
        None,
        (UPOS, "good.conllu", "--set", "train.metric=f1"),
        "ConfigError: train.metric: 'f1' is a score of spans; column 'upos' of good.conllu has tags that are no spans. "
        "Choose another column (data.columns), or the metric accuracy",
    ),
    "a way to count spans where there are none": (
        None,
        (UPOS, "good.conllu", "--set", "scoring=strict"),
        "ConfigError: scoring: 'strict' is a way to count spans; these tags are no spans, and are scored by accuracy",
    ),
}


@pytest.mark.parametrize("name", TRAINING)
def test_a_training_that_cannot_be_says_why_and_leaves_nothing(place, capsys, name):
    file, line, message = TRAINING[name]
    if file is not None:
        (place / file[0]).write_bytes(file[1])
    before = sorted(os.listdir(place))
    text = said(capsys, "train", *line, "--out", "new/model", "--set", "train.threads=1")
    assert message in text, text
    assert sorted(os.listdir(place)) == before  # and so the next try finds the folder as this one did


def test_several_mistakes_in_a_recipe_are_said_at_once(place, capsys):
    (place / "mine.toml").write_text(
        'task = "tagger"\n[model.encoder]\nnum_layers = 2\nhiden = 3\n[train]\nepochs = "many"\n'
    )
    text = said(capsys, "train", "mine.toml", "good.conll", "--out", "new")
    assert "model.encoder.num_layers: unknown key; did you mean 'layers'?" in text
    assert "model.encoder.hiden: unknown key; did you mean 'hidden'?" in text
    assert "train.epochs" in text and "(3 errors in recipe mine.toml)" in text
    assert not (place / "new").exists()


def test_a_tag_with_a_vanished_vocabulary_file_and_other_damage_to_a_folder(place, capsys, exported_folder):
    config = json.loads((exported_folder / "config.json").read_bytes())

    def damaged(name: str, change) -> str:
        shutil.rmtree("model", ignore_errors=True)
        shutil.copytree(exported_folder, "model")
        path = Path("model") / name
        content = change(path.read_bytes())
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        return said(capsys, "predict", "model", "good.conll")

    def with_config(**changes: object):
        return lambda _: json.dumps({**config, **changes}).encode()

    changed = "SHA-256 is not the one in config.json; the file is truncated or was changed. Copy it again"
    assert f"model/model.onnx: its {changed}" in damaged("model.onnx", lambda data: data[:-100])
    assert f"model/vocab/tags.json: its {changed}" in damaged(
        "vocab/tags.json", lambda data: data.replace(b"PER", b"PEX")
    )
    assert "model/vocab/words.json: missing; config.json lists it" in damaged("vocab/words.json", lambda _: None)
    assert "model: no config.json, although model.onnx is there; the folder is not complete" in damaged(
        "config.json", lambda _: None
    )
    assert "model/config.json: not valid JSON" in damaged("config.json", lambda data: data[:50])
    assert "model/config.json: not valid JSON" in damaged("config.json", lambda data: b"[]")
    newer = damaged("config.json", with_config(format=2, riverrun="9.0"))
    assert "model/config.json: format 2, written by riverrun 9.0; this is riverrun" in newer and "Install" in newer
    assert "model/config.json: Expected `str`" in damaged("config.json", with_config(riverrun=3))
    other = damaged("config.json", with_config(task="poet"))
    assert "is a model for the task 'poet', which this riverrun does not know (known: tagger, lm)" in other
    out = damaged("config.json", with_config(files={"../good.conll": "0"}))
    assert "the file name '../good.conll' leads out of the folder" in out
    recipe = {**config["recipe"], "model": {**config["recipe"]["model"], "wrods": 1}}
    assert "model.wrods: unknown key; did you mean 'words'?" in damaged("config.json", with_config(recipe=recipe))


@pytest.mark.parametrize(
    "content", [b'{"kind":"tags"', b'{"kind":"tags"}', b'{"kind":"tags","vocab":{"kind":"vocab","symbols":["O","O"]}}']
)
def test_a_vocabulary_that_was_damaged_with_its_hash(place, capsys, exported_folder, content):
    shutil.copytree(exported_folder, "model")
    config = folders.read(Path("model"))
    del config.files["vocab/tags.json"]
    files = {name: Path("model", name).read_bytes() for name in config.files}
    folders.write(Path("model"), config, {**files, "vocab/tags.json": content})
    text = said(capsys, "predict", "model", "good.conll")
    assert "CheckpointError: model/vocab/tags.json: " in text and "The file was changed; copy the model again" in text


def test_weights_of_another_net(place, capsys, tagger_folder):
    shutil.copytree(tagger_folder, "model")
    config = json.loads(Path("model/config.json").read_bytes())
    config["recipe"]["model"]["encoder"]["hidden"] = 9
    Path("model/config.json").write_text(json.dumps(config))
    text = said(capsys, "evaluate", "model", "good.conll")
    assert "CheckpointError: the checkpoint belongs to another model: for 'encoder" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["predict", "nothere"], "CheckpointError: nothere: no such folder, nor a bundled model"),
        (["predict", "good.conll"], "CheckpointError: good.conll: a model is a folder, this is a file"),
        (["predict", "MODEL", "nothere.txt"], "DataError: nothere.txt: no such file"),
        (
            ["predict", "MODEL", "good.conll", "--format", "tsv"],
            "ConfigError: good.conll: a tagger predicts the formats",
        ),
        (
            ["predict", "MODEL", "good.conll", "--out", "no/where"],
            "DataError: no/where: cannot be written: there is no",
        ),
        (["predict", "MODEL", "good.conll", "--columns", "form=7"], "DataError: good.conll:1: no column 7"),
        (["evaluate", "MODEL", "nothere.conll"], "DataError: nothere.conll: no such file"),
        (["evaluate", "MODEL", "empty.conll"], "DataError: empty.conll: the file is empty"),
        (["evaluate", "MODEL", "good.conllu", "--columns", "tag='upso'"], "DataError: good.conllu:1: no column 'upso'"),
        (["evaluate", "MODEL", "bioes.conll"], "DataError: bioes.conll:3: tag 1, 'S-PER', is none of the scheme iob1"),
        (["export", "MODEL", "new"], "ConfigError: this model is exported already"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_model_cannot_do(place, capsys, exported_folder, line, message):
    (place / "empty.conll").touch()
    (place / "bioes.conll").write_text("runs\tO\n\neve\tS-PER\n\n")
    before = sorted(os.listdir(place))
    assert message in said(capsys, *(str(exported_folder) if part == "MODEL" else part for part in line))
    assert sorted(os.listdir(place)) == before
