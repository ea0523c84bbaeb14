# Every target does its own set-up, once, in .venv; it is done again when pyproject.toml changes.
PYTHON ?= python3
# One process per core, each with a run of files to begin with, so that few fixtures are made twice; PYTEST_ARGS= runs all in one.
PYTEST_ARGS ?= -n auto --dist worksteal
DEMO ?= problems/lora-70b.yaml
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test slow lint bench clean

demo: $(VENV)/.ready
	$(BIN)/kitout solve $(DEMO)

test: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)

slow: $(VENV)/.ready-dev
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m slow

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.ready-dev
	$(BIN)/python -m pytest tests/bench -o python_files="bench_*.py" --benchmark-only
	$(BIN)/python -m tests.bench.growth -o docs
	$(BIN)/python -m tests.bench.solving -o docs/bench.md

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	touch $@

$(VENV)/.ready-dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.ready
