# Every target sets up .venv by itself; none needs root. `make help` lists them.
#   make test PYTHON=python3.12     chooses the interpreter for a new .venv

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.spacearm-installed
BENCH   := $(VENV)/.spacearm-bench
RESULTS ?= results
CORES   ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
# pytest-xdist workers: a number, or `auto` for one per core.
WORKERS ?= auto
SLOW    := $(addprefix --ignore=,$(shell grep -v -e '^[^t]' tests/slow.txt))

# Small matrices only: threads of the linear algebra library would fight with the workers for the cores.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1

say = @printf '\n== %s\n' "$(1)"

.PHONY: help reproduce test fast bench gpu docs lint types imports unit install clean distclean

help:  ## this list
	@echo "spacearm: make TARGET"
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The stamp is older than a changed pyproject.toml or constraints.txt, so that only then pip runs again.
$(STAMP): pyproject.toml constraints.txt
	$(call say,setting up $(VENV))
	@test -x $(BIN)/python || { \
	  command -v $(PYTHON) >/dev/null || { echo "error: no interpreter '$(PYTHON)'; choose one: make PYTHON=/path/to/python3.11" >&2; exit 1; }; \
	  $(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"error: spacearm needs Python 3.11 or newer; $(PYTHON) is {v[0]}.{v[1]}. Choose one: make PYTHON=/path/to/python3.11")'; \
	  $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; }
	@$(BIN)/python -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"error: $(VENV) holds Python {v[0]}.{v[1]}; remove it (make distclean) and choose 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[verify,cluster,figures,dev]'
	@touch $@

install: $(STAMP)  ## set up .venv with everything that the other targets need

reproduce: $(STAMP)  ## run the papers' cases and write results/index.html
	$(call say,reproducing the papers into $(RESULTS)/)
	@$(BIN)/spacearm reproduce all -o $(RESULTS) --workers $(CORES)

test: lint types imports unit docs  ## all that must hold: lint, types, import directions, tests, docs
	$(call say,all checks passed)

fast: lint imports  ## what shows most faults in little time: lint, import directions, quick tests
	$(call say,pytest without the files of tests/slow.txt)
	@$(BIN)/pytest -n $(WORKERS) $(SLOW)

lint: $(STAMP)  ## ruff: rules and format
	$(call say,ruff)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy, strict
	$(call say,mypy)
	@$(BIN)/mypy

imports: $(STAMP)  ## import-linter: a package imports only packages below it
	$(call say,import directions)
	@$(BIN)/lint-imports

unit: $(STAMP)  ## pytest, one worker per core
	$(call say,pytest)
	@$(BIN)/pytest -n $(WORKERS)

# Parts of mujoco.sysid are imported only when they are used: that it can be imported shows nothing.
$(BENCH): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

bench: $(BENCH)  ## timings beside MuJoCo and Pinocchio
	$(call say,benchmarks)
	@$(BIN)/python benchmarks

gpu: $(STAMP)  ## tests and timings that need an NVIDIA GPU
	$(call say,GPU)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[gpu]'
	@$(BIN)/pytest -m gpu
	@$(BIN)/python benchmarks gpu

docs: $(STAMP)  ## build the documentation (offline) into docs/_build/html
	$(call say,documentation)
	@$(BIN)/sphinx-build -j auto -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:  ## remove what was built, keep .venv
	rm -rf docs/_build build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

distclean: clean  ## clean, and remove .venv
	rm -rf $(VENV)
