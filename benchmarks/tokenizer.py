"""How well and how fast raw text is cut: F1 of tokens, words and sentences as the CoNLL 2018 shared task counts them.

    python benchmarks/tokenizer.py TRAIN.conllu DEV.conllu [OTHER.conllu ...] [--json FILE]

The tokeniser learns from the first treebank and cuts the raw text of the others, which is put together again from their
sentences: a paragraph a line, and once more wrapped at 80 characters. Speed is that of a tokeniser just loaded, on one
core, by the processor's clock; it grows with the text, as words are remembered.
"""

from __future__ import annotations

import argparse
import json
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from riverrun.text.formats.conllu import read_conllu
from riverrun.text.raw import paragraphs
from riverrun.text.tokenize import Tokenizer

Sentences = list[list[tuple[str, tuple[str, ...]]]]
"""Sentences of tokens: the form in the text, and its syntactic words."""


class Score(NamedTuple):
    """F1 in percent."""

    tokens: float
    words: float
    sentences: float


def score(gold: Sentences, predicted: Sentences) -> Score:
    """F1 over spans of characters, white space not counted; in multiword tokens words are aligned by their forms."""
    gold_text, predicted_text = (
        "".join("".join(form.split()) for sentence in side for form, _ in sentence) for side in (gold, predicted)
    )
    if gold_text != predicted_text:
        raise ValueError("the two do not hold the same characters")
    gold_spans, predicted_spans = _spans(gold), _spans(predicted)
    sentences = [{(spans[0][0], spans[-1][1]) for spans in side if spans} for side in (gold_spans, predicted_spans)]
    tokens = [{span[:2] for spans in side for span in spans} for side in (gold_spans, predicted_spans)]
    flat = [[span for spans in side for span in spans] for side in (gold_spans, predicted_spans)]
    size = [sum(len(words) for *_, words in side) for side in flat]
    return Score(
        _f1(len(tokens[0] & tokens[1]), len(tokens[0]), len(tokens[1])),
        _f1(_words_in_common(*flat), *size),
        _f1(len(sentences[0] & sentences[1]), len(sentences[0]), len(sentences[1])),
    )


Span = tuple[int, int, tuple[str, ...]]


def _spans(sentences: Sentences) -> list[list[Span]]:
    at = 0
    found = []
    for sentence in sentences:
        spans = []
        for form, words in sentence:
            end = at + len("".join(form.split()))
            spans.append((at, end, words))
            at = end
        found.append(spans)
    return found


def _words_in_common(gold: list[Span], predicted: list[Span]) -> int:
    """Correct words: of single words those of the same span; in the stretches of text that multiword tokens of either
    side cover, the longest common subsequence of lower-cased forms."""
    stretches: list[list[int]] = []
    for start, end in sorted((s[0], s[1]) for side in (gold, predicted) for s in side if len(s[2]) > 1):
        if stretches and start < stretches[-1][1]:
            stretches[-1][1] = max(stretches[-1][1], end)
        else:
            stretches.append([start, end])
    common = 0
    i = j = 0
    for start, end in [*stretches, [1 << 62, 1 << 62]]:
        single: list[set[tuple[int, int]]] = [set(), set()]
        inside: list[list[str]] = [[], []]
        ends = []
        for which, (side, k) in enumerate(((gold, i), (predicted, j))):
            while k < len(side) and side[k][1] <= start:
                single[which].add(side[k][:2])
                k += 1
            # A single word that is only partly in the stretch is right neither here nor there.
            while k < len(side) and side[k][0] < end:
                if len(side[k][2]) > 1 or (start <= side[k][0] and side[k][1] <= end):
                    inside[which] += [word.lower() for word in side[k][2]]
                k += 1
            ends.append(k)
        i, j = ends
        common += len(single[0] & single[1]) + _longest_common(*inside)
    return common


def _longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    row = [0] * (len(b) + 1)
    for x in a:
        diagonal = 0
        for k, y in enumerate(b, 1):
            diagonal, row[k] = row[k], diagonal + 1 if x == y else max(row[k], row[k - 1])
    return row[-1]


def _f1(common: int, gold: int, predicted: int) -> float:
    return 200 * common / max(1, gold + predicted)


def text_and_gold(path: Path) -> tuple[str, Sentences]:
    """The raw text of a treebank, a blank line between paragraphs, and its sentences."""
    parts = []
    gold: Sentences = []
    for paragraph in paragraphs(read_conllu(path)):
        parts.append("".join(token.form + " " * token.space for token in paragraph).rstrip())
        sentence = []
        for token in paragraph:
            sentence.append((token.form, token.words))
            if token.ends:
                gold.append(sentence)
                sentence = []
    return "\n\n".join(parts) + "\n", gold


def predicted(tokenizer: Tokenizer, text: str) -> Sentences:
    """The tokeniser's sentences in the same form."""
    return [[(text[t.start : t.end], t.words) for t in sentence] for sentence in tokenizer.tokens(text)]


def wrapped(text: str) -> str:
    """The text with line breaks inside its paragraphs."""
    paragraphs = (
        textwrap.wrap(part, 80, break_long_words=False, break_on_hyphens=False) for part in text.split("\n\n")
    )
    return "\n\n".join("\n".join(lines) for lines in paragraphs) + "\n"


def speed(stored: bytes, text: str) -> float:
    """Words a second."""
    tokenizer = msgspec.json.decode(stored, type=Tokenizer)
    lines = text.splitlines(keepends=True)
    start = time.process_time()
    words = sum(map(len, tokenizer.sentences(lines)))
    return words / (time.process_time() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("others", type=Path, nargs="+")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    start = time.process_time()
    tokenizer = Tokenizer.learn(read_conllu(options.train))
    seconds = time.process_time() - start
    stored = msgspec.json.encode(tokenizer)
    print(f"{options.train.name}: learned in {seconds:.1f} s, {len(stored) / 1000:.1f} kB of JSON")
    found: dict[str, dict[str, float]] = {}
    for path in options.others:
        text, gold = text_and_gold(path)
        result = score(gold, predicted(tokenizer, text))
        in_lines = score(gold, predicted(tokenizer, wrapped(text)))
        pace = speed(stored, text)
        print(
            f"{path.name}: F1 of tokens {result.tokens:.2f}, words {result.words:.2f}, "
            f"sentences {result.sentences:.2f} ({in_lines.sentences:.2f} in wrapped lines); {pace / 1000:.0f}k words/s"
        )
        found[path.name] = {**result._asdict(), "sentences_wrapped": in_lines.sentences, "words_per_second": pace}
    pace = speed(stored, text_and_gold(options.train)[0])
    print(f"{options.train.name}: {pace / 1000:.0f}k words/s")
    if options.json:
        result_of_all = {"seconds": seconds, "bytes": len(stored), "words_per_second": pace, "treebanks": found}
        options.json.write_text(json.dumps(result_of_all, indent=2) + "\n")


if __name__ == "__main__":
    main()
