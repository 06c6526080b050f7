# `make demo` and `make test` need only Python >= 3.11 and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest

# Named datasets are looked for here first; see docs/data.md.
ifneq ($(wildcard ../shared/data/.),)
export ARCSET_DATA ?= $(abspath ../shared/data)
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-all coverage check format bench docs-pictures clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: $(VENV)/.installed  ## compare eight losses on the shipped digits (offline, a few minutes)
	$(BIN)/arcset demo

test: check  ## check, then every test but the long ones
	$(PYTEST) -n 2 --dist worksteal -m "not long"

test-all: check  ## check, then every test
	$(PYTEST) -n 2 --dist worksteal

coverage: $(VENV)/.installed-dev  ## line coverage of what `make test` runs
	$(PYTEST) -n 2 --dist worksteal -m "not long" --cov --cov-report=term:skip-covered

check: $(VENV)/.installed-dev  ## ruff format, ruff, mypy strict, import-linter
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev  ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-dev  ## run every benchmark; tables on the screen, JSON in benchmarks/results
	for file in benchmarks/*.py; do $(BIN)/python $$file || exit 1; done

docs-pictures: $(VENV)/.installed  ## draw the pictures of README and docs anew, from the demo's runs
	test -f runs/demo/report.html || $(BIN)/arcset demo
	$(BIN)/python tools/docs_pictures.py

clean:  ## remove the virtual environment, caches and benchmark results; runs/ stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* benchmarks/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "arcset needs Python 3.11 or newer; name one with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing arcset into $(VENV) ..."
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "installing the development tools into $(VENV) ..."
	$(PIP) --editable '.[dev]'
	@touch $@
