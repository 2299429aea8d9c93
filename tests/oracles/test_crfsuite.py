"""CRFsuite, an independent CRF: with the weights that it learned, our chain gives its tags and its probabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pycrfsuite = pytest.importorskip("pycrfsuite")

from riverrun.decode.marginals import log_partition, marginals  # noqa: E402
from riverrun.decode.path import path_scores  # noqa: E402
from riverrun.decode.scorer import Chain  # noqa: E402
from riverrun.decode.viterbi import viterbi  # noqa: E402

FEATURES, TAGS = 6, 4


def test_tags_and_probabilities_are_those_of_crfsuite(tmp_path: Path, rng: np.random.Generator) -> None:
    lengths = [5, 1, 8, 3, 6, 2, 7, 4, 5, 6]
    inputs = [rng.integers(0, FEATURES, length) for length in lengths]
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c2": 0.05, "feature.possible_states": True, "feature.possible_transitions": True})
    for words in inputs:
        tags = [str((word + rng.integers(0, 2)) % TAGS) for word in words]
        trainer.append([[f"w{word}"] for word in words], tags)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))

    info = tagger.info()
    weights, transitions = np.zeros((FEATURES, TAGS)), np.zeros((TAGS, TAGS))
    for (feature, tag), weight in info.state_features.items():
        weights[int(feature[1:]), int(tag)] = weight
    for (before, tag), weight in info.transitions.items():
        transitions[int(before), int(tag)] = weight
    assert np.abs(transitions).max() > 0.1

    emissions = np.full((len(lengths), max(lengths), TAGS), np.nan)
    for row, words in enumerate(inputs):
        emissions[row, : len(words)] = weights[words]
    zeros = np.zeros(TAGS)
    chain = Chain(emissions, transitions, zeros, zeros, np.array(lengths))
    best, shares = viterbi(chain), marginals(chain)
    scores = path_scores(chain, best.tags.data) - log_partition(chain)
    for row, words in enumerate(inputs):
        tagger.set([[f"w{word}"] for word in words])
        path = tagger.tag()
        assert [str(tag) for tag in best.tags.data[row, : len(words)]] == path
        # CRFsuite prints its weights with six decimals.
        np.testing.assert_allclose(np.exp(scores[row]), tagger.probability(path), rtol=1e-4)
        for t in range(len(words)):
            for tag in range(TAGS):
                np.testing.assert_allclose(shares.data[row, t, tag], tagger.marginal(str(tag), t), atol=1e-5)
