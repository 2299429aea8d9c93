"""What is in a column file: what a recipe would see, and the usual reasons for scores that do not come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from sys import intern
from typing import Any

from riverrun.tasks.labelled import Labelled
from riverrun.text.formats import read_vectors
from riverrun.text.tags import spans

Facts = dict[str, Any]
Columns = Mapping[str, int | str]


@dataclass
class Survey:
    """Counts of one file, and what its reader had to say."""

    path: str
    format: str
    notes: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    forms: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    scheme: str | None = None
    spans: Counter[str] = field(default_factory=Counter)


def read(
    path: str, *, format: str | None = None, columns: Columns | None = None, encoding: str | None = None
) -> Survey:
    """Count what is in a file, which is read once: it may be a stream."""
    source = Labelled(path, format, columns or {}, encoding)
    survey = Survey(path, str(source.format), source.notes)
    rows: Counter[tuple[str, ...]] = Counter()  # the tags of whole sentences, of which many are the same
    lines: list[Sequence[int]] = []  # of the first sentence with these tags
    for forms, tags, where in source.rows():
        survey.lengths.append(len(forms))
        survey.forms.update(forms)
        survey.tags.update(tags)
        row = tuple(map(intern, tags))
        if row not in rows:
            lines.append(where)
        rows[row] += 1
    survey.scheme = source.scheme(zip(rows, lines, strict=True))
    if survey.scheme:
        for row, times in rows.items():
            for span in spans(row, survey.scheme):
                survey.spans[span.type] += times
    return survey


def facts(survey: Survey) -> Facts:
    """File, sizes, lengths."""
    lengths = sorted(survey.lengths)
    return {
        "file": survey.path,
        "format": survey.format,
        "sentences": len(lengths),
        "tokens": sum(lengths),
        "distinct_forms": len(survey.forms),
        "forms_seen_once": sum(count == 1 for count in survey.forms.values()),
        "shortest": lengths[0] if lengths else 0,
        "median_length": median_low(lengths) if lengths else 0,
        "longest": lengths[-1] if lengths else 0,
    }


def tags(survey: Survey) -> Facts:
    """The tag scheme, and the spans or tags by frequency."""
    kinds = {"spans": dict(survey.spans.most_common())} if survey.scheme else {}
    return {"scheme": survey.scheme, **kinds, "tags": dict(survey.tags.most_common())}


def unknown(survey: Survey, known: Survey) -> Facts:
    """The share of the words that a training file does not have, as written and in lower case."""
    lower = {form.lower() for form in known.forms}
    return {
        "unknown_tokens": _share(survey, lambda form: form not in known.forms),
        "unknown_tokens_lower": _share(survey, lambda form: form.lower() not in lower),
        "unknown_tags": sorted(survey.tags.keys() - known.tags.keys()),
    }


def coverage(survey: Survey, path: str) -> Facts:
    """The share of the words that a file of vectors has, as written and in lower case."""
    vectors = read_vectors(path, wanted={*survey.forms, *map(str.lower, survey.forms)})
    words = vectors.own()
    lower = {form for form in survey.forms if form.lower() in words}
    return {
        "vectors": path,
        "vector_size": vectors.matrix.shape[1],
        "covered_tokens": _share(survey, words.__contains__),
        "covered_tokens_lower": _share(survey, lower.__contains__),
        "covered_forms_lower": round(len(lower) / max(1, len(survey.forms)), 4),
    }


def rows(section: Facts) -> Iterator[tuple[str, object]]:
    """A section as rows of two columns for people; what is counted by name is indented under its title."""
    for name, value in section.items():
        title = name.replace("_", " ")
        if isinstance(value, dict):
            yield title, len(value)
            yield from ((f"  {key}", f"{count:,}") for key, count in value.items())
        elif isinstance(value, list):
            yield title, " ".join(value) or "none"
        elif isinstance(value, float):
            yield title, f"{value:.2%}"
        else:
            yield title, "none" if value is None else f"{value:,}" if isinstance(value, int) else value


def _share(survey: Survey, has: Callable[[str], bool]) -> float:
    """The share of the tokens whose form has something."""
    return round(sum(n for form, n in survey.forms.items() if has(form)) / max(1, survey.forms.total()), 4)
