"""What a tagger promises: neighbours do not matter, order is kept, a folder is the model, a scheme is never broken."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.train

from riverrun.config.recipe import load_recipe  # noqa: E402
from riverrun.data.batch import Batch  # noqa: E402
from riverrun.data.sentences import SentenceEncoder  # noqa: E402
from riverrun.data.synthetic import names  # noqa: E402
from riverrun.decode.scorer import Chain  # noqa: E402
from riverrun.errors import ConfigError  # noqa: E402
from riverrun.tasks import labeller, load, tagger_stream  # noqa: E402
from riverrun.tasks.labeller import Labeller  # noqa: E402
from riverrun.tasks.tagger import Tagger  # noqa: E402
from riverrun.tasks.tagger_net import build_net  # noqa: E402
from riverrun.text.tags import convert, recognise, spans  # noqa: E402

SENTENCES = [s.forms for s in names(70, seed=9)] + [[], ["?"], ["dr"] * 60, ["unheard", "Of", "été😀" * 20], []]


@pytest.fixture(scope="module", params=["net", "graph"])
def tagger(request: pytest.FixtureRequest) -> Tagger:
    """The tagger as a net, and as an exported graph."""
    return Tagger.load(request.getfixturevalue("tagger_folder" if request.param == "net" else "exported_folder"))


def scored(tagger: Tagger, sentences: list[list[str]]) -> Chain:
    """The scores of sentences in one batch."""
    labels = tagger._model.labeller
    scores = labels.scorer.scores(labels._encoder.encode(sentences))
    assert isinstance(scores, Chain)
    return scores


def test_the_tags_of_a_sentence_do_not_depend_on_its_neighbours(tagger, rng, monkeypatch):
    alone = [next(tagger.tag([sentence])) for sentence in SENTENCES]
    assert [len(tags) for tags in alone] == [len(sentence) for sentence in SENTENCES]
    order = rng.permutation(len(SENTENCES))
    for window, positions in ((2048, 2048), (7, 2048), (1, 1), (2048, 64)):
        monkeypatch.setattr(labeller, "WINDOW", window)
        monkeypatch.setattr(labeller, "POSITIONS", positions)
        assert list(tagger.tag(SENTENCES)) == alone
        assert list(tagger.tag([SENTENCES[k] for k in order])) == [alone[k] for k in order]


def test_the_scores_of_a_sentence_do_not_depend_on_its_neighbours(tagger):
    whole = scored(tagger, SENTENCES)
    for k, sentence in enumerate(SENTENCES):
        if sentence:
            single = scored(tagger, [sentence]).emissions[0, : len(sentence)]
            np.testing.assert_allclose(whole.emissions[k, : len(sentence)], single, atol=2e-5)


def test_a_cache_that_forgets_changes_nothing(tagger_folder, monkeypatch):
    expected = list(Tagger.load(tagger_folder).tag(SENTENCES))
    monkeypatch.setattr(labeller, "FORMS", 1)
    monkeypatch.setattr(labeller, "WINDOW", 5)
    assert list(Tagger.load(tagger_folder).tag(SENTENCES)) == expected


def test_no_sentence_no_answer(tagger):
    assert list(tagger.tag([])) == [] and tagger.predict([]) == []
    assert [(t.forms, t.tags) for t in tagger.predict(["", "  \n", []])] == [([], [])] * 3


def test_a_text_is_split_and_a_list_is_not(tagger):
    text, words = tagger.predict(["dr ada runs. in new york.", ["dr ada", "runs."]])
    assert " ".join(text.forms) == "dr ada runs . in new york ." and len(text.tags) == 8
    assert words.forms == ["dr ada", "runs."] and len(words.tags) == 2
    assert str(words).startswith("dr ada/") and "<td>dr ada</td>" in words._repr_html_()


def test_what_is_predicted_is_in_the_scheme_of_the_file_and_never_breaks_it(tagger):
    assert (tagger.fields.tags.scheme, tagger.fields.tags.source) == ("bioes", "iob1")
    answers = list(tagger.tag(SENTENCES))
    assert recognise(answers) == "iob1"
    for tags in answers:
        assert spans(tags, "iob1") == spans(tags, "iob1", strict=True)
    assert any(tag.startswith("B-") for tags in answers for tag in tags)  # two names side by side


class Random:
    """A scorer of noise, which likes forbidden sequences as much as others."""

    def __init__(self, tags: int) -> None:
        self.tags, self.rng = tags, np.random.default_rng(0)

    def scores(self, batch):
        lengths = batch["words"].lengths
        emissions = self.rng.normal(size=(*batch["words"].data.shape, self.tags)) * 5
        return Chain(emissions, np.zeros((self.tags, self.tags)), np.zeros(self.tags), np.zeros(self.tags), lengths)


@pytest.mark.parametrize("constrained", [True, False])
def test_a_constraint_holds_whatever_the_scores(tagger, constrained):
    fields = tagger.fields
    scorer = Random(len(fields.tags.vocab))
    own = msgspec.structs.replace(fields, tags=msgspec.structs.replace(fields.tags, source="bioes"))
    answers = list(Labeller(own, scorer, constrained=constrained).tag(SENTENCES))
    broken = [tags for tags in answers if spans(tags, "bioes") != spans(tags, "bioes", strict=True)]
    assert (broken == []) == constrained
    for tags in Labeller(fields, scorer, constrained=constrained).tag(SENTENCES):  # in the file's scheme either way
        assert spans(tags, "iob1") == spans(tags, "iob1", strict=True) and tags == convert(tags, "iob1", "iob1")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "checkpoint" not in path.parts
    }


def test_a_model_that_is_saved_is_the_model_byte_for_byte(tagger, tagger_folder, exported_folder, tmp_path):
    tagger.save_pretrained(tmp_path / "copy")
    original = exported_folder if tagger._model.net is None else tagger_folder
    assert contents(tmp_path / "copy") == contents(original)
    copy = Tagger.from_pretrained(tmp_path / "copy")
    assert list(copy.tag(SENTENCES)) == list(tagger.tag(SENTENCES))
    copy.save_pretrained(tmp_path / "copy")  # over itself
    assert contents(tmp_path / "copy") == contents(original)


def test_saved_over_another_model_nothing_of_that_one_is_left(tagger_folder, exported_folder, tmp_path):
    place = tmp_path / "place"
    Tagger.load(exported_folder).save_pretrained(place)
    (place / "notes.txt").write_text("mine")
    Tagger.load(tagger_folder).save_pretrained(place, overwrite=True)
    assert contents(place).keys() == contents(tagger_folder).keys() | {"notes.txt"}
    assert Tagger.load(place).net is not None
    Tagger.load(exported_folder).save_pretrained(place, overwrite=True)
    assert Tagger.load(place)._model.net is None and not (place / "model.safetensors").exists()


def test_the_exported_folder_is_the_model(tagger_folder, exported_folder):
    net, graph = Tagger.load(tagger_folder), Tagger.load(exported_folder)
    assert list(net.tag(SENTENCES)) == list(graph.tag(SENTENCES))
    a, b = scored(net, SENTENCES), scored(graph, SENTENCES)
    for k, sentence in enumerate(SENTENCES):
        np.testing.assert_allclose(a.emissions[k, : len(sentence)], b.emissions[k, : len(sentence)], atol=1e-4)
    np.testing.assert_allclose(a.transitions, b.transitions, atol=1e-6)
    assert (exported_folder / "metrics.json").read_bytes() == (tagger_folder / "metrics.json").read_bytes()


def test_evaluation_is_the_same_for_net_graph_and_run(tagger, names_data):
    report = tagger.evaluate(names_data / "dev.conll")
    said = json.loads(tagger._model.papers["metrics.json"])
    assert said["metrics"] == pytest.approx(report.metrics) and said["signature"] == report.signature
    assert report.n == 60 and set(report.by_type) == {"LOC", "PER"} and report.metrics["f1"] > 0.9


@pytest.mark.parametrize("kind", ["text", "conll"])
def test_a_file_is_answered_in_its_order_whatever_the_window(tagger, tmp_path, monkeypatch, kind):
    source, target = tmp_path / "in", tmp_path / "out"
    rows = [s for s in SENTENCES if s and not any("é" in form for form in s)]
    if kind == "text":
        source.write_text("\n\n".join(" ".join(row) for row in rows) + "\n", encoding="utf-8")
    else:
        source.write_text("".join("".join(f"{form} x O\n" for form in row) + "\n" for row in rows), encoding="utf-8")
    tagger.predict_file(source, target, format=kind)
    whole = target.read_text(encoding="utf-8")
    answers = [[line.split()[0] for line in part.splitlines()] for part in whole.strip("\n").split("\n\n")]
    assert [form for row in answers for form in row] == [form for row in rows for form in row]
    if kind == "conll":
        tags = [[line.split()[-1] for line in part.splitlines()] for part in whole.strip("\n").split("\n\n")]
        assert tags == list(tagger.tag(rows))
        assert whole.count(" x ") == sum(map(len, rows))
    for window in (1, 3):
        monkeypatch.setattr(tagger_stream, "WINDOW", window)
        tagger.predict_file(source, target, format=kind)
        assert target.read_text(encoding="utf-8") == whole


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_the_same_data_recipe_and_seed_give_the_same_bytes(names_data, tagger_folder, tiny_settings, tmp_path):
    train, dev = names_data / "train.conll", names_data / "dev.conll"
    again = Tagger("tagger/ner", settings=tiny_settings).fit(train, dev)  # without a folder
    again.save_pretrained(tmp_path / "again")
    assert digest(tmp_path / "again") == digest(tagger_folder)
    new, old = contents(tmp_path / "again"), contents(tagger_folder)
    assert {name for name in new if new[name] != old[name]} <= {"metrics.json", "README.md", "config.json"}  # seconds


def test_a_model_may_be_moved(tagger_folder, exported_folder, tmp_path, monkeypatch):
    for folder in (tagger_folder, exported_folder):
        expected = list(Tagger.load(folder).tag(SENTENCES))
        monkeypatch.chdir(tmp_path)
        shutil.copytree(folder, tmp_path / "moved")
        assert list(load("moved").tag(SENTENCES)) == expected
        shutil.rmtree(tmp_path / "moved")


def test_columns_come_back_byte_for_byte_but_for_the_tags(tagger, monkeypatch):
    rows = "1\tdr\tdr\tX\t_\t_\t2\tdep\t_\tA=b|SpaceAfter=No", "2\tada\t_\tX\t_\t_\t0\troot\t_\t_"
    text = (
        "\ufeff# sent_id = 1\r\n# text = drada\r\n1-2\tdrada\t_\t_\t_\t_\t_\t_\t_\t_\r\n"
        + rows[0] + "\r\n1.1\tx\tx\tNOUN\t_\t_\t_\t_\t_\t_\r\n" + rows[1] + "\r\n\r\n\r\n# last\r\n"
        + rows[0]
    )  # fmt: skip
    out = io.StringIO(newline="")
    source = io.BytesIO(text.encode())
    from riverrun.tasks.labelled import Labelled

    stream = Labelled("-", "conllu").sentences(source)
    labelled = Labelled("-", "conllu")
    for sentence in stream:
        tags = next(tagger.tag([sentence.forms]))
        out.write(tagger_stream._filled(sentence, labelled, tags))
    first, second = next(tagger.tag([["dr", "ada"]])), next(tagger.tag([["dr"]]))
    expected = text.replace("\tdr\tdr\tX\t", f"\tdr\tdr\t{first[0]}\t", 1).replace("\t_\tX\t", f"\t_\t{first[1]}\t")
    assert out.getvalue() == expected.replace("\tdr\tdr\tX\t", f"\tdr\tdr\t{second[0]}\t")


# -- the net alone

NETS = {
    "words": "model={words={size=4}, chars='none'}",
    "characters": "model={words='none', chars={kind='lstm', size=3, hidden=4}}",
    "affixes": "model={words='none', chars='none', affixes={size=4, buckets=64}}",
    "all": "model={words={size=4}, chars={kind='cnn', size=3, filters=4}, affixes={size=4, buckets=64}}",
}


@pytest.fixture(params=list(NETS))
def net_and_encoder(request: pytest.FixtureRequest, tagger_folder):
    """A net in float64 that reads one thing or all, with a pairwise CRF, and what makes its batches."""
    fields = Tagger.load(tagger_folder).fields
    recipe = load_recipe(
        "tagger/ner",
        settings=[
            NETS[request.param],
            "model.encoder={cell='gru', hidden=5, layers=2, dropout=0.0}",
            "model.head={kind='crf', potentials='pairwise'}",
        ],
    )
    return build_net(recipe.model, fields).double().eval(), SentenceEncoder(fields)


def loss_and_gradients(net, batch):
    net.zero_grad()
    loss = net.loss(batch)
    loss.sum.backward()
    return loss, {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}


def test_the_loss_of_a_batch_is_that_of_its_sentences_one_by_one(net_and_encoder, rng):
    net, encoder = net_and_encoder
    tags = encoder.fields.tags.vocab.symbols
    rows = [["dr", "ada", "runs"], [], ["york"], ["dr", "eve", "in", "new", "york"]]
    gold = [[tags[rng.integers(len(tags))] for _ in row] for row in rows]

    def batch(keep: list[int]):
        return encoder.encode([rows[k] for k in keep], [gold[k] for k in keep]).map(torch.from_numpy)

    loss, gradients = loss_and_gradients(net, batch([0, 1, 2, 3]))
    assert (loss.tokens, loss.sequences) == (9, 4)
    parts = [loss_and_gradients(net, batch([k])) for k in range(4)]
    assert loss.sum.item() == pytest.approx(sum(part.sum.item() for part, _ in parts), rel=1e-9)
    assert sum(part.tokens for part, _ in parts) == 9 and parts[1][0].sum.item() == 0
    for name, gradient in gradients.items():
        added = sum(own[name] for _, own in parts if name in own)
        torch.testing.assert_close(gradient, added, rtol=1e-8, atol=1e-10, msg=name)


def test_what_stands_in_the_padding_changes_nothing(net_and_encoder, rng):
    net, encoder = net_and_encoder
    tags = encoder.fields.tags.vocab.symbols
    rows = [["dr", "ada", "runs"], ["york"], []]
    clean = encoder.encode(rows, [[tags[k] for k in range(len(row))] for row in rows])

    def littered(name: str, value):
        data = value.data.copy()
        data[~value.mask()] = 1  # an id that there is in every field
        return value.with_data(data)

    dirty = Batch({name: littered(name, value) for name, value in clean.items()})
    (a, ga), (b, gb) = (loss_and_gradients(net, batch.map(torch.from_numpy)) for batch in (clean, dirty))
    assert a.sum.item() == pytest.approx(b.sum.item(), rel=1e-12)
    for name in ga:
        torch.testing.assert_close(ga[name], gb[name], rtol=1e-9, atol=1e-12, msg=name)


def test_a_net_that_reads_nothing_is_an_error(net_and_encoder):
    net, _ = net_and_encoder
    with pytest.raises(ConfigError, match="a tagger needs words, characters or affixes; received none of them"):
        type(net)(
            None, None, None, net.encoder, net.head, input_dropout=net.input_dropout, output_dropout=net.output_dropout
        )
