# Set-up needs Python 3.11 or newer and make, nothing else. `make verify` is the main job, `make test` all tests.
#
#   PYTHON=...       the interpreter to build .venv with (default: the first one found that is new enough)
#   TORCH_INDEX=...  a package index that offers the CPU build of torch, where the configured one does not
#   TRACE=...        real requests for make verify, a block-hash trace
#   TESTS=...        arguments of pytest for make test, such as the folders to run
#   WORKERS=...      processes that make test runs them in (default: one for each core)
#   CI=true          tests run with the thorough Hypothesis profile, slow tests included
#   COUNT=... SEED=...  how many random machines `make random-machines` tries the prover on, and from which seed on

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && { echo $$p; break; }; done)

TORCH := torch==2.13.0
PIP   := $(BIN)/python -m pip --disable-pip-version-check -qq install -c constraints.txt

THOROUGH := $(filter true 1,$(CI))
MARKED   := $(if $(THOROUGH),,-m "not slow and not nightly")

WORKERS ?= auto

# The releases that the tests of the adapters want; others are used where they are installed, and skipped where not.
RELEASES ?= vllm==0.20.2 vllm==0.33.0 dynamo==1.6.1

# Tests start Python hundreds of times: none compiles anew what another one has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: verify test nightly gpu lint types check set-up engines random-machines clean

# Real requests for `make verify`: the whole trace where it lies beside the checkout, else the piece of it that comes along.
TRACE ?= $(firstword $(wildcard ../shared/data/conversation_trace.jsonl) benchmarks/data/conversation_head.jsonl)

verify: $(STAMP)
	@$(BIN)/kvproof verify --trace $(TRACE)

test: $(STAMP)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(MARKED) $(TESTS)

# All tests, each with the most that is ever tried, and what the others go back to found from nothing.
nightly: $(STAMP)
	@CI=nightly $(BIN)/python -m pytest -n auto --dist worksteal -m "nightly or not nightly"

# On a machine with a CUDA device: the tests that need one, and the figures that docs/measurements.md has of one.
gpu: $(STAMP)
	@$(BIN)/python -m pytest -n $(WORKERS) -m gpu tests
	@$(BIN)/python benchmarks/block_copies.py
	@$(BIN)/python benchmarks/block_copies.py --layers 32
	@$(BIN)/python -m benchmarks.explore_devices

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache --no-logo

types: $(STAMP)
	@$(BIN)/mypy kvproof tests benchmarks

check: lint types test

engines: $(STAMP)
	@$(BIN)/kvproof engines install $(RELEASES)

# What is done is on record: the same command, after an interruption, does the rest.
COUNT ?= 100000
SEED  ?= 1000000

random-machines: $(STAMP)
	@mkdir -p build
	@$(BIN)/python -m tests.smt.random_machines $(COUNT) --seed $(SEED) \
		--record benchmarks/data/random_machines.jsonl --findings build/random_machines

set-up: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(NEW_ENOUGH)' || \
		{ echo "kvproof needs Python 3.11 or newer: install it, or name one with make PYTHON=/path/to/python"; exit 2; }
	@echo "Setting up $(VENV) (once; some minutes, most of it for torch) ..."
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian: python3-venv)"; exit 2; }
	@$(PIP) setuptools
	@if command -v nvidia-smi >/dev/null 2>&1 || [ "$$(uname -s)" != Linux ]; then \
		$(PIP) "$(TORCH)"; \
	else \
		$(PIP) $(if $(TORCH_INDEX),--extra-index-url "$(TORCH_INDEX)") "$(TORCH)+cpu" 2>/dev/null || { \
			echo "No CPU build of torch at hand: installing the default build (larger; TORCH_INDEX=... avoids it)"; \
			$(PIP) "$(TORCH)"; \
		}; \
	fi
	@$(PIP) --no-build-isolation -e ".[dev]"
	@touch $@

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis
