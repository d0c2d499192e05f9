# Everything from a bare checkout with only python3 and make: each target makes its own environment first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-for-demo
PIP := $(BIN)/python -m pip install --quiet
# Twice as fast; where it cannot work (it does not read pip's settings, such as the address of a mirror), pip does.
UV := $(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --editable

.PHONY: demo test test-slow test-all newest check lint docs bench clean

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP))  ## a small study end to end, and its report
	$(BIN)/sober demo --out demo

test: lint  ## style, types, and all tests but the slow ones
	$(BIN)/pytest -m "not slow"

test-slow: $(STAMP)  ## the slow tests; MINUTES=8 starts none after 8 minutes and names those it left out
	$(BIN)/pytest -m slow $(if $(MINUTES),--minutes $(MINUTES) -rs)

test-all: lint  ## style, types, and every test
	$(BIN)/pytest

newest:  ## the quick tests with the newest version of every library, also above the bounds in pyproject.toml
	test -x .venv-newest/bin/python || $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet uv
	printf '%s\n' jax equinox cyclopts polars altair > .venv-newest/overrides.txt
	.venv-newest/bin/uv pip install --quiet --upgrade --python .venv-newest/bin/python \
	  --override .venv-newest/overrides.txt --editable '.[dev]'
	.venv-newest/bin/uv pip list --quiet --python .venv-newest/bin/python
	.venv-newest/bin/pytest -m "not slow"

check: lint  ## style, types, and for a minute the tests of what changed since BASE (else: the last commit)
	$(BIN)/pytest -m "not slow" --minutes 1 -rs $$($(BIN)/python tools/changed_tests.py $(BASE))

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)  ## the documentation, as a static site in site/
	$(BIN)/mkdocs build --strict --quiet

bench: $(STAMP)  ## speed, as ratios measured in one run
	$(BIN)/python benchmarks/train.py

$(STAMP): EXTRAS := dev
$(DEMO_STAMP): EXTRAS := train,report
$(STAMP) $(DEMO_STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(UV) '.[$(EXTRAS)]' || $(PIP) --editable '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf $(VENV) demo site .pytest_cache .ruff_cache .mypy_cache .hypothesis
