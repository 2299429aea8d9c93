"""Make the miniature treebank that comes with riverrun: whole documents of UD English-EWT, reduced to words and tags.

python tools/mini_treebank.py FOLDER-OF-UD_English-EWT
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from riverrun.text.formats import read_conllu, write_conllu
from riverrun.text.formats.sentence import Sentence

TARGET = Path(__file__).resolve().parent.parent / "src" / "riverrun" / "bundled" / "mini-treebank"
SENTENCES = {"train": 2000, "dev": 300, "test": 300}
KEPT_COMMENTS = ("newdoc", "newpar", "text")
DROPPED = ("lemma", "xpos", "feats", "head", "deprel", "deps")


def reduced(sentence: Sentence) -> Sentence:
    """Only what a tagger and its tokeniser learn from: words, universal tags, spaces."""
    for column in DROPPED:
        sentence = sentence.with_column(column, ["_"] * len(sentence))
    spaces = ["SpaceAfter=No" if "SpaceAfter=No" in misc.split("|") else "_" for misc in sentence.column("misc")]
    sentence = sentence.with_column("misc", spaces)
    sentence.comments = tuple(c for c in sentence.comments if c.lstrip("# ").split(" ")[0] in KEPT_COMMENTS)
    return sentence


def documents(sentences: Iterator[Sentence]) -> Iterator[list[Sentence]]:
    """The sentences by document."""
    document: list[Sentence] = []
    for sentence in sentences:
        if sentence.newdoc and document:
            yield document
            document = []
        document.append(sentence)
    yield document


def sample(path: Path, count: int) -> list[Sentence]:
    """About ``count`` sentences: documents at even distances, so that every genre of the file is in it."""
    found = list(documents(read_conllu(path)))
    total = sum(map(len, found))
    kept: list[Sentence] = []
    seen = 0
    for document in found:
        seen += len(document)
        if len(kept) < seen * count / total:
            kept += document
    return [reduced(sentence) for sentence in kept]


def main() -> None:
    """Write the three files."""
    source = Path(sys.argv[1])
    TARGET.mkdir(parents=True, exist_ok=True)
    for part, count in SENTENCES.items():
        write_conllu(TARGET / f"{part}.conllu", sample(source / f"en_ewt-ud-{part}.conllu", count))


if __name__ == "__main__":
    main()
