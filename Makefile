# Everything runs from .venv, which the first target that needs it builds.
# Needed beforehand: Python 3.11 to 3.14 with venv, make, bash and a C compiler.

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
# A worker waits for kernels and processes a part of the time: three workers keep two cores busy.
BUSY_WORKERS ?= $(shell echo $$(( $(WORKERS) * 3 / 2 )))
PYTEST_ARGS ?=
# Seconds of each soak in `make soak`; a few in `make test`.
SOAK_SECONDS ?= 120
LAB_ARGS ?=
LOCK_ARGS ?=
# --notebooks: run them, in about ten minutes, so that their pages have outputs.
SITE_ARGS ?=
APP_ARGS ?=
# Metadata that a run leaves in a notebook, besides outputs; identical in .pre-commit-config.yaml.
STRIPPED := metadata.papermill cell.metadata.papermill
MATRIX_ARGS ?=
FUZZ_ARGS ?=
MUTANTS_ARGS ?=
GPU_PYTHON ?= python3
GPU_ARGS ?=
# Seconds that each pytest run of `make test` and of the longer targets may take; none without coreutils.
TIME_LIMIT ?= 3600
# Factor for the time budgets of notebooks, as the machine may be slow or busy.
TIME_SCALE ?= 3
LIMIT = $(if $(shell command -v timeout),timeout --signal=INT --kill-after=60 $(TIME_LIMIT))

SUPPORTED := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))
# Version managers put placeholders on PATH for Pythons that are not active: try each one.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	if "$$python" -c '$(SUPPORTED)' >/dev/null 2>&1; then echo "$$python"; break; fi; done)

.PHONY: help lab app test quick thorough soak fuzz mutants matrix lint types style bench gpu lock site release clean

help: ## List targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

app: $(STAMP) ## Serve the front door as an app with Voila (APP_ARGS="...")
	$(BIN)/workbench app $(APP_ARGS)

lab: $(STAMP) ## Open JupyterLab on the first notebook (LAB_ARGS="...")
	$(BIN)/workbench lab $(LAB_ARGS)

# These folders have no browser test: skipping their collection saves time.
ELSEWHERE = $(addprefix --ignore=tests/,access core fuzz interop kernels labs models scenario sweeps ui verify views)

# $(call part,WORKERS,DISTRIBUTION,MARKS): one pytest run of `make test`.
part = $(LIMIT) $(PYTEST) -n $(1) --dist $(2) -m "$(3)" $(PYTEST_ARGS)
# A part in which PYTEST_ARGS selects no test is not a failure, but none in both is (pytest's 5).
KEEP = keep() { case $$1 in 5) ;; 0) [ $$status -ne 5 ] || status=0 ;; *) status=$$1 ;; esac; }

# The tests are compiled while the types are checked: else each worker does it for itself.
# The browser tests of a file share a server, a page and a kernel: one worker runs them all.
test: $(STAMP) ## Lint, type-check and test every part once (PYTEST_ARGS="..." WORKERS=2)
	@tools/ensure_chromium.sh
	@$(PYTEST) --collect-only >/dev/null 2>&1 & $(MAKE) --no-print-directory -j 2 lint; wait
	@status=5; $(KEEP); \
	$(call part,$(BUSY_WORKERS),worksteal,not browser and not matrix and not thorough) && keep 0 || keep $$?; \
	$(call part,$(BUSY_WORKERS),loadfile,browser and not soak and not thorough) $(ELSEWHERE) && keep 0 || keep $$?; \
	exit $$status

quick: $(STAMP) ## Run the fast tests: no browser, no notebook, no slow test
	$(PYTEST) -n $(WORKERS) -m "not browser and not notebook and not slow and not thorough" $(PYTEST_ARGS)

# Every test with the marker, and every property again with more examples.
thorough: $(STAMP) ## Go deeper than make test: every planted mistake, every target, 500 examples
	@tools/ensure_chromium.sh
	@status=5; $(KEEP); \
	$(call part,$(BUSY_WORKERS),worksteal,(thorough or hypothesis) and not browser and not matrix) && keep 0 || keep $$?; \
	$(call part,$(WORKERS),loadfile,browser and thorough) $(ELSEWHERE) && keep 0 || keep $$?; \
	exit $$status

soak: $(STAMP) ## Torture store, files, logs and kernels; change kernel and browser thousands of times
	@tools/ensure_chromium.sh
	WORKBENCH_SOAK_SECONDS=$(SOAK_SECONDS) $(LIMIT) $(PYTEST) -m soak $(PYTEST_ARGS)

fuzz: $(STAMP) ## Damage input for ten minutes (FUZZ_ARGS="--seconds 28800 --target logs")
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
		$(PIP) install -q --require-hashes --no-deps --only-binary=:all: -r constraints-fuzz.txt || \
		echo "atheris: no wheel for this machine, so inputs are changed at random"
	$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

mutants: $(STAMP) ## Change the code at random, and list what no test notices (MUTANTS_ARGS="...")
	$(BIN)/python tools/mutants.py --workers $(WORKERS) $(MUTANTS_ARGS)

# Executed notebooks, their results, index.html and junit.xml stay in test-output/notebooks.
matrix: $(STAMP) ## Run every notebook of the whole matrix (MATRIX_ARGS="--only '05*'")
	$(BIN)/workbench notebook run --matrix notebooks/matrix.toml --workers $(BUSY_WORKERS) \
		--output test-output/notebooks --junit test-output/notebooks/junit.xml $(MATRIX_ARGS)

lint: types style ## Check style, format, types and words

types: $(STAMP)
	$(BIN)/mypy

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/check_words.py
	$(BIN)/nbstripout --verify --keep-id --extra-keys "$(STRIPPED)" notebooks/*.ipynb notebooks/*/*.ipynb
	$(BIN)/workbench notebook check --house-rules notebooks

bench: $(STAMP) ## Run the benchmarks and print their tables
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

# Without .venv: torch, triton, numpy and pytest are all that it needs, and no network.
gpu: ## Test and measure the kernels on this GPU, in pieces (GPU_PYTHON=python3 GPU_ARGS="--minutes 9" or "--rehearse")
	@PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" $(GPU_PYTHON) -m workbench.kernels.gpu $(GPU_ARGS)

lock: $(STAMP) ## Write the constraints again, with hashes (LOCK_ARGS=--upgrade: newest versions)
	$(BIN)/python tools/lock.py $(LOCK_ARGS)

site: $(STAMP) ## Make front door, documentation and JupyterLite as pages: test-output/site (needs npm; SITE_ARGS=--notebooks)
	$(BIN)/python tools/site.py $(SITE_ARGS)

release: $(STAMP) ## Write the version, check both archives, commit and tag (VERSION=0.2.0)
	$(BIN)/python tools/release.py make $(VERSION)

clean: ## Remove caches and build output (delete .venv manually)
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis test-output
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# Hashes hold for everything but torch, whose builds differ. Nothing is left for the last install.
$(STAMP): pyproject.toml setup.py constraints.txt constraints-torch.txt
	@[ -n "$(PYTHON)" ] || \
		{ echo "No Python from 3.11 to 3.14 with venv found. Install one, or set it (make PYTHON=...)." >&2; exit 1; }
	@$(BIN)/python -c '$(SUPPORTED)' 2>/dev/null || "$(PYTHON)" -m venv --clear .venv
	$(PIP) install -q --require-hashes --no-deps -r constraints.txt
	$(PIP) install -q -r constraints-torch.txt
	$(PIP) install -q --no-deps --no-build-isolation -e .
	@$(PIP) check >/dev/null || { $(PIP) check; exit 1; }
	@touch $@
