"""File formats, one a file: each a reader, and a writer where the format goes both ways."""

from riverrun.text.formats.conll import read_conll, write_conll
from riverrun.text.formats.conllu import read_conllu, write_conllu
from riverrun.text.formats.guess import guess_format
from riverrun.text.formats.jsonl import read_jsonl, write_jsonl
from riverrun.text.formats.kept import Vectors
from riverrun.text.formats.lines import read_lines, read_text, write_lines, write_text
from riverrun.text.formats.lm1b import read_lm1b
from riverrun.text.formats.minimal_pairs import MinimalPair, read_minimal_pairs
from riverrun.text.formats.sentence import Sentence
from riverrun.text.formats.table import read_csv, read_tsv, write_csv, write_tsv
from riverrun.text.formats.vectors import read_vectors

__all__ = [
    "MinimalPair",
    "Sentence",
    "Vectors",
    "guess_format",
    "read_conll",
    "read_conllu",
    "read_csv",
    "read_jsonl",
    "read_lines",
    "read_lm1b",
    "read_minimal_pairs",
    "read_text",
    "read_tsv",
    "read_vectors",
    "write_conll",
    "write_conllu",
    "write_csv",
    "write_jsonl",
    "write_lines",
    "write_text",
    "write_tsv",
]
