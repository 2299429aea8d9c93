"""A labeller remembers the forms that it has met, and what it remembers for one caller is nothing to another."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from riverrun.data.batch import Batch
from riverrun.data.sentences import SentenceFields
from riverrun.decode.scorer import Chain
from riverrun.errors import ConfigError, DataError
from riverrun.tasks import labeller
from riverrun.tasks.labeller import Labeller
from riverrun.text.fields import CharField, TagField, WordField
from riverrun.text.vocab import Vocab

FORMS = ["<unk>", *(f"w{k}" for k in range(30))]
WORDS = WordField(Vocab(FORMS, "<unk>"))
FIELDS = SentenceFields(WORDS, CharField.count(dict.fromkeys(FORMS, 1)), TagField(Vocab(FORMS)))


class Echo:
    """A scorer by which the tag of each known word is the word itself, if words and characters belong together."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    def scores(self, batch: Batch) -> Chain:
        self.meanwhile()
        words, index = batch["words"], batch["chars.index"].data
        spelled = batch["chars"].lengths[index] * words.mask()
        assert (spelled == np.array([len(form) + 2 for form in FORMS])[words.data] * words.mask()).all()
        C = len(FORMS)
        return Chain(np.eye(C)[words.data], np.zeros((C, C)), np.zeros(C), np.zeros(C), words.lengths)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch, echo: Echo) -> Labeller:
    """It forgets all forms before each call, and makes a batch of each sentence."""
    monkeypatch.setattr(labeller, "FORMS", 0)
    return Labeller(FIELDS, echo, constrained=False, positions=1)


@pytest.mark.parametrize("way", ["tag", "score"])
def test_a_thread_that_comes_between_two_batches_changes_nothing(echo, forgetful, way):
    mine, theirs = [["w3"], ["w12", "w1"]], [["w20"], ["w21", "w5", "w22"]]
    answers: list[list[list[str]]] = []

    def other() -> None:
        answers.append(list(forgetful.tag(theirs)))

    threads: list[threading.Thread] = []

    def meanwhile() -> None:
        if not threads:
            threads.append(threading.Thread(target=other))
            threads[0].start()
            threads[0].join(0.05)  # it must wait for its turn: then this ends first

    echo.meanwhile = meanwhile
    if way == "tag":
        assert list(forgetful.tag(mine)) == mine
    else:
        assert forgetful.score((forms, forms) for forms in mine).metrics == {"accuracy": 1.0}
    threads[0].join(10)
    assert answers == [theirs]


def test_an_answer_that_is_half_read_keeps_nobody_waiting(forgetful, monkeypatch):
    monkeypatch.setattr(labeller, "WINDOW", 1)
    first = forgetful.tag([["w1"], ["w2"]])
    assert next(first) == ["w1"]
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.extend(forgetful.tag([["w3"]])), daemon=True)
    thread.start()
    thread.join(10)
    assert found == [["w3"]] and list(first) == [["w2"]]


def test_a_mistake_keeps_nobody_waiting(echo, forgetful):
    with pytest.raises(DataError, match="expected words as text, received 7"):
        list(forgetful.tag([["w1", 7]]))
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.extend(forgetful.tag([["w3"]])), daemon=True)
    thread.start()
    thread.join(10)
    assert found == [["w3"]]


def test_spans_are_counted_as_it_was_asked(echo):
    tags = ["O", "B-X", "I-X"]
    fields = SentenceFields(WordField(Vocab(["<unk>", *tags], "<unk>")), None, TagField(Vocab(tags), "iob2", "iob2"))

    class Tags(Echo):
        def scores(self, batch: Batch) -> Chain:
            words = batch["words"]
            return Chain(np.eye(4)[words.data][..., 1:], np.zeros((3, 3)), np.zeros(3), np.zeros(3), words.lengths)

    found = Labeller(fields, Tags(), constrained=False)
    pairs = [(["O", "I-X"], ["O", "B-X"]), (["B-X"], ["B-X"])]  # the first answer breaks the scheme
    report = found.score(pairs)
    assert (report.metrics["f1"], report.signature) == (1.0, "spans:conlleval|scheme:iob2|v1")
    report = found.score(pairs, scoring="strict")
    assert (report.metrics["f1"], report.signature) == (2 / 3, "spans:strict|scheme:iob2|v1")
    with pytest.raises(ConfigError, match="unknown convention 'strikt' of counting spans; did you mean 'strict'"):
        found.score(pairs, scoring="strikt")
    plain = Labeller(FIELDS, echo, constrained=False)
    with pytest.raises(
        ConfigError, match=r"scoring: 'strict' is a way to count spans; these tags are no spans.*Leave it"
    ):
        plain.score([(["w1"], ["w1"])], scoring="strict")
