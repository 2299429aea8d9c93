"""Where numba is not installed models still predict, and counting says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from riverrun.classic import engine
from riverrun.classic.engine import choose_engine
from riverrun.errors import ConfigError

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"

WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numba"):
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Without())
import importlib, pkgutil
import numpy as np
import riverrun.classic
for module in pkgutil.iter_modules(riverrun.classic.__path__, "riverrun.classic."):
    importlib.import_module(module.name)
from riverrun.classic.arpa import read_arpa
from riverrun.classic.counts import count
from riverrun.classic.engine import choose_engine
from riverrun.classic.snm_training import learn_snm
from riverrun.errors import ConfigError
model, vocab = read_arpa(sys.argv[1])
line = vocab.ids("the river runs to the sea </s>".split())
print(model.perplexity(np.array(line * 10_000)))
for work in (
    lambda: count(np.array(line), order=2, size=len(vocab), bos=model.bos, eos=model.eos),
    lambda: learn_snm(np.array(line), size=len(vocab), bos=model.bos, eos=model.eos),
    lambda: choose_engine("numba", 1),
):
    try:
        work()
    except ConfigError as error:
        print(error)
"""


def test_without_numba() -> None:
    program = [sys.executable, "-c", WITHOUT, str(FIXTURES / "ngram-toy.arpa")]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    perplexity, *errors = done.stdout.splitlines()
    # KenLM's seven scores of this line have the sum -2.9278731.
    assert float(perplexity) == pytest.approx(10 ** (2.9278731 / 7), abs=1e-5)
    assert len(errors) == 3
    for error in errors:
        assert "needs the package 'numba'" in error and "pip install 'riverrun[classic]'" in error


def test_the_engine_that_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "has_numba", lambda: True)
    assert choose_engine("auto", 10) == "numpy" and choose_engine("auto", 10**6) == "numba"
    assert choose_engine("numpy", 10**6) == "numpy" and choose_engine("numba", 1) == "numba"
    monkeypatch.setattr(engine, "has_numba", lambda: False)
    assert choose_engine("auto", 10**6) == "numpy"
    with pytest.raises(ConfigError, match="engine must be 'auto', 'numba' or 'numpy', received 'nunba'; did you mean"):
        choose_engine("nunba", 1)  # type: ignore[arg-type]


def test_a_long_text_is_scored_by_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from riverrun.classic import query
    from riverrun.classic.arpa import read_arpa

    model, _ = read_arpa(FIXTURES / "ngram-toy.arpa")
    asked = []
    real = query.scores

    def scores(*arguments: object) -> object:
        asked.append(len(arguments[0]))  # type: ignore[arg-type]
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(query, "scores", scores)
    model.scores(np.full(100, 3))
    assert asked == []
    model.scores(np.full(70_000, 3))
    assert asked == [70_000]
