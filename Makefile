# Two commands do everything: `make train` and `make test`. Both set up what is missing, and are quick the second time.
# `make help` lists the rest.

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
DATA    ?= synthetic
WORKERS ?= 2

VENV    := $(CURDIR)/.venv
BIN     := $(VENV)/bin
RLIB    := $(CURDIR)/.rlib
export PYTHON VENV RLIB
export RETICULATE_PYTHON := $(BIN)/python
export R_LIBS := $(RLIB)

HAVE_R     = command -v Rscript >/dev/null && [ -d $(RLIB)/tfmuster ]
WITHOUT_R  = echo "R is missing, so this part is left out; see the message of the set-up above."
PY_SOURCES := $(shell find python -name '*.py')
R_SOURCES  := DESCRIPTION NAMESPACE $(wildcard R/*.R man/*.Rd)

.PHONY: help train test test-r test-parity test-python lint lint-python lint-r types man check coverage bench accuracy matrix clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'make train DATA=FILE|FOLDER WORKERS=N   real digits, more workers'

train: .stamps/python .stamps/r ## set everything up and train MNIST on two local workers, from R
	@if $(HAVE_R); then Rscript examples/train.R $(DATA) $(WORKERS); \
	else $(WITHOUT_R); $(BIN)/tfmuster launch -n $(WORKERS) -- tfmuster train mnist --dataset $(DATA) \
	  --optimizer adam --learning-rate 0.001 --epochs 5 --steps-per-epoch 0 --save model.keras; fi

test: lint types test-r test-parity test-python ## set everything up and run every test

test-r: .stamps/r .stamps/dev
	@if $(HAVE_R); then cd tests && CI=true NOT_CRAN=true Rscript testthat.R; else $(WITHOUT_R); fi

test-parity: .stamps/parity
	@if $(HAVE_R); then $(BIN)/python -m pytest tests/parity; else $(WITHOUT_R); fi

test-python: .stamps/dev
	$(BIN)/python -m pytest tests/python

lint: lint-python lint-r ## ruff and lintr

lint-python: .stamps/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-r: .stamps/r
	@if $(HAVE_R); then Rscript scripts/lint.R; else $(WITHOUT_R); fi

types: .stamps/dev ## mypy --strict on the Python core
	$(BIN)/mypy

man: .stamps/r ## write man/ and NAMESPACE anew from the roxygen comments in R/
	@if $(HAVE_R); then Rscript -e 'roxygen2::roxygenise(load_code = "source")'; else $(WITHOUT_R); fi

check: .stamps/r .stamps/dev ## R CMD check
	bash scripts/r-check.sh

coverage: .stamps/r .stamps/dev .stamps/parity ## how much of python/ and R/ the tests run, workers included; an hour or two
	bash scripts/coverage.sh

bench: .stamps/dev ## every benchmark, into results.json and results.md; each figure is a ratio of one run
	$(BIN)/python benchmarks/report.py

accuracy: .stamps/dev ## train every model on real digits with 1 and 2 workers: DATA=mnist.npz, about an hour
	$(BIN)/python benchmarks/accuracy.py $(DATA)

matrix: .stamps/system ## the Keras tests on the oldest, a middle and the newest TensorFlow and Keras
	bash scripts/matrix.sh

clean: ## remove what the other targets made, but for runs/ and models
	rm -rf .venv .venvs .rlib .stamps .pytest_cache .mypy_cache .ruff_cache .hypothesis *.Rcheck tfmuster_*.tar.gz

# A stamp is left only by what is complete, so a set-up that lacked something is tried again.
.stamps/system: scripts/system.sh
	@mkdir -p .stamps
	@bash scripts/system.sh $@

.stamps/python: pyproject.toml scripts/python.sh | .stamps/system
	@bash scripts/python.sh && touch $@

.stamps/dev: pyproject.toml scripts/python.sh .stamps/python
	@bash scripts/python.sh dev,legacy,spark && touch $@

.stamps/parity: .stamps/dev .stamps/r
	@if $(HAVE_R); then bash scripts/python.sh parity && touch $@; fi

# The R package carries the Python core, so it is installed anew when either changes.
.stamps/r: $(R_SOURCES) $(PY_SOURCES) scripts/r.sh scripts/r-packages.R | .stamps/system
	@bash scripts/r.sh && if $(HAVE_R); then touch $@; fi
