# `make help` lists the targets. Every target that needs Python makes its own environment first.
VENV   ?= .venv
PYTHON ?= python3
PY      = $(VENV)/bin/python

LIMIT         ?= 16
OUT           ?= out/coco5k
CAPTIONS_FILE ?=
ARGS          ?=
PYTEST_ARGS   ?=

# One environment for every run here: one torch thread per process, no usage report, no token files in $HOME, and Python's
# cache of compiled modules, without which each worker process compiles Ray anew (1.6 instead of 0.5 s of processor time each).
export OMP_NUM_THREADS = 1
export RAY_USAGE_STATS_ENABLED = 0
export RAY_AUTH_MODE = disabled
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup coco5k test test-slow check format bench bench-ray compare clean train-smoke

help:  ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.dev  ## Create .venv with everything that development needs

coco5k: $(VENV)/.run  ## Captions to images, ledger, report [LIMIT=16 OUT=out/coco5k CAPTIONS_FILE=file ARGS=...]
	$(PY) jobs/coco5k.py --limit $(LIMIT) --output "$(OUT)" $(if $(CAPTIONS_FILE),--captions-file "$(CAPTIONS_FILE)") $(ARGS)

test: $(VENV)/.dev  ## Run the tests that take seconds each
	$(PY) -m pytest -m "not slow" $(PYTEST_ARGS)

test-slow: $(VENV)/.dev  ## Run the tests that take minutes
	$(PY) -m pytest -m slow $(PYTEST_ARGS)

check: $(VENV)/.dev  ## Check format, lint and types
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

format: $(VENV)/.dev  ## Rewrite the code in the project's format
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: $(VENV)/.run  ## Decoding speed, phases against the cost model, the machine's bounds [OUT=file.json]
	$(PY) jobs/bench.py $(if $(filter command line,$(origin OUT)),--out "$(OUT)") $(ARGS)

bench-ray: $(VENV)/.run  ## What Ray costs: stub roles, many groups, driver memory, the embedded family [OUT=file.json ARGS=...]
	$(PY) jobs/bench_ray.py $(if $(filter command line,$(origin OUT)),--out "$(OUT)") $(ARGS)

train-smoke: $(VENV)/.dev  ## Every stage of training from nothing on drawn shapes, under 5 minutes [OUT=...]
	$(PY) jobs/train.py smoke --folder $(if $(filter command line,$(origin OUT)),"$(OUT)",out/train-smoke) $(ARGS)

compare: $(VENV)/.run  ## The job with ar, then mulo, side by side in a report [LIMIT=16 OUT=... ARGS=...]
	$(PY) jobs/coco5k.py --decoder ar --limit $(LIMIT) --output "$(OUT)-ar" $(ARGS)
	$(PY) jobs/coco5k.py --decoder mulo --limit $(LIMIT) --output "$(OUT)-mulo" $(ARGS)
	$(PY) jobs/compare.py runs "$(OUT)-ar" "$(OUT)-mulo" --output "$(OUT)-compare"

clean:  ## Remove the environment and the tools' caches (outputs stay)
	rm -rf "$(VENV)" .mypy_cache .ruff_cache .pytest_cache .hypothesis

# What a run needs; what development needs comes on top. The stamps make each install happen once. --no-compile: compiling
# all of torch and Ray to bytecode takes longer than compiling, once, what is really imported.
$(VENV)/.run: pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv "$(VENV)"
	$(PY) -m pip install --quiet --no-compile -c constraints.txt -e ".[s3]"
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PY) -m pip install --quiet --no-compile -c constraints.txt -e ".[s3,train,families,dev]"
	touch $@
