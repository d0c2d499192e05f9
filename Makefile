# Everything from a bare checkout with only python3 and make: each target makes its own environment first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet
# Twice as fast; where it cannot work (it does not read pip's settings, such as the address of a mirror), pip does.
UV := $(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --editable '.[dev]'

.PHONY: demo test lint docs bench clean

demo: $(STAMP)  ## a small study end to end, and its report
	$(BIN)/sober demo --out demo

test: lint  ## style, types, and every test
	$(BIN)/pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)  ## the documentation, as a static site in site/
	$(BIN)/mkdocs build --strict --quiet

bench: $(STAMP)  ## speed, as ratios measured in one run
	$(BIN)/python benchmarks/train.py

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(UV) || $(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo site .pytest_cache .ruff_cache .mypy_cache .hypothesis
