"""The tokeniser: its rules, what it learns from sentences, and how it reads a stream."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
import pytest

from riverrun.text import learn, tokenize
from riverrun.text.formats.sentence import CONLLU, Aside, Sentence
from riverrun.text.logistic import fit, score
from riverrun.text.raw import paragraphs
from riverrun.text.segment import boundary_features, end_features, join_features
from riverrun.text.tokenize import Tokenizer


def sentence(text: str, *tokens: str, par: bool = False) -> Sentence:
    """A CoNLL-U sentence; a token is its words with spaces between, `form=word word` where its form is another."""
    words, ranges = [], []
    for token in tokens:
        form, _, parts = token.partition("=")
        inner = parts.split() or [form]
        if len(inner) > 1:
            ranges.append((len(words), f"{len(words) + 1}-{len(words) + len(inner)}\t{form}" + "\t_" * 8))
        words += inner
    plain = Sentence.conllu({"form": words}, comments=[*["# newpar"] * par, f"# text = {text}"])
    cells = [cell for k, word in enumerate(words) for cell in ("\n" * (k > 0) + str(k + 1), word, *["_"] * 8)]
    asides = tuple(Aside(at, line) for at, line in ranges)
    return Sentence(CONLLU, cells, comments=plain.comments, asides=asides)


ENGLISH = [
    sentence("We don't know.", "We", "don't=do n't", "know", "."),
    sentence("You can't go (yet).", "You", "can't=ca n't", "go", "(", "yet", ")", "."),
    sentence("Dr. Lee cannot come.", "Dr.", "Lee", "cannot=can not", "come", "."),
    sentence("Why don't you ask Dr. Kim?", "Why", "don't=do n't", "you", "ask", "Dr.", "Kim", "?"),
    sentence("It cannot be!", "It", "cannot=can not", "be", "!"),
] * 20
FRENCH = [
    sentence("Il parle du chat.", "Il", "parle", "du=de le", "chat", "."),
    sentence("Elle vient des bois.", "Elle", "vient", "des=de les", "bois", "."),
] * 10
CHINESE = [Sentence.of({"form": list(text)}) for text in ("我爱你。", "你好吗？")] * 10
VIETNAMESE = [
    Sentence.conllu({"form": ["Việt Nam", "có", "học sinh", "."]}, comments=["# text = Việt Nam có học sinh ."]),
    Sentence.conllu({"form": ["Học sinh", "ở", "Việt Nam", "."]}, comments=["# text = Học sinh ở Việt Nam ."]),
] * 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\r\n \n", []),
        ("Hello", [["Hello"]]),
        ("Dogs bark. Cats don't!", [["Dogs", "bark", "."], ["Cats", "don't", "!"]]),
        ("(It rains.) We stay.", [["(", "It", "rains", ".", ")"], ["We", "stay", "."]]),
        ("J. S. Bach wrote it.", [["J", ".", "S", ".", "Bach", "wrote", "it", "."]]),
        ("It costs 1,200.50 or 3%.", [["It", "costs", "1,200.50", "or", "3", "%", "."]]),
        ("See https://example.org/a?b=1.", [["See", "https://example.org/a?b=1", "."]]),
        ("Mail me@example.org now", [["Mail", "me@example.org", "now"]]),
        ("Well... yes", [["Well", "...", "yes"]]),
        ("nice :-) 👍🏽👍🏽", [["nice", ":-)", "👍🏽👍🏽"]]),
        ("one\r\ntwo\r\n\r\nthree", [["one", "two"], ["three"]]),
        ("a\x00b \x07", [["a", "\x00", "b", "\x07"]]),
        ("cafe\u0301s, na\u00efve", [["cafe\u0301s", ",", "na\u00efve"]]),
        ("Она пришла. Он ушёл.", [["Она", "пришла", "."], ["Он", "ушёл", "."]]),
    ],
)
def test_untrained_it_goes_by_rules(text: str, expected: list[list[str]]) -> None:
    assert Tokenizer().split(text) == expected


def test_a_blank_line_ends_a_sentence_and_a_line_break_does_not() -> None:
    assert list(Tokenizer().sentences(["A long", "line", "", "next"])) == [["A", "long", "line"], ["next"]]
    assert list(Tokenizer().sentences(["A long\n", "line\n", "  \n", "next\n"])) == [["A", "long", "line"], ["next"]]


def test_a_finished_sentence_does_not_wait_for_the_next_line() -> None:
    def lines() -> Iterator[str]:
        yield "Dogs bark."
        raise AssertionError("the next line was asked for")

    assert next(Tokenizer().sentences(lines())) == ["Dogs", "bark", "."]


def test_contractions_and_clitics_are_learned() -> None:
    tokenizer = Tokenizer.learn(ENGLISH)
    assert tokenizer.split("They don't CANNOT Cannot, I can't.") == [
        ["They", "do", "n't", "CAN", "NOT", "Can", "not", ",", "I", "ca", "n't", "."]
    ]
    tokens = tokenizer.tokens("They don't.")
    assert tokens == [[(0, 4, ("They",)), (5, 10, ("do", "n't")), (10, 11, (".",))]]


def test_abbreviations_are_learned() -> None:
    assert Tokenizer().split("Ask Dr. Kim. He knows.")[0] == ["Ask", "Dr", "."]
    assert Tokenizer.learn(ENGLISH).split("Ask Dr. Kim. He knows.") == [
        ["Ask", "Dr.", "Kim", "."],
        ["He", "knows", "."],
    ]


def test_words_with_other_letters_than_their_token_keep_its_case() -> None:
    tokenizer = Tokenizer.learn(FRENCH)
    assert tokenizer.split("Le nom du chat. Du pain. DES BOIS.") == [
        ["Le", "nom", "de", "le", "chat", "."],
        ["De", "le", "pain", "."],
        ["DE", "LES", "BOIS", "."],
    ]
    assert tokenizer.tokens("Du pain")[0][0] == (0, 2, ("De", "le"))


def test_a_multiword_typo_that_was_met_once_is_not_learned() -> None:
    assert "mares" not in Tokenizer.learn([*ENGLISH, sentence("A mares.", "A", "mares=mare s", ".")]).contractions


def test_a_form_that_is_one_word_as_often_stays_one() -> None:
    one = sentence("Es cost du.", "Es", "cost", "du", ".")
    assert "du" in Tokenizer.learn([*FRENCH, one]).contractions
    assert "du" not in Tokenizer.learn(FRENCH + [one] * 10).contractions


def test_words_without_spaces_between_are_learned() -> None:
    tokenizer = Tokenizer.learn(CHINESE)
    assert tokenizer.inner is None
    assert tokenizer.split("你爱我。我好吗？") == [["你", "爱", "我", "。"], ["我", "好", "吗", "？"]]


def test_words_that_hold_spaces_are_learned() -> None:
    tokenizer = Tokenizer.learn(VIETNAMESE)
    text = "Việt Nam có học sinh ."
    assert tokenizer.split(text) == [["Việt Nam", "có", "học sinh", "."]]
    assert [text[token.start : token.end] for token in tokenizer.tokens(text)[0]] == tokenizer.split(text)[0]


def test_a_space_inside_a_word_ends_a_chunk() -> None:
    found = learn.chunks(learn.texts(VIETNAMESE), {})
    assert {text for text, _ in found} == {"Việt", "Nam", "có", "học", "sinh", ".", "Học", "ở"}


def test_columns_without_spaces_teach_punctuation_all_the_same() -> None:
    columns = [Sentence.of({"form": s.forms, "tag": s.forms}) for s in ENGLISH]
    tokenizer = Tokenizer.learn(columns)
    assert tokenizer.split("Dr. Lee (yet) don't know. Why?") == [
        ["Dr.", "Lee", "(", "yet", ")", "do", "n't", "know", "."],
        ["Why", "?"],
    ]


def test_paragraphs_follow_newpar_newdoc_and_docstart() -> None:
    first, second = sentence("A b", "A", "b"), sentence("C d", "C", "d", par=True)
    third = Sentence.of({"form": ["E"]})
    third.before = "-DOCSTART- -X- O\n\n"
    found = list(paragraphs([first, first, second, third]))
    assert [[token.form for token in part] for part in found] == [["A", "b", "A", "b"], ["C", "d"], ["E"]]


@pytest.mark.parametrize(
    "sentences", [[], ENGLISH[:1], [Sentence.of({"form": ["EU"]})], [Sentence.of({"form": ["\u00a0"]})]]
)
def test_few_sentences_leave_the_rules_in_force(sentences: list[Sentence]) -> None:
    expected = [["Dogs", "bark", "(", "at", "11:30", ")", "."], ["Why", "?"]]
    assert Tokenizer.learn(sentences).split("Dogs bark (at 11:30). Why?") == expected


def test_learning_reads_no_further_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn, "_TOKENS", 100)
    read = 0

    def endless() -> Iterator[Sentence]:
        nonlocal read
        while True:
            read += 1
            yield ENGLISH[read % 5]

    assert Tokenizer.learn(endless()).split("We don't.") == [["We", "do", "n't", "."]]
    assert read < 30


def test_learning_is_the_same_whatever_the_order_of_sets() -> None:
    program = (
        "import importlib.util, sys, msgspec\n"
        f"spec = importlib.util.spec_from_file_location('cases', {__file__!r})\n"
        "cases = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(cases)\n"
        "sys.stdout.buffer.write(msgspec.json.encode(cases.Tokenizer.learn(cases.ENGLISH + cases.FRENCH)))\n"
    )
    stored = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert stored == {msgspec.json.encode(Tokenizer.learn(ENGLISH + FRENCH))}


def test_a_text_that_never_ends_is_cut_at_tokens() -> None:
    for text in ("word " * 2500, "a,b,c;" * 700, "word " * 900 + "," + "a,b." * 400):
        tokenizer = Tokenizer.learn(ENGLISH)
        sentences = tokenizer.split(text)
        assert max(map(len, sentences)) <= 1000
        assert [[word for token in tokens for word in token.words] for tokens in tokenizer.tokens(text)] == sentences


def test_no_multiword_token_is_torn_where_a_sentence_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenize, "_LONGEST", 4)
    tokenizer = Tokenizer(contractions={"du": ("de", "le")})
    text = "du/du/du a/du b"
    assert tokenizer.split(text) == [["de", "le", "/"], ["de", "le", "/"], ["de", "le"], ["a", "/", "de", "le"], ["b"]]
    assert [len(tokens) for tokens in tokenizer.tokens(text)] == [2, 2, 1, 3, 1]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenize, "_CACHED", 10)
    tokenizer = Tokenizer()
    text = " ".join(f"w{k}." for k in range(100))
    assert tokenizer.split(text) == Tokenizer().split(text)
    assert len(tokenizer._known.seen) <= 10


@pytest.mark.parametrize("unit", ["a", "-.", "a.", "1:", "a@", ":(", "a\u0301", "://", "a-a.", "😀", "中", "\x00"])
def test_long_text_without_a_space_takes_linear_time(unit: str) -> None:
    tokenizer = Tokenizer()

    def seconds(size: int, tries: int = 1) -> float:
        found = []
        for _ in range(tries):
            start = time.process_time()
            tokenizer.split(unit * (size // len(unit)))
            found.append(time.process_time() - start)
        return min(found)

    size = 1_000
    while seconds(size) < 0.02:  # long enough to be measured, on a machine of any speed
        size *= 2
    # Quadratic time would be 64 times as long: 8 is expected, noise gets the rest.
    assert seconds(8 * size, 2) < 24 * seconds(size, 4)


@pytest.mark.parametrize("unit", ["a", "1", "-", "a-", "中", "a\u0301", "İ"])
def test_features_see_a_bounded_window(unit: str) -> None:
    text = unit * 500
    places = [features for _, features in boundary_features(text, None)]
    assert len(places) == len(text) - 1
    assert max(len(feature) for features in places for feature in features) < 50
    ends = end_features([text] * 3, text) + join_features([text] * 4, 1)
    assert max(map(len, ends)) < 80


def test_a_megabyte_without_a_space_is_a_word() -> None:
    text = "x" * (1 << 20)
    assert Tokenizer.learn(ENGLISH).split(text) == [[text]]


def test_regression_gives_the_odds_that_it_has_seen() -> None:
    examples = [
        (["bias", "upper"], True, 30),
        (["bias", "upper"], False, 10),
        (["bias"], False, 20),
        (["bias"], True, 20),
    ]
    weights = fit(examples, ridge=1e-6)
    assert weights.get("bias", 0) == pytest.approx(0, abs=2)
    assert weights["upper"] == pytest.approx(100 * math.log(3), abs=2)
    seen = [(["x"], True, 30), (["x"], False, 10)]
    assert fit(seen, prior={"x": 500}, ridge=1e6) == {"x": 500}
    # Where -30 / (1 + e^w) + 10 / (1 + e^-w) + 10 w is 0.
    assert fit(seen, ridge=10)["x"] == pytest.approx(50.5, abs=1)


def test_regression_finds_what_decides() -> None:
    examples = [(["bias", "yes", f"rare {k}"], True, 1) for k in range(50)]
    examples += [(["bias", "no", f"rarer {k}"], False, 1) for k in range(50)]
    weights = fit(examples)
    assert set(weights) <= {"bias", "yes", "no"}
    assert score(weights, ["bias", "yes"]) > 100 > -100 > score(weights, ["bias", "no"])
    assert len(fit(examples, limit=1)) == 1
    assert fit(examples[:1], prior={"rule": 100}, min_count=9) == {"rule": 100}
