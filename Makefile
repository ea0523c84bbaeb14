# Every target does its own set-up, once, in .venv; it is done again when pyproject.toml changes.
PYTHON ?= python3
# Two processes on two cores; PYTEST_ARGS= runs everything in one.
PYTEST_ARGS ?= -n auto
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
	$(BIN)/python -m pytest -n auto -m slow

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
