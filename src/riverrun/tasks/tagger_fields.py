"""What a tagger takes from its training data before there is a net: vocabularies, vectors, tag scheme, tokeniser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from riverrun.config.tagger import TaggerModel, Words
from riverrun.data.corpus import Corpus
from riverrun.data.sentences import SentenceFields
from riverrun.errors import ConfigError, DataError
from riverrun.tasks.labelled import Labelled
from riverrun.text.fields import CharField, TagField, WordField
from riverrun.text.formats import read_vectors
from riverrun.text.tags import are_spans, convert, recognise
from riverrun.text.tokenize import Tokenizer
from riverrun.text.vocab import Vocab

UNKNOWN = "<unk>"
# Sentences from which the tokeniser is learned: enough, whatever the size of the corpus.
LEARNED_FROM = 50_000

LONGEST = 40  # characters of a form that are read where no setting says otherwise

_PARTS = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}


@dataclass
class WordVectors:
    """What the word embedding begins with.

    Args:
        matrix: (V, D) with a row for each word of the vocabulary, of NaN where the file has none.
        covered_forms: the share of the distinct training words that the file has.
        covered_tokens: the share of the running training words.
    """

    matrix: np.ndarray
    covered_forms: float
    covered_tokens: float


@dataclass
class Lexicon:
    """The words of the training data.

    Args:
        field: how forms become ids.
        unknown_rates: (V,), how often each word is read as unknown in training.
        vectors: None where they begin at random.
    """

    field: WordField
    unknown_rates: np.ndarray
    vectors: WordVectors | None


def lexicon(corpus: Corpus, words: Words) -> Lexicon:
    """The vocabulary of the training words, with the rows of a vectors file where one is named."""
    blank = WordField(Vocab([UNKNOWN], UNKNOWN), lower=words.lower, digits=words.digits)
    counts: dict[str, int] = {}
    for form, n in zip(corpus.symbols["form"], corpus.counts["form"].tolist(), strict=True):
        normal = blank.normal(form)
        counts[normal] = counts.get(normal, 0) + n
    if words.vectors is None:
        vocab = Vocab.count(counts, unknown=UNKNOWN, min_count=words.min_count, limit=words.limit)
        vectors = None
    else:
        vocab, vectors = _with_vectors(counts, words, words.vectors)
    occurrences = np.array([counts.get(word, 0) for word in vocab.symbols], np.float64)
    rates = np.where(occurrences > 0, words.dropout / np.maximum(words.dropout + occurrences, 1e-9), 0.0)
    rates[0] = 0.0
    return Lexicon(WordField(vocab, lower=words.lower, digits=words.digits), rates, vectors)


def _with_vectors(counts: Mapping[str, int], words: Words, path: str) -> tuple[Vocab, WordVectors]:
    """Training words first, then ``words.extra`` of the file's others; a word that the file has only in lower case
    gets that vector, one that it has not at all begins at random."""
    wanted = {*counts, *(word.lower() for word in counts)}
    found = read_vectors(path, wanted=wanted, extra=words.extra, size=words.size)
    row, own = {word: k for k, word in enumerate(found.words)}, found.own()

    def place(word: str) -> int | None:
        lower = word.lower()
        return row.get(word if word in own or lower not in own else lower)

    kept = {word: n for word, n in counts.items() if n >= words.min_count or place(word) is not None}
    head = Vocab.count(kept, unknown=UNKNOWN, limit=words.limit).symbols
    vocab = Vocab(
        [*head, *(word for word in found.words if word in own and word not in counts and word != UNKNOWN)], UNKNOWN
    )
    matrix = np.full((len(vocab), words.size), np.nan, np.float32)
    for k, word in enumerate(vocab.symbols):
        if (source := place(word)) is not None:
            matrix[k] = found.matrix[source]
    has = [word in own or word.lower() in own for word in counts]
    tokens = sum(n for n, known in zip(counts.values(), has, strict=True) if known) / sum(counts.values())
    vectors = WordVectors(matrix, sum(has) / len(has), tokens)
    if tokens < words.coverage:
        raise DataError(
            f"{path}: has a vector for {tokens:.1%} of the running words of the training data, expected at least "
            f"{words.coverage:.1%} (model.words.coverage). Is it of another language or another case "
            f"(model.words.lower = {str(words.lower).lower()})? Give other vectors, or a lower coverage"
        )
    return vocab, vectors


def tag_field(train: Corpus, source: Labelled, model: TaggerModel) -> TagField:
    """The tags, and the span scheme that they are in, if they are."""
    symbols = train.symbols["tag"]
    scheme = _scheme(train, source)
    if scheme is None:
        if model.head.scheme is not None:
            shown = ", ".join(sorted(symbols)[:8])
            raise ConfigError(
                f"model.head.scheme: '{model.head.scheme}' is for tags of spans such as B-PER and I-PER; column "
                f"{source.tag!r} of {source.path} has {shown}. Choose another column (data.columns), or set it to none"
            )
        if len(symbols) == 1:
            only = f"`{symbols[0]}`" if symbols[0] else "that is empty"
            raise DataError(
                f"{source.name}: every word has the tag {only}; expected at least two tags, between which a tagger "
                "chooses. Choose another column (data.columns); `riverrun data check` shows what a column holds"
            )
        return TagField(Vocab.count(dict(zip(symbols, train.counts["tag"].tolist(), strict=True))))
    target = model.head.scheme or scheme
    # Every tag of a type that was seen is possible, also the single-word one that a small file happens not to have.
    types = sorted({tag[2:] for tag in symbols if tag != "O"})
    tags = ["O", *(f"{part}-{type_}" if type_ else part for type_ in types for part in _PARTS[target])]
    return TagField(Vocab(tags), scheme=target, source=scheme)


def _scheme(corpus: Corpus, source: Labelled) -> str | None:
    """The span scheme of a corpus, which was made of this file; None where its tags are no spans."""
    if not are_spans(corpus.symbols["tag"]):  # what `recognise` would find too, when it had read all of it
        return None
    try:
        return recognise(corpus.column("tag"))
    except DataError as error:
        source.scheme()  # which knows the lines
        raise DataError(f"{source.name}: {error}") from None


def in_scheme(corpus: Corpus, field: TagField) -> Corpus:
    """The corpus with its tags in the model's scheme."""
    if field.scheme is None or field.source is None or field.scheme == field.source:
        return corpus
    source, target = field.source, field.scheme
    return corpus.recode("tag", lambda tags: convert(tags, source, target))


