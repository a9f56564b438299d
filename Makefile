# `make run`: set up .venv and run the shipped suite. `make test`: the same for the tests.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint clean

run: .venv/installed
	$(BIN)/lightspec-bench run

test: .venv/installed-test
	$(BIN)/python -m pytest

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/installed-test: .venv/installed
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
