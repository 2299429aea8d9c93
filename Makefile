PYTHON ?= python

.PHONY: fix types test slow bench docs

fix:  ## format and repair what can be repaired
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

types:  ## types, style, and that rooms import one way
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	lint-imports

test:  ## the default tests: minutes on two cores
	$(PYTHON) -m pytest

slow:  ## everything that needs no GPU
	$(PYTHON) -m pytest -m "not gpu and not bench"

bench:  ## what needs no data; benchmarks/README.md has the others
	$(PYTHON) -m pytest -m bench
	$(PYTHON) benchmarks/recurrent.py

docs:  ## generate the reference pages
	$(PYTHON) docs/build.py
