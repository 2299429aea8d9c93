"""What holds for every text and every tokeniser, learned or not."""

from __future__ import annotations

import importlib.util
import re
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.text.formats.conllu import read_conllu
from riverrun.text.formats.sentence import Sentence
from riverrun.text.tokenize import Tokenizer

ROOT = Path(__file__).resolve().parents[2]


def _sentences(*texts: str) -> list[Sentence]:
    spaces = [(text, text.replace("·", "")) for text in texts]
    return [Sentence.conllu({"form": re.split("[· ]", cut)}, comments=[f"# text = {text}"]) for cut, text in spaces] * 8


LEARNED = {
    "rules": Tokenizer(),
    "english": Tokenizer.learn(
        _sentences("I do·n't know·.", "Mr. X can·not see (it·)·!", "A·-·b, see it·'s 3·%·.", "What·?·!")
    ),
    "unspaced": Tokenizer.learn([Sentence.of({"form": list(text)}) for text in ("我爱你。", "你好吗？", "a我好!")] * 8),
    "joining": Tokenizer.learn(
        [Sentence.conllu({"form": ["a b", "ab", "a b", "."]}, comments=["# text = a b ab a b ."])] * 9
    ),
    "contracting": Tokenizer(
        contractions={"ab": ("a", "b"), "du": ("de", "le"), "a.": ("a", "b", "c"), "i\u0307a": ("i\u0307", "a")}
    ),
    "contracting and joining": Tokenizer(contractions={"ab": ("a", "b"), "du": ("de", "le")}, joins={"ab": 1, "aa": 1}),
}
_WORDS = "a b ab du DU A. do n't don't cannot Mr. 3 % . ! ? ... \" ( ) - ' ’s http://a.b a@b.c :-) İ İa ß é 😀 我 。 \0"
_ODD = ["a b", "e\u0301", "\u200d", "👩\u200d👧", "\ud800"]
_SPACES = [" ", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\u00a0", "\x0b", "\x1f", "\u2028"]
WORDS = st.sampled_from([*_WORDS.split(" "), *_ODD, *_SPACES])
TEXTS = st.one_of(st.lists(WORDS, max_size=40).map("".join), st.text(max_size=60))

each_tokenizer = pytest.mark.parametrize("name", LEARNED)


@each_tokenizer
@given(text=TEXTS)
@settings(max_examples=80)
def test_tokens_are_the_text_without_white_space(name: str, text: str) -> None:
    tokens = [token for sentence in LEARNED[name].tokens(text) for token in sentence]
    assert "".join("".join(text[token.start : token.end].split()) for token in tokens) == "".join(text.split())
    assert all(left.end <= right.start for left, right in pairwise(tokens))
    for token in tokens:
        assert token.words and all(word and not word.isspace() for word in token.words)
        if "".join(token.words) != text[token.start : token.end] and "contracting" not in name:
            # Only white space inside a joined word may differ: it is one space.
            assert " ".join(token.words).split() == text[token.start : token.end].split()


@each_tokenizer
@given(text=TEXTS)
@settings(max_examples=80)
def test_tokens_and_split_agree(name: str, text: str) -> None:
    tokenizer = LEARNED[name]
    tokens = tokenizer.tokens(text)
    assert [[word for token in sentence for word in token.words] for sentence in tokens] == tokenizer.split(text)
    assert all(tokens)


@each_tokenizer
@given(text=TEXTS, cuts=st.sets(st.integers(0, 40)))
@settings(max_examples=80)
def test_it_does_not_matter_how_lines_are_handed_in(name: str, text: str, cuts: set[int]) -> None:
    tokenizer = LEARNED[name]
    expected = tokenizer.split(text)
    lines = text.split("\n")
    assert list(tokenizer.sentences(lines)) == expected
    blocks = [""]
    for k, line in enumerate(lines):
        if k in cuts and blocks[-1]:
            blocks.append("")
        blocks[-1] += line + "\n"
    assert list(tokenizer.sentences(blocks)) == expected


@each_tokenizer
@given(text=TEXTS, before=TEXTS)
@settings(max_examples=40)
def test_stored_and_read_again_it_cuts_the_same(name: str, text: str, before: str) -> None:
    tokenizer = LEARNED[name]
    tokenizer.split(before)  # what was read before must not matter
    stored = msgspec.json.encode(tokenizer)
    again = msgspec.json.decode(stored, type=Tokenizer)
    assert again == tokenizer
    assert msgspec.json.encode(again) == stored
    assert again.split(text) == tokenizer.split(text)


@each_tokenizer
@given(text=TEXTS, following=TEXTS)
@settings(max_examples=40)
def test_paragraphs_do_not_see_each_other(name: str, text: str, following: str) -> None:
    tokenizer = LEARNED[name]
    assert tokenizer.split(text + "\n\n" + following) == tokenizer.split(text) + tokenizer.split(following)


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_tokenizer", ROOT / "benchmarks" / "tokenizer.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _tokens(*sentences: str) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Tokens are set apart by spaces; `form=word+word` is one of several words."""
    tokens = [[token.partition("=") for token in sentence.split()] for sentence in sentences]
    return [[(form, tuple(words.split("+")) if words else (form,)) for form, _, words in part] for part in tokens]


@pytest.mark.parametrize(
    ("gold", "predicted", "words"),
    [
        ("a b c", "a b c", 3),
        ("abc", "a bc", 0),
        ("a bc d", "a b c d", 2),
        ("abc=a+b+c", "a b c", 3),
        ("a bc=b+c d", "a b c d", 4),
        ("a bc=b+c d", "a b cd", 2),
        ("abc=a+x+c def=d+y+f", "ab=a+b cd=c+d ef=e+f", 4),
        ("du=de+le x", "DU=DE+LE x".replace("DU", "du"), 3),
        ("a bc=b+c d", "ab=x+y cd=z+a", 1),
    ],
)
def test_words_are_counted_as_in_the_shared_task(benchmark: ModuleType, gold: str, predicted: str, words: int) -> None:
    sides = _tokens(gold), _tokens(predicted)
    total = sum(len(token[1]) for side in sides for token in side[0])
    assert benchmark.score(*sides).words == pytest.approx(200 * words / total)


def test_sentences_are_counted_by_both_ends(benchmark: ModuleType) -> None:
    assert benchmark.score(_tokens("a b", "c", "d"), _tokens("a b", "c d")).sentences == pytest.approx(200 / 5)


@pytest.mark.data
def test_english_words_are_found(shared_data: Path, benchmark: ModuleType) -> None:
    folder = shared_data / "ud" / "UD_English-EWT"
    tokenizer = Tokenizer.learn(read_conllu(folder / "en_ewt-ud-train.conllu"))
    assert len(msgspec.json.encode(tokenizer)) < 80_000
    text, gold = benchmark.text_and_gold(folder / "en_ewt-ud-dev.conllu")
    result = benchmark.score(gold, benchmark.predicted(tokenizer, text))
    assert result.words > 98.9
    assert result.sentences > 89
