# Everything runs from .venv, which the first target that needs it builds.
# Needed beforehand: Python 3.11, 3.12 or 3.13 with venv, make, bash and a C compiler.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# The tests start Python hundreds of times: keep the compiled files.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
STAMP := .venv/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST = $(BIN)/python -m pytest --notebook-time-scale $(TIME_SCALE)

# Set on the command line, for example `make test PYTEST_ARGS="-k wheel" WORKERS=0`.
WORKERS ?= 2
# A worker waits for its notebook kernel a third of the time: three workers keep two cores busy.
NOTEBOOK_WORKERS ?= $(shell echo $$(( $(WORKERS) * 3 / 2 )))
PYTEST_ARGS ?=
LAB_ARGS ?=
APP_ARGS ?=
# Metadata that a run leaves in a notebook, besides outputs; identical in .pre-commit-config.yaml.
STRIPPED := metadata.papermill cell.metadata.papermill
MATRIX_ARGS ?=
# Seconds that each of the three pytest runs of `make test` may take; none without coreutils.
TIME_LIMIT ?= 2400
# Factor for the time budgets of notebooks, as the machine may be slow or busy.
TIME_SCALE ?= 3
LIMIT = $(if $(shell command -v timeout),timeout --signal=INT --kill-after=60 $(TIME_LIMIT))

SUPPORTED := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
# Version managers put placeholders on PATH for Pythons that are not active: try each one.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	if "$$python" -c '$(SUPPORTED)' >/dev/null 2>&1; then echo "$$python"; break; fi; done)

.PHONY: help lab app test quick matrix lint bench clean

help: ## List targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' Makefile

app: $(STAMP) ## Serve the first notebook as an app with Voila (APP_ARGS="...")
	$(BIN)/workbench app $(APP_ARGS)

lab: $(STAMP) ## Open JupyterLab on the first notebook (LAB_ARGS="...")
	$(BIN)/workbench lab $(LAB_ARGS)

# These folders have no notebook and no browser test: skipping their collection saves time.
ELSEWHERE = $(addprefix --ignore=tests/,access core interop kernels labs models scenario sweeps ui verify views)

# $(call part,WORKERS,DISTRIBUTION,MARKS): one pytest run of `make test`.
part = $(LIMIT) $(PYTEST) -n $(1) --dist $(2) -m "$(3)" $(PYTEST_ARGS)
# A part in which PYTEST_ARGS selects no test is not a failure.
NONE_LEFT = code=$$?; [ $$code -eq 5 ] || status=$$code

# The browser tests of a file share a server, a page and a kernel: one worker runs them all.
test: $(STAMP) ## Lint, type-check and run every test (PYTEST_ARGS="..." WORKERS=2)
	@tools/ensure_chromium.sh
	@$(MAKE) --no-print-directory lint
	@status=0; \
	$(call part,$(WORKERS),worksteal,not browser and not notebook) || status=$$?; \
	$(call part,$(NOTEBOOK_WORKERS),load,notebook and not matrix and not browser) $(ELSEWHERE) || \
		{ $(NONE_LEFT); }; \
	$(call part,$(WORKERS),loadfile,browser) $(ELSEWHERE) || { $(NONE_LEFT); }; \
	exit $$status

quick: $(STAMP) ## Run the fast tests: no browser, no notebook, no slow test
	$(PYTEST) -n $(WORKERS) -m "not browser and not notebook and not slow" $(PYTEST_ARGS)

# Executed notebooks, their results, index.html and junit.xml stay in test-output/notebooks.
matrix: $(STAMP) ## Run every notebook of the whole matrix (MATRIX_ARGS="--only '05*'")
	$(BIN)/workbench notebook run --matrix notebooks/matrix.toml --workers $(NOTEBOOK_WORKERS) \
		--output test-output/notebooks --junit test-output/notebooks/junit.xml $(MATRIX_ARGS)

lint: $(STAMP) ## Check style, format, types and words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_words.py
	$(BIN)/nbstripout --verify --keep-id --extra-keys "$(STRIPPED)" notebooks/*.ipynb notebooks/*/*.ipynb
	$(BIN)/workbench notebook check --house-rules notebooks

bench: $(STAMP) ## Run the benchmarks and print their tables
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

clean: ## Remove caches and build output (delete .venv manually)
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis test-output
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and pinned: a later requirement must not choose another build of it.
$(STAMP): pyproject.toml setup.py constraints.txt
	@[ -n "$(PYTHON)" ] || \
		{ echo "No Python 3.11, 3.12 or 3.13 with venv found. Install one, or set it (make PYTHON=...)." >&2; exit 1; }
	@$(BIN)/python -c '$(SUPPORTED)' 2>/dev/null || "$(PYTHON)" -m venv --clear .venv
	$(PIP) install -q -c constraints.txt torch setuptools
	$(PIP) install -q -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@
