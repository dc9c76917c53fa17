# Everything runs in .venv, made here from the first suitable Python (3.11 or newer).
#   make demo        train `reach` on the CPU to 95 % and show the curve
#   make test        the fast tests
#   make check       what CI runs: format, lint, types, fast tests
#   make check-slow  the long tests
#   make probe-results   the paper's five experiments on the point world, into docs/results
#   make probe-curricula the comparison of estimators and goal samplers on the point world, into docs/results
#   make results     the command that made each figure of README and docs, and a check that its files are there
#   make colab       the notebooks on the versions of Colab's image
#   make docs        the documentation site, in site/; warnings are errors
#   make release     wheel and sdist in dist/, checked, installed and tried on every Python of 3.11 to 3.13 that is here
#   make matrix      the fast tests on Python 3.11 to 3.13, with the pinned versions and with the newest
#   make web         the policy in a browser, web/dist/index.html; needs node and npm. POLICIES="..." shows others
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
RUN_TESTS := $(BIN)/python -m pytest -n 2

.PHONY: demo test check check-slow probe-results probe-curricula results colab docs web release matrix format lint types install clean

demo: $(VENV)/.installed
	$(BIN)/python -m curious_jax.train --preset cpu --modules reach --target-success 0.95 \
	  --num-envs 38 --updates-per-cycle 40 --episodes 3800 --capacity 3800 \
	  --evaluation-interval 114 --evaluation-episodes 50 $(OPTIONS)

test: $(VENV)/.installed-dev
	$(RUN_TESTS)

check: lint types test

check-slow: $(VENV)/.installed-dev
	$(RUN_TESTS) --dist worksteal -m slow

# Both resume where they stopped. Ten seeds side by side are one program, two programs run at once, and XLA's lower
# optimisation level compiles in less time.
PROBE ?= distractors architectures learning_progress perturbation scaling
probe-results: $(VENV)/.installed-dev
	set -e; for name in $(PROBE); do \
	  from=runs/point-$$name; to=docs/results/point-$$name; mkdir -p $$to; \
	  XLA_FLAGS="--xla_backend_optimization_level=1 $$XLA_FLAGS" \
	  $(BIN)/python -m experiments.$$name --world point --seeds 0-9 --jobs 2 --out $$from; \
	  gzip -9nc $$from/table.csv > $$to/metrics.csv.gz; \
	  cp $$from/$$name.png $$from/summary.md $$to; \
	done

probe-curricula: $(VENV)/.installed-dev
	set -e; from=runs/point-curricula; to=docs/results/point-curricula; mkdir -p $$to; \
	XLA_FLAGS="--xla_backend_optimization_level=1 $$XLA_FLAGS" \
	$(BIN)/python -m experiments.curricula --world point --seeds 10-19 --jobs 2 --out $$from; \
	gzip -9nc $$from/table.csv > $$to/metrics.csv.gz; cp $$from/curricula.png $$from/summary.md $$to

results: $(VENV)/.installed
	$(BIN)/python -m experiments.checks.results

colab: $(VENV)/.installed
	$(BIN)/python -m experiments.checks.colab $(COLAB)

docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

web: $(VENV)/.installed web/node_modules/.package-lock.json
	$(BIN)/python web/make_data.py $(POLICIES)
	cd web && npm run build
	@echo "the page: web/dist/index.html; open it in a browser, or: python -m http.server -d web/dist"

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci

# RELEASE="--pythons 3.12 --kinds wheel" tries less.
release: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[release]'
	$(BIN)/python -m experiments.checks.release $(RELEASE)

# MATRIX="--pythons 3.13 --versions newest -- tests/learner" tries less.
matrix: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.checks.matrix $(MATRIX)

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

install: $(VENV)/.installed

# Tried in order: each must start, be 3.11 or newer and be able to make a virtual environment.
$(VENV)/bin/python:
	@for python in $(PYTHON) python3 python3.12 python3.11 python3.13 python3.14; do \
	  if $$python -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "Making $(VENV) with $$($$python --version)"; $$python -m venv $(VENV) && exit 0; exit 1; \
	  fi; \
	done; \
	echo "No suitable Python: curious_jax needs Python 3.11 or newer with venv (Debian, Ubuntu: apt install python3-venv)." >&2; \
	echo "If you have one elsewhere: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1

# constraints.txt: the one set of versions that the tests ran with.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[play,report,experiments]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,docs,notebooks,warp]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .venv-matrix build dist site web/data web/dist web/node_modules curious_jax/show/browser_page *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
