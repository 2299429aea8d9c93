"""Minimal pairs: a sentence that speakers accept, and one that differs a little and is wrong.

A file is read by what its first line looks like:

- BLiMP (Warstadt et al. 2020): an object a line, with ``sentence_good``, ``sentence_bad`` and ``UID``;
- the sentences of Marvin and Linzen (2018) with tabs, under the head ``file case grammatical ungrammatical``; further
  columns are not read;
- a pair a line: ``good<TAB>bad``, or ``good<TAB>bad<TAB>construction``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from riverrun.errors import DataError
from riverrun.text.sources import Source, TextSource, open_text

_HEAD = ["file", "case", "grammatical", "ungrammatical"]
_NOUN = re.compile(r"(sing|plur)_([A-Z]+)")
_NAMES = re.compile(r".+\.(jsonl|tsv)(\.gz|\.zst)?")


class MinimalPair(NamedTuple):
    """Two sentences that differ in what is tested.

    Args:
        good: the one that is right.
        bad: the one that is wrong.
        construction: what is tested: BLiMP's paradigm, the file of Marvin and Linzen, the third column.
        attractors: nouns between the subject and the word that agrees with it, whose number is not the subject's; None
            where the file does not say. In Marvin and Linzen it is counted in the name of the case, which gives the
            number of each noun: a noun before the subject is none, nor is one that the case does not name (the side in
            *to the side of*). It is None where the case names no number, and for long coordinations of verb phrases,
            whose other nouns have none in the name.
    """

    good: str
    bad: str
    construction: str
    attractors: int | None = None

    def prepared(self, prepare: Callable[[str], str]) -> MinimalPair:
        """The same pair as a model reads it, for example tokenised or in lower case.

        >>> MinimalPair("She runs.", "She run.", "verb").prepared(str.lower).good
        'she runs.'
        """
        return self._replace(good=prepare(self.good), bad=prepare(self.bad))


def read_minimal_pairs(
    path: Source, *, encoding: str | None = None, notes: list[str] | None = None
) -> Iterator[MinimalPair]:
    """The pairs of a file, or of all files of a folder that are called ``.jsonl`` or ``.tsv``, in the order of names.

    >>> import io
    >>> next(read_minimal_pairs(io.StringIO("she runs\\tshe run\\tverb\\n")))
    MinimalPair(good='she runs', bad='she run', construction='verb', attractors=None)
    """
    files: list[Source] = [path]
    if isinstance(path, str | Path) and Path(path).is_dir():
        files = [file for file in sorted(Path(path).iterdir()) if _NAMES.fullmatch(file.name)]
        if not files:
            raise DataError(f"{path}: no files called .jsonl or .tsv; expected minimal pairs")
    for file in files:
        with open_text(file, encoding=encoding, notes=notes) as source:
            yield from _pairs(source)


def _pairs(source: TextSource) -> Iterator[MinimalPair]:
    name = Path(source.name).name.split(".")[0]
    read: Callable[[str, str], MinimalPair] | None = None
    found = False
    for number, line in enumerate(source.lines(), 1):
        if not line.strip():
            continue
        if read is None:
            if line.split("\t")[:4] == _HEAD:
                read = _by_case
                continue
            read = _blimp if line.startswith("{") else _plain
        try:
            pair = read(line, name)
        except DataError as error:
            raise source.error(number, str(error)) from None
        if pair.good.split() == pair.bad.split():
            raise source.error(number, f"expected two sentences that differ, received {pair.good!r} twice")
        found = True
        yield pair
    source.require(found, "minimal pairs, one a line")


class _Object(msgspec.Struct):
    """What is read of a line of BLiMP."""

    sentence_good: str
    sentence_bad: str
    UID: str | None = None


def _blimp(line: str, name: str) -> MinimalPair:
    try:
        found = msgspec.json.decode(line, type=_Object)
    except msgspec.MsgspecError as error:
        raise DataError(f"expected an object with sentence_good and sentence_bad: {error}") from None
    return MinimalPair(found.sentence_good, found.sentence_bad, found.UID or name)


def _by_case(line: str, name: str) -> MinimalPair:
    cells = line.split("\t")
    if len(cells) < len(_HEAD):
        raise DataError(f"expected {len(_HEAD)} tab-separated columns ({', '.join(_HEAD)}), received {len(cells)}")
    file, case, good, bad = cells[:4]
    return MinimalPair(good, bad, file, attractors(case))


def _plain(line: str, name: str) -> MinimalPair:
    cells = line.split("\t")
    if len(cells) not in (2, 3):
        raise DataError(f"expected good<TAB>bad or good<TAB>bad<TAB>construction, received {len(cells)} columns")
    return MinimalPair(cells[0], cells[1], cells[2] if len(cells) == 3 else name)


def attractors(case: str) -> int | None:
    """How many nouns between the subject and what agrees with it have another number (see `MinimalPair`).

    The first noun of a case is the subject; of the others, those of an embedded clause or phrase (``ES``) stand between
    it and what agrees, the matrix subject of an embedded clause (``MS``) and that of a sentence around it (``BS``)
    before it.

    >>> [attractors(case) for case in ("sing_MS_MV_plur_ES_EV", "sing_ES_EV_plur_MS_MV", "sing_MS_LMV_LMV", "past")]
    [1, 0, None, None]
    """
    nouns = _NOUN.findall(case)
    if not nouns or "LMV" in case:
        return None
    subject = nouns[0][0]
    return len([number for number, role in nouns[1:] if role == "ES" and number != subject])
