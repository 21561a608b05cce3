# Everything here works on a bare machine with Python 3.11 or newer, pip, git, make and g++. `make` lists the targets.

PYTHON ?= python3
# The wheel index decides whether this is a CPU or a CUDA build; both work.
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
TIERS := $(wildcard tests/unit tests/e2e_cpu tests/quality tests/chaos tests/attacks tests/fuzz)
SOURCES := $(wildcard evokern backends tests benchmarks)

# One thread each for numerical libraries: timings and tests do not then fight for cores.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup check format test unit unit312 e2e attacks gpu fuzz demo holds clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv and install evokern with everything that its tests need

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	@command -v g++ >/dev/null || command -v clang++ >/dev/null || { echo "a C++ compiler is needed: install g++ or clang++" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(READY)

check: $(READY) ## Formatting, lint and types
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy

format: $(READY) ## Rewrite the sources as `check` wants them
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

test: $(READY) ## Set everything up and run every tier that needs no GPU
	$(BIN)/python -m pytest $(TIERS) $(ARGS)

unit: $(READY) ## Unit tests alone: seconds
	$(BIN)/python -m pytest tests/unit $(ARGS)

unit312: .venv312/ready ## Unit tests on Python 3.12, with the light dependencies alone
	.venv312/bin/python -m pytest tests/unit -m "not torch" $(ARGS)

.venv312/ready: pyproject.toml
	@command -v python3.12 >/dev/null || { echo "python3.12 is not here" >&2; exit 1; }
	python3.12 -m venv .venv312
	.venv312/bin/python benchmarks/holds/light_requirements.py > .venv312/requirements.txt
	.venv312/bin/python -m pip install --quiet -r .venv312/requirements.txt
	.venv312/bin/python -m pip install --quiet --no-deps --editable .
	touch .venv312/ready

e2e: $(READY) ## The whole engine on this machine's CPU
	$(BIN)/python -m pytest tests/e2e_cpu $(ARGS)

fuzz: $(READY) ## SECONDS=600: coverage-guided fuzzing of every parser, two at a time, for so long each
	$(BIN)/python -m tests.fuzz.harness --seconds $(or $(SECONDS),600) --out benchmarks/results/fuzz.json

attacks: $(READY) ## Every attack, twin and odd kernel, and 200 mutants, up the whole ladder: about fifteen minutes
	$(BIN)/evokern doctor --attacks --mutants 200 $(ARGS)

# Not in .venv unless that is there: a machine with a GPU has its own PyTorch (benchmarks/gpu_requirements.txt says what else it needs).
gpu: ## Everything that needs a GPU, with the Python of this machine; what would be skipped fails
	$(if $(wildcard $(READY)),$(BIN)/python,$(PYTHON)) -m pytest tests/gpu --require-gpu $(ARGS)

demo: $(READY) ## Set everything up and search for a faster softmax for two minutes
	$(BIN)/evokern run --task softmax --minutes 2

holds: $(READY) ## ISSUE=n: run every line under "Holds when" of that issue
	$(BIN)/python benchmarks/holds/run.py $(ISSUE)

clean: ## Remove the environments and tool caches; run data in .evokern stays
	rm -rf $(VENV) .venv312 .mypy_cache .ruff_cache .pytest_cache .hypothesis
