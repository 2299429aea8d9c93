"""Agreement on minimal pairs, and the files that pairs come from."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from riverrun.errors import ConfigError, DataError
from riverrun.metrics.agreement import Agreement, count_agreement
from riverrun.text.formats import MinimalPair, read_minimal_pairs
from riverrun.text.formats.minimal_pairs import attractors
from riverrun.text.units import Bytes, Words

WORDS = Words.learn(["the dog dogs that sees run runs ."])

PAIRS = [
    MinimalPair("the dog runs", "the dog run", "simple", 0),
    MinimalPair("the dogs run", "the dogs runs", "simple", 0),
    MinimalPair("the dog that the dogs sees runs", "the dog that the dogs sees run", "relative", 1),
    MinimalPair("the dog that the dog sees barks", "the dog that the dog sees bark", "relative", 0),
    MinimalPair("the cat runs", "the cat run", "licence"),
]


# -- counted


def longest(lines: list[str]) -> list[float]:
    """A model to which long sentences are probable."""
    return [-1.0 / len(line) for line in lines]


def test_pairs_are_counted_by_construction_and_attractors() -> None:
    counts = count_agreement(PAIRS, longest, WORDS)
    # barks and bark are unknown, and the cat is in both sentences
    assert counts.metrics == {"accuracy": 3 / 4, "unknown": 1 / 5}
    assert counts.by_type == {
        "attractors:0": {"accuracy": 1 / 2, "pairs": 2, "unknown": 1},
        "attractors:1": {"accuracy": 1.0, "pairs": 1, "unknown": 0},
        "licence": {"accuracy": 1.0, "pairs": 1, "unknown": 0},
        "relative": {"accuracy": 1.0, "pairs": 1, "unknown": 1},
        "simple": {"accuracy": 1 / 2, "pairs": 2, "unknown": 0},
    }
    report = counts.report("lm")
    assert (report.n, report.metrics, report.by_type) == (4, counts.metrics, counts.by_type)
    assert report.signature == "agreement:sentence|unit:words|unknown:excluded|v1"


def test_unknown_pairs_may_be_scored() -> None:
    counts = count_agreement(PAIRS, longest, WORDS, unknown="scored")
    assert counts.metrics == {"accuracy": 4 / 5, "unknown": 1 / 5}
    assert counts.report("lm").n == 5 and counts.signature == "agreement:sentence|unit:words|unknown:scored|v1"
    assert count_agreement(PAIRS, longest, Bytes()).metrics == {"accuracy": 4 / 5, "unknown": 0.0}


def test_equally_probable_is_wrong() -> None:
    counts = Agreement(Bytes())
    counts.add(PAIRS[0], -3.0, -3.0)
    counts.add(PAIRS[0], -math.inf, -math.inf)
    assert counts.metrics["accuracy"] == 0.0
    counts.add(PAIRS[0], -3.0, -math.inf)
    assert counts.metrics["accuracy"] == 1 / 3


def test_the_same_words_in_another_order_are_known_alike() -> None:
    counts = Agreement(WORDS)
    counts.add(MinimalPair("no cat that the dogs run", "the cat that no dogs run", "npi"), -1.0, -2.0)
    assert counts.metrics == {"accuracy": 1.0, "unknown": 0.0}


def test_sentences_are_prepared_and_scored_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riverrun.metrics.agreement._TOGETHER", 2)
    seen: list[list[str]] = []

    def score(lines: list[str]) -> list[float]:
        seen.append(lines)
        return longest(lines)

    pairs = [MinimalPair("The dog runs.", "The dog run.", "a")] * 3
    counts = count_agreement(pairs, score, WORDS, prepare=lambda text: text.lower().replace(".", " ."))
    assert seen == [["the dog runs .", "the dog run ."] * 2, ["the dog runs .", "the dog run ."]]
    assert counts.metrics == {"accuracy": 1.0, "unknown": 0.0}  # unknown, as they were, would be The and runs.


def test_nothing_counted_is_zero() -> None:
    counts = Agreement(Bytes())
    assert (counts.metrics, counts.by_type) == ({"accuracy": 0.0, "unknown": 0.0}, {})


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match=r"unknown policy 'exclude' .* mean 'excluded'\?; known: excluded, scored"):
        Agreement(Bytes(), unknown="exclude")  # type: ignore[arg-type]
    counts = Agreement(Bytes())
    with pytest.raises(DataError, match=r"expected log-probabilities, received nan and -1.0 for 'the dog runs'"):
        counts.add(PAIRS[0], math.nan, -1.0)
    assert counts.report("lm").n == 0
    with pytest.raises(ValueError, match="shorter"):
        count_agreement(PAIRS, lambda lines: [0.0] * 9, WORDS)


# -- attractors


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("sing_MS_MV", 0),  # the author laughs
        ("plur_MS_MV_MV", 0),  # the authors laugh and swim
        ("sing_MS_MV_plur_ES", 1),  # the author next to the guards laughs
        ("plur_IS_IV_plur_ES", 0),  # the movies from the guards are good
        ("plur_MS_EV_MV_sing_ES", 1),  # the authors that like the guard laugh
        ("sing_MS_MV_plur_ES_EV", 1),  # the author that the guards like laughs
        ("sing_ES_EV_plur_MS_MV", 0),  # the authors that the guard likes laugh: likes, whose subject is the guard
        ("sing_MS_MV_plur_BS", 0),  # the mechanics said the author laughs
        ("plur_MS_ANPHR_sing_ES_EV", 1),  # the authors that the guard likes hurt themselves
        ("sing_MS_LMV_LMV", None),  # the author knows many different foreign languages and likes to watch ...
        ("future", None),  # no authors will ever be popular
    ],
)
def test_attractors_are_counted_in_the_name_of_the_case(case: str, expected: int | None) -> None:
    assert attractors(case) == expected


# -- read

BLIMP = '{"sentence_good": "She runs.", "sentence_bad": "She run.", "UID": "verb", "pairID": "0"}\n'
MARVIN = "file\tcase\tgrammatical\tungrammatical\tthird\nprep\tsing_MS_MV_plur_ES\ta b c\ta b d\t\n"


def read(text: str) -> list[MinimalPair]:
    return list(read_minimal_pairs(io.StringIO(text)))


def test_each_layout_is_known_by_its_first_line() -> None:
    assert read("\n" + BLIMP + BLIMP) == [MinimalPair("She runs.", "She run.", "verb")] * 2
    assert read(BLIMP.replace(', "UID": "verb"', "")) == [MinimalPair("She runs.", "She run.", "<stream>")]
    assert read(MARVIN) == [MinimalPair("a b c", "a b d", "prep", 1)]
    assert read(MARVIN.replace("\tthird", "").replace("d\t\n", "d\n")) == read(MARVIN)
    assert read("a b\ta c\nd\te\tnouns\n") == [MinimalPair("a b", "a c", "<stream>"), MinimalPair("d", "e", "nouns")]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(BLIMP)
    (tmp_path / "a.pairs.tsv").write_text("x\ty\n")
    (tmp_path / "README.md").write_text("not read\n")
    assert [pair.construction for pair in read_minimal_pairs(tmp_path)] == ["a", "verb"]
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"no files called .jsonl or .tsv; expected minimal pairs"):
        list(read_minimal_pairs(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n\na\tb\tc\td\n", r":3: expected good<TAB>bad or good<TAB>bad<TAB>construction, received 4 columns$"),
        ("no tab\n", r":1: expected good<TAB>bad .* received 1 columns$"),
        (BLIMP + '{"sentence_good": "a"}\n', r":2: expected an object .*missing required field `sentence_bad`$"),
        ('{"sentence_good": 1, "sentence_bad": "b"}\n', r":1: expected an object .*Expected `str`, got `int`"),
        (BLIMP + "{\n", r":2: expected an object with sentence_good and sentence_bad: Input data was truncated$"),
        (MARVIN + "prep\tsing\ta\n", r":3: expected 4 tab-separated columns \(file, case, .*\), received 3$"),
        ("a b\ta  b\n", r":1: expected two sentences that differ, received 'a b' twice$"),
        (MARVIN.split("\n")[0] + "\n", r": the file is empty; expected minimal pairs, one a line$"),
        ("\n", r": the file is empty; expected minimal pairs, one a line$"),
    ],
)
def test_damaged_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        list(read_minimal_pairs(path))
    assert str(error.value).startswith(str(path))


@pytest.mark.data
def test_published_pairs(shared_data: Path) -> None:
    blimp = list(read_minimal_pairs(shared_data / "agreement" / "blimp"))
    assert len(blimp) == 8000 and {pair.attractors for pair in blimp} == {None}
    marvin = list(read_minimal_pairs(shared_data / "agreement" / "marvin-linzen" / "all.tsv.gz"))
    counts = {k: sum(pair.attractors == k for pair in marvin) for k in (0, 1, None)}
    # With one: half of 4 x (2800 + 2520) object relatives across 2 x 2, 4200 + 1260 + 2800 with a preposition or a
    # subject relative, and 5600 reflexives. Unsaid: 400 long coordinations and 10,824 with negative polarity items.
    assert counts == {0: 97860, 1: 49000, None: 11224}
    # The construction that the paper prints with and without an attractor.
    crossed = next(pair for pair in marvin if pair.construction == "obj_rel_across_anim" and pair.attractors == 1)
    assert (crossed.good, crossed.bad) == (
        "the author that the guards like laughs",
        "the author that the guards like laugh",
    )
