"""N-gram models against their definitions, written out slowly, and against KenLM."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.classic.arpa import read_arpa, write_arpa
from riverrun.classic.counts import count
from riverrun.classic.ngram import NGram
from riverrun.classic.skipgrams import patterns
from riverrun.classic.smoothing import smooth
from riverrun.classic.snm_training import learn_snm
from riverrun.text.units import Words

pytest.importorskip("numba")

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
Gram = tuple[int, ...]
FALLBACK = (0.5, 1.0, 1.5)


class Text:
    """Lines ``bos w1 .. wn eos``, or one line of running text, and what can be counted in them."""

    def __init__(self, lines: list[list[int]], *, order: int, size: int, bos: int, eos: int | None) -> None:
        self.order, self.size, self.bos, self.eos = order, size, bos, eos
        tail = [] if eos is None else [eos]
        self.lines = [[bos, *line, *tail] for line in lines]
        self.words = [w for w in range(size) if w != bos or eos is None]
        self.raw: Counter[Gram] = Counter()
        self.before: dict[Gram, set[int]] = defaultdict(set)
        self.at_start: Counter[Gram] = Counter()
        for line in self.lines:
            for i, n in itertools.product(range(len(line)), range(1, order + 1)):
                gram = tuple(line[i : i + n])
                if len(gram) < n or i + n < 2:  # bos itself is not predicted
                    continue
                self.raw[gram] += 1
                if i:
                    self.before[gram].add(line[i - 1])
                else:
                    self.at_start[gram] += 1

    def ids(self) -> np.ndarray:
        return np.array([w for line in self.lines for w in line[1:]], np.int32)

    def adjusted(self, gram: Gram) -> int:
        """How many different symbols stand before it; what stands before nothing is counted as it is."""
        if len(gram) == self.order:
            return self.raw[gram]
        return len(self.before[gram]) + self.at_start[gram]

    def followers(self, context: Gram) -> list[int]:
        return [w for w in self.words if self.raw[(*context, w)]]

    def grams(self, n: int) -> list[Gram]:
        return [gram for gram in list(self.raw) if len(gram) == n]

    def model(self, smoothing: str, **settings: object) -> NGram:
        counts = count(self.ids(), order=self.order, size=self.size, bos=self.bos, eos=self.eos)
        return smooth(counts, smoothing, dtype=np.float64, **settings)  # type: ignore[arg-type]


def interpolated(
    text: Text, c: Callable[[Gram], int], discount: Callable[[int, int], float], types: int, prune: Sequence[int] = (0,)
) -> Callable[[int, Gram], float]:
    """p(w | h) = (c(hw) - D) / total + gamma(h) p(w | h'), by recursion."""

    def kept(gram: Gram) -> bool:
        return text.raw[gram] > (0 if len(gram) == 1 else prune[min(len(gram), len(prune)) - 1])

    def p(word: int, context: Gram) -> float:
        shorter = p(word, context[1:]) if context else 1 / len(text.words)
        follow = text.followers(context)
        if not follow:
            return shorter
        n = len(context) + 1
        total = sum(c((*context, w)) for w in follow) + types * len(follow)
        gamma = types * len(follow)
        for w in follow:
            value = c((*context, w))
            gamma += discount(n, value) if kept((*context, w)) else value
        own = 0.0
        if kept((*context, word)) and word in follow:
            value = c((*context, word))
            own = value - discount(n, value)
        return own / total + gamma / total * shorter

    return p


def kneser_ney(text: Text, prune: Sequence[int] = (0,), fallback: bool = False) -> Callable[[int, Gram], float]:
    table = {}
    for n in range(1, text.order + 1):
        counts = Counter(text.adjusted(gram) for gram in text.grams(n))
        n1, n2, n3, n4 = (counts[j] for j in (1, 2, 3, 4))
        taken = FALLBACK
        if n1 and n2 and n3:
            y = Fraction(n1, n1 + 2 * n2)
            exact = (1 - 2 * y * Fraction(n2, n1), 2 - 3 * y * Fraction(n3, n2), 3 - 4 * y * Fraction(n4, n3))
            if all(0 <= d <= j for j, d in enumerate(exact, 1)):
                taken = tuple(map(float, exact))
        assert fallback or taken is not FALLBACK
        table[n] = taken
    return interpolated(text, text.adjusted, lambda n, value: table[n][min(value, 3) - 1], 0, prune)


def absolute(text: Text, given: float | None = None, prune: Sequence[int] = (0,)) -> Callable[[int, Gram], float]:
    table = {}
    for n in range(1, text.order + 1):
        counts = Counter(text.raw[gram] for gram in text.grams(n))
        table[n] = counts[1] / (counts[1] + 2 * counts[2]) if given is None else given
    return interpolated(text, text.raw.__getitem__, lambda n, value: table[n], 0, prune)


def witten_bell(text: Text, prune: Sequence[int] = (0,)) -> Callable[[int, Gram], float]:
    return interpolated(text, text.raw.__getitem__, lambda n, value: 0.0, 1, prune)


def add_k(text: Text, k: float) -> Callable[[int, Gram], float]:
    def p(word: int, context: Gram) -> float:
        total = sum(text.raw[(*context, w)] for w in text.words)
        return (text.raw[(*context, word)] + k) / (total + k * len(text.words))

    return p


def stupid(text: Text, factor: float) -> Callable[[int, Gram], float]:
    def s(word: int, context: Gram) -> float:
        if text.raw[(*context, word)]:
            return text.raw[(*context, word)] / sum(text.raw[(*context, w)] for w in text.words)
        return factor * s(word, context[1:]) if context else 0.0

    return s


def contexts(text: Text) -> list[Gram]:
    """Every context that a text may have, seen or not: bos stands only at the beginning where lines end."""
    inner = [w for w in range(text.size) if text.eos is None or w != text.bos]
    found: list[Gram] = []
    for n in range(text.order):
        found += itertools.product(inner, repeat=n)
        if text.eos is not None and n:
            found += [(text.bos, *rest) for rest in itertools.product(inner, repeat=n - 1)]
    return found


def compare(text: Text, model: NGram, p: Callable[[int, Gram], float], *, sums: bool = True) -> None:
    """Every distribution, to 1e-9, and that it sums to 1."""
    every = contexts(text)
    rows = np.full((len(every), model.reach), -1)
    for row, context in zip(rows, every, strict=True):
        row[len(row) - len(context) :] = context
    found = np.exp(model.distributions(rows))
    expected = np.array([[p(w, context) if w in text.words else 0.0 for w in range(text.size)] for context in every])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    if sums:
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


SMALL = [[2, 3, 2, 4], [2, 3], [], [3, 4, 4, 2, 3], [2, 3, 2, 4, 2], [4]]
LINES = {"size": 6, "bos": 5, "eos": 1}
RUNNING = {"size": 5, "bos": 1, "eos": None}


def text_of(kind: str, order: int, lines: list[list[int]] = SMALL) -> Text:
    """Symbol 0 never occurs in lines: it is the unknown word."""
    if kind == "lines":
        return Text(lines, order=order, **LINES)  # type: ignore[arg-type]
    return Text([[w for line in lines for w in (*line, 1)]], order=order, **RUNNING)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["lines", "running"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("prune", [(0,), (0, 1), (0, 0, 1), (0, 1, 2)])
def test_interpolated_smoothing_is_its_definition(kind: str, order: int, prune: tuple[int, ...]) -> None:
    text, cut = text_of(kind, order), prune[:order]
    compare(text, text.model("kneser-ney", prune=cut, fallback=FALLBACK), kneser_ney(text, prune, fallback=True))
    compare(text, text.model("absolute", prune=cut, discount=0.6), absolute(text, 0.6, prune))
    compare(text, text.model("witten-bell", prune=cut), witten_bell(text, prune))


@pytest.mark.parametrize("kind", ["lines", "running"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_what_is_not_interpolated_is_its_definition(kind: str, order: int) -> None:
    text = text_of(kind, order)
    compare(text, text.model("add-k", k=0.3), add_k(text, 0.3))
    compare(text, text.model("stupid-backoff", backoff=0.3), stupid(text, 0.3), sums=False)


def test_a_bigram_of_each_smoothing_by_hand() -> None:
    """Lines "a b", "a a": c(<s> a) = 2, c(a b) = c(a a) = 1, c(b </s>) = 1, c(a </s>) = 1; V = 4 (with <unk>)."""
    lines, a, b, start = [[2, 3], [2, 2]], 2, 3, 4
    text = Text(lines, order=2, size=5, bos=start, eos=1)

    def p(model: NGram, word: int, context: int) -> float:
        return float(np.exp(model.distributions(np.array([[context]]))[0, word]))

    # Three words follow a, once each: a, b, </s>. Unigrams: a 3, b 1, </s> 2 of 6.
    model = text.model("absolute", discount=0.5)
    unigram = (1 - 0.5) / 6 + 3 * 0.5 / 6 / 4
    assert p(model, b, a) == pytest.approx((1 - 0.5) / 3 + 3 * 0.5 / 3 * unigram, rel=1e-12)
    unigram = (1 + 3 / 4) / (6 + 3)
    assert p(text.model("witten-bell"), b, a) == pytest.approx((1 + 3 * unigram) / (3 + 3), rel=1e-12)
    assert p(text.model("add-k", k=1), b, a) == pytest.approx((1 + 1) / (3 + 4), rel=1e-12)
    assert p(text.model("stupid-backoff"), b, a) == pytest.approx(1 / 3, rel=1e-12)
    assert p(text.model("stupid-backoff"), a, b) == pytest.approx(0.4 * 3 / 6, rel=1e-12)
    # Before a stand <s> and a, before b stands a, before </s> stand a and b: 5 in all. No count is 3: no estimate.
    model = text.model("kneser-ney", fallback=FALLBACK)
    unigram = (1 - 0.5) / 5 + (0.5 + 1 + 1) / 5 / 4
    assert p(model, b, a) == pytest.approx((1 - 0.5) / 3 + 3 * 0.5 / 3 * unigram, rel=1e-12)
    assert p(model, 0, a) == pytest.approx(0.5 * (2.5 / 5 / 4), rel=1e-12)


def toy(order: int, **settings: object) -> tuple[Words, NGram]:
    lines = (FIXTURES / "ngram-toy.txt").read_text().splitlines(keepends=True)
    units = Words.learn(lines, bos_symbol="<s>")
    ids = np.concatenate(list(units.encode(lines)))
    counts = count(ids, order=order, size=units.size, bos=units.bos, eos=units.eos, unknown=units.unknown)
    return units, smooth(counts, dtype=np.float64, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [2, 3, 4])
def test_kneser_ney_with_estimated_discounts(order: int) -> None:
    units, model = toy(order)
    assert model.notes == ()
    lines = [units.ids(line) for line in (FIXTURES / "ngram-toy.txt").read_text().splitlines()]
    text = Text(lines, order=order, size=units.size, bos=units.bos, eos=units.eos)
    p = kneser_ney(text)
    rng = np.random.default_rng(0)
    seen = [line[i : i + order - 1] for line in text.lines for i in range(len(line) - order + 1)]
    some = [seen[k] for k in rng.choice(len(seen), 25)] + rng.integers(0, units.size, (10, order - 1)).tolist()
    found = np.exp(model.distributions(np.array(some)))
    expected = [[p(w, tuple(h)) if w in text.words else 0.0 for w in range(units.size)] for h in some]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("smoothing", ["kneser-ney", "absolute", "witten-bell"])
@settings(max_examples=25)
@given(
    lines=st.lists(st.lists(st.integers(2, 4), max_size=6), min_size=1, max_size=8),
    order=st.integers(1, 4),
    kind=st.sampled_from(["lines", "running"]),
    prune=st.sampled_from([(0,), (0, 1), (0, 0, 1, 2)]),
)
def test_any_small_text(smoothing: str, lines: list[list[int]], order: int, kind: str, prune: tuple[int, ...]) -> None:
    text = text_of(kind, order, lines)
    cut = prune[:order]
    if smoothing == "kneser-ney":
        compare(text, text.model(smoothing, prune=cut, fallback=FALLBACK), kneser_ney(text, prune, fallback=True))
    elif smoothing == "absolute":
        compare(text, text.model(smoothing, prune=cut, discount=0.6), absolute(text, 0.6, prune))
    else:
        compare(text, text.model(smoothing, prune=cut), witten_bell(text, prune))


def by_kenlm(name: str) -> tuple[list[str], list[list[float]]]:
    made = json.loads((FIXTURES / "ngram-toy.json").read_text())
    return made["lines"], made[name]


def scores(model: NGram, units: Words, lines: list[str]) -> list[float]:
    """log10, all lines one behind the other."""
    ids = np.concatenate(list(units.encode(line + "\n" for line in lines)))
    return (np.concatenate([found for _, found in model.read(ids)]) / math.log(10)).tolist()


# KenLM's numbers have 24 bits; the last word of the text occurs once, so that the one n-gram of each order whose count
# lmplz adds to its statistics unadjusted, the last one, is counted alike.
@pytest.mark.parametrize(("name", "prune"), [("ngram-toy", ()), ("ngram-toy-pruned", (0, 0, 1))])
def test_smoothed_as_lmplz_smooths(name: str, prune: tuple[int, ...]) -> None:
    units, model = toy(3, prune=prune)
    lines, expected = by_kenlm(name)
    assert scores(model, units, lines) == pytest.approx(list(itertools.chain(*expected)), abs=2e-6)
    theirs, vocab = read_arpa(FIXTURES / f"{name}.arpa")
    assert np.diff(theirs.trie.base).tolist() == np.diff(model.trie.base).tolist()
    assert set(vocab.symbols) == set(units.vocab.symbols)


@pytest.mark.parametrize("name", ["ngram-toy", "ngram-toy-pruned"])
def test_what_lmplz_wrote_scores_as_in_kenlm(name: str) -> None:
    model, vocab = read_arpa(FIXTURES / f"{name}.arpa")
    lines, expected = by_kenlm(name)
    found = scores(model, Words(vocab, bos_symbol="<s>"), lines)
    assert found == pytest.approx(list(itertools.chain(*expected)), abs=2e-6)


def test_what_is_written_here_scores_the_same_in_kenlm(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    units, model = toy(3)
    write_arpa(tmp_path / "toy.arpa", model, units.vocab)
    other = kenlm.Model(str(tmp_path / "toy.arpa"))
    lines, _ = by_kenlm("ngram-toy")
    expected = [score for line in lines for score, _, _ in other.full_scores(line)]
    assert scores(model, units, lines) == pytest.approx(expected, abs=2e-6)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(("order", "expected"), [(3, 230.8863), (5, 224.8115)])
def test_perplexity_of_wikitext(shared_data: Path, order: int, expected: float) -> None:
    """KenLM's lmplz on the same lines, the blank ones left out, with ``<unk>`` as a word like others."""
    folder = shared_data / "lm" / "wikitext-2"

    def lines(name: str) -> list[str]:
        return [line for line in (folder / name).read_text(encoding="utf-8").splitlines(keepends=True) if line.strip()]

    train = lines("train.shuffled-articles.txt")
    units = Words.learn(train, bos_symbol="<s>")
    counts = count(units.encode(train), order=order, size=units.size, bos=units.bos, eos=units.eos)
    assert smooth(counts).perplexity(units.encode(lines("test.txt"))) == pytest.approx(expected, abs=0.01)


class Adjusted:
    """Sparse non-negative matrices with a dictionary for each thing; adjustments have names instead of hashes."""

    def __init__(self, text: Text, order: int, skips: int, span: int) -> None:
        self.text, self.patterns = text, patterns(order, skips, span)
        self.pairs: Counter[tuple[int, Gram, int]] = Counter()
        self.totals: Counter[tuple[int, Gram]] = Counter()
        self.places = [(line, i) for line in text.lines for i in range(1, len(line))]
        for line, i in self.places:
            for p, context in self.contexts(line[:i]):
                self.pairs[p, context, line[i]] += 1
                self.totals[p, context] += 1
        self.scale = 1 / (len(self.patterns) + 1)
        self.adjust: dict[object, float] = defaultdict(float)
        self.squares: dict[object, float] = defaultdict(lambda: 1.0)
        self.adjust["anything"] = math.log(self.scale)

    def contexts(self, before: list[int]) -> list[tuple[int, Gram]]:
        found = []
        for p, pattern in enumerate(self.patterns):
            if not pattern or len(before) >= pattern[0]:
                found.append((p, tuple(before[-distance] for distance in pattern)))
        return found

    def names(self, p: int, context: Gram, word: int, c: int, n: int) -> list[object]:
        seen, of = int(2 * math.log2(c)), int(2 * math.log2(n))
        return [
            *[("kind", p), ("seen", p, seen), ("of", p, of), ("seen of", p, seen, of), ("context", p, context)],
            *[("context seen", p, context, seen), ("word", p, word), ("word seen", p, word, seen)],
        ]

    def entry(self, p: int, context: Gram, word: int, c: int, n: int) -> float:
        return self.scale * math.exp(sum(self.adjust[k] for k in self.names(p, context, word, c, n))) * c / n

    def loss(self) -> float:
        """That of Poisson over all words, at each place without what that place itself has counted."""
        total = 0.0
        for line, i in self.places:
            for word in self.text.words:
                y = math.exp(self.adjust["anything"]) / len(self.text.words)
                for p, context in self.contexts(line[:i]):
                    c = self.pairs[p, context, word] - (word == line[i])
                    n = self.totals[p, context] - 1
                    y += self.entry(p, context, word, c, n) if c else 0.0
                total += y - (math.log(y) if word == line[i] else 0.0)
        return total

    def slopes(self, line: list[int], i: int) -> list[tuple[object, float]]:
        """Of one place, the other words' part of an entry's slope put where the entry's own word is."""
        free, found = math.exp(self.adjust["anything"]), []
        y = free / len(self.text.words)
        parts = []
        for p, context in self.contexts(line[:i]):
            c, n = self.pairs[p, context, line[i]], self.totals[p, context] - 1
            if n:
                part = self.entry(p, context, line[i], c - 1, n) if c > 1 else 0.0
                y += part
                parts.append((p, context, c, n, part))
        for p, context, c, n, part in parts:
            if part:
                found += [(k, part * (1 - 1 / y)) for k in self.names(p, context, line[i], c - 1, n)]
            if n + 1 > c:
                rest = self.entry(p, context, line[i], c, n) / c * (n + 1 - c)
                found += [(k, rest) for k in self.names(p, context, line[i], c, n)]
        return [*found, ("anything", free - free / len(self.text.words) / y)]

    def learn(self, rate: float) -> None:
        for line, i in self.places:
            for name, slope in self.slopes(line, i):
                self.squares[name] += slope * slope
                self.adjust[name] -= rate * slope / math.sqrt(self.squares[name])

    def probability(self, word: int, before: list[int]) -> float:
        free = math.exp(self.adjust["anything"])
        above, below = free / len(self.text.words), free
        for p, context in self.contexts(before):
            n = self.totals[p, context]
            for w in self.text.words:
                c = self.pairs[p, context, w]
                if c:
                    value = self.entry(p, context, w, c, n)
                    below += value
                    above += value if w == word else 0.0
        return above / below


def test_the_slopes_of_the_matrix_are_those_of_its_loss() -> None:
    matrix = Adjusted(text_of("lines", 3), 3, 1, 2)
    matrix.learn(0.3)  # away from where everything is 0
    total: dict[object, float] = defaultdict(float)
    for place in matrix.places:
        for name, slope in matrix.slopes(*place):
            total[name] += slope
    assert len(total) > 50
    for name in [*list(total)[::7], "anything"]:
        here = matrix.adjust[name]
        sides = []
        for step in (1e-5, -1e-5):
            matrix.adjust[name] = here + step
            sides.append(matrix.loss())
        matrix.adjust[name] = here
        assert total[name] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-6)


# What is learned is kept in float32.
@pytest.mark.parametrize("kind", ["lines", "running"])
@pytest.mark.parametrize(("passes", "tolerance"), [(0, 1e-6), (1, 1e-5), (4, 1e-5)])
def test_the_matrix_is_its_definition(kind: str, passes: int, tolerance: float) -> None:
    text = text_of(kind, 3)
    matrix = Adjusted(text, 3, 2, 2)
    before = matrix.loss()
    for _ in range(passes):
        matrix.learn(0.1)
    assert passes == 0 or matrix.loss() < before
    # So many buckets that hardly any two adjustments share one.
    model = learn_snm(
        text.ids(), size=text.size, bos=text.bos, eos=text.eos, order=3, skips=2, span=2, passes=passes,
        buckets=1 << 24,
    )  # fmt: skip
    every = [[text.bos], [0], [2], [2, 3], [4, 4], [text.bos, 2], [3, 2, 4], [text.bos, 2, 3, 2], [2, 3, 2, 4], [3, 0]]
    rows = np.full((len(every), model.reach), -1)
    for row, context in zip(rows, every, strict=True):
        row[len(row) - len(context) :] = context
    found = np.exp(model.distributions(rows))
    expected = [[matrix.probability(w, h) if w in text.words else 0.0 for w in range(text.size)] for h in every]
    np.testing.assert_allclose(found, expected, rtol=tolerance)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