def check_tags(corpus: Corpus, source: Labelled, field: TagField) -> None:
    """A DataError with file and line where a file to score has a tag that the model cannot learn, or another scheme."""
    wrong = unseen(corpus, field)
    if wrong:
        such = "tags" if len(wrong) > 1 else "tag"
        raise DataError(
            f"{source.where(lambda tag: tag in wrong)}: the tag {next(iter(wrong))!r} is never seen in the training "
            f"data ({len(wrong)} such {such}: {', '.join(sorted(wrong)[:8])}), so no model can predict it. Is it the "
            "same column of the same annotation (data.columns)? Then correct the tag, add training sentences with it, "
            "or leave its sentence out. `riverrun evaluate` reads such files, and counts such tags as not found"
        )
    if field.source is not None and (scheme := _scheme(corpus, source)) not in (field.source, None):
        raise DataError(
            f"{source.name}: its spans are in the scheme {scheme}, those of the training data in {field.source}, so "
            "that the scores would mean nothing. Convert one of them"
        )


def unseen(corpus: Corpus, field: TagField) -> dict[str, int]:
    """The tags that the model cannot predict, because the training data have none of their type, and how often."""
    types = {tag[2:] for tag in field.vocab.symbols if tag != "O"}

    def known(tag: str) -> bool:
        return tag in field.vocab if field.scheme is None else tag == "O" or tag[2:] in types

    counts = zip(corpus.symbols["tag"], corpus.counts["tag"].tolist(), strict=True)
    return {tag: n for tag, n in counts if not known(tag)}


def characters(corpus: Corpus, limit: int) -> CharField:
    """The characters of the training words."""
    counts = dict(zip(corpus.symbols["form"], corpus.counts["form"].tolist(), strict=True))
    return CharField.count(counts, limit=limit)


def tokenizer(source: Labelled) -> Tokenizer:
    """The tokeniser that cuts text as the training file is cut."""
    return Tokenizer.learn(islice(source.sentences(), LEARNED_FROM))


def fields(train: Corpus, tags: TagField, model: TaggerModel, lexicon: Lexicon | None) -> SentenceFields:
    """All fields of a tagger."""
    chars = None
    if model.chars or model.affixes:
        chars = characters(train, model.chars.max_length if model.chars else LONGEST)
    return SentenceFields(lexicon.field if lexicon else None, chars, tags)
