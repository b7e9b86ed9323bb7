# Two commands do everything: `make train` and `make test`. Both set up what is missing, and are quick the second time.
# `make help` lists the rest.

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
DATA    ?= synthetic
WORKERS ?= 2
# Processes of pytest: some of them wait, for servers, limits and each other.
PROCESSES ?= 5

VENV    := $(CURDIR)/.venv
BIN     := $(VENV)/bin
RLIB    := $(CURDIR)/.rlib
export PYTHON VENV RLIB
export RETICULATE_PYTHON := $(BIN)/python
export R_LIBS := $(RLIB)

HAVE_R      = command -v Rscript >/dev/null && [ -d $(RLIB)/tfmuster ]
WITHOUT_R   = echo "R is missing, so this part is left out; see the message of the set-up above."
RUN_R_TESTS = if $(HAVE_R); then cd tests && CI=true NOT_CRAN=true Rscript testthat.R; else $(WITHOUT_R); fi
PY_SOURCES  := $(shell find python -name '*.py')
PYTEST      = $(BIN)/python -m pytest -n $(PROCESSES) --no-loadscope-reorder
SUITES      = tests/python $$(if $(HAVE_R); then echo tests/testthat tests/parity; fi)
R_SOURCES   := DESCRIPTION NAMESPACE $(wildcard R/*.R man/*.Rd)

.PHONY: help train test test-all test-fast test-unit test-r-fast test-r test-keras3 test-parity lint lint-files lint-python \
  lint-imports lint-docs lint-r types man site check coverage bench accuracy matrix seams \
  docker-requirements wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'make train DATA=FILE|FOLDER WORKERS=N   real digits, more workers'

train: .stamps/python .stamps/r ## set everything up and train MNIST on two local workers, from R
	@if $(HAVE_R); then Rscript examples/train.R "$(DATA)" "$(WORKERS)"; \
	else echo "R is missing, so the training is started from the command line; see the message of the set-up above."; \
	  $(BIN)/tfmuster launch -n $(WORKERS) -- tfmuster train mnist --dataset "$(DATA)" \
	  --epochs 5 --steps-per-epoch 0 --save model.keras; fi

# R's, Python's and their comparison in one run, whose processes share the files.
test: lint types .stamps/dev .stamps/jax .stamps/r .stamps/r-develop .stamps/parity .stamps/system-test ## set everything up and test every part, each engine by one job; 20 to 50 minutes on two cores
	@$(PYTEST) -m "not rest and not timed" $(SUITES)

test-all: lint types .stamps/dev .stamps/jax .stamps/r .stamps/r-develop .stamps/parity .stamps/system-test .stamps/site .stamps/torque ## every test, as continuous integration does; an hour or more
	@$(PYTEST) -m "not timed" $(SUITES); status=$$?; \
	$(BIN)/python -m pytest -m timed tests/python && exit $$status

test-fast: lint types test-unit test-r-fast ## what starts no job, in two minutes: lint, types, unit tests, part of R's

test-unit: .stamps/dev
	$(BIN)/python -m pytest tests/python/unit

test-r-fast: export TFMUSTER_TEST_FAST = true
test-r-fast: .stamps/r .stamps/r-develop .stamps/dev
	@$(RUN_R_TESTS)

test-r: .stamps/r .stamps/r-develop .stamps/dev .stamps/system-test ## R's tests
	@$(RUN_R_TESTS)

# R's keras3, tensorflow, tfruns and tfdatasets are on CRAN only. They are built into .rlib, with a newer reticulate.
test-keras3: .stamps/r .stamps/r-develop .stamps/dev ## the tests with R's keras3 and tfruns, which are installed from CRAN
	@if $(HAVE_R); then Rscript scripts/r-packages.R keras3 .stamps/r-packages-keras3.log && \
	  cd tests && CI=true NOT_CRAN=true Rscript ../scripts/test-keras3.R; else $(WITHOUT_R); fi

test-parity: .stamps/parity ## R and Python, compared through rpy2
	@if $(HAVE_R); then $(BIN)/python -m pytest -n 2 --dist loadfile tests/parity; else $(WITHOUT_R); fi

lint: lint-files lint-python lint-imports lint-docs lint-r ## tracked files, ruff, import-linter, the language of the documentation, lintr

# Conflict markers, and files that git should not track.
lint-files: .stamps/dev
	$(BIN)/python scripts/lint_files.py

lint-python: .stamps/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

# The floors of tfmuster's packages: the contract in pyproject.toml.
lint-imports: .stamps/dev
	$(BIN)/lint-imports

# Sentences of at most 30 words, and none of some phrases.
lint-docs: .stamps/dev
	$(BIN)/python scripts/lint_docs.py

lint-r: .stamps/r .stamps/r-develop
	@if $(HAVE_R); then Rscript scripts/lint.R; else $(WITHOUT_R); fi

types: .stamps/dev ## mypy --strict on the Python core
	$(BIN)/mypy

options: .stamps/dev ## write R's functions and texts that come from the table of options and docs/
	$(BIN)/python scripts/write_r_options.py

man: .stamps/r .stamps/r-develop ## write man/ and NAMESPACE anew from the roxygen comments in R/
	@if $(HAVE_R); then Rscript -e 'roxygen2::roxygenise(load_code = "source")'; else $(WITHOUT_R); fi

site: .stamps/site ## build the documentation into build/site, offline; TFMUSTER_VIGNETTES=text is quick
	$(BIN)/python scripts/site.py

check: .stamps/r .stamps/r-develop .stamps/dev ## R CMD check
	bash scripts/r-check.sh

check-cran: .stamps/r .stamps/r-develop ## R CMD check --as-cran as for a first submission: no Python, examples of 5 s at most
	bash scripts/r-check-cran.sh

coverage: .stamps/r .stamps/r-develop .stamps/dev .stamps/jax .stamps/parity .stamps/system-test ## how much of python/ and R/ the tests run, workers included; an hour or two
	bash scripts/coverage.sh

bench: .stamps/dev .stamps/system-test .stamps/torch ## every benchmark, into results.json and results.md; each figure is a ratio of one run
	PYTHONPATH=$(CURDIR)/tests/python $(BIN)/python benchmarks/report.py

accuracy: .stamps/dev ## train every model on real digits with 1 and 2 workers: DATA=mnist.npz, about an hour
	$(BIN)/python benchmarks/accuracy.py $(DATA)

matrix: .stamps/system-run ## the Keras tests on the oldest, a middle and the newest TensorFlow and Keras
	bash scripts/matrix.sh

seams: .stamps/system-run ## the names that tfmuster needs of Keras and TensorFlow, in their newest releases and nightly builds
	bash scripts/seams.sh

docker-requirements: .stamps/dev ## take new releases of Python's packages into the image of docker/
	bash scripts/docker-requirements.sh

wheel: .stamps/dev ## the Python package with compiled libraries, into dist/
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BIN)/python -m build --no-isolation

clean: ## remove what the other targets made, but for runs/ and models
	rm -rf .venv .venvs .rlib .stamps .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist .site \
	  *.Rcheck tfmuster_*.tar.gz

# A stamp is left only by what is complete, so a set-up that lacked something is tried again. One after the other,
# whatever -j says: apt-get has a lock. What is printed is one line a step, the rest is in .stamps/*.log.
.stamps/system-develop: | .stamps/system-run
.stamps/system-test: | .stamps/system-develop
.stamps/system-%: scripts/system.sh
	@mkdir -p .stamps
	@bash scripts/system.sh $* $@

.stamps/torque: scripts/pbs-commands.sh | .stamps/system-test
	@bash scripts/pbs-commands.sh $@ && touch $@

.stamps/python: pyproject.toml scripts/python.sh | .stamps/system-run
	@bash scripts/python.sh tensorflow && touch $@

.stamps/dev: pyproject.toml scripts/python.sh .stamps/python
	@bash scripts/python.sh tensorflow,dev,legacy,spark && touch $@

.stamps/site: scripts/python.sh .stamps/dev .stamps/r .stamps/r-develop
	@bash scripts/python.sh site && touch $@

# An environment of its own, because TensorFlow imports JAX if it is there, for 0.6 s of each process.
.stamps/jax: .stamps/dev
	@bash scripts/python.sh jax && touch $@

# PyTorch, which benchmarks/ compares with.
.stamps/torch: scripts/python.sh | .stamps/dev
	@if bash scripts/python.sh torch; then touch $@; else echo "The benchmarks leave out PyTorch."; fi

.stamps/parity: .stamps/dev .stamps/r | .stamps/system-test
	@if $(HAVE_R); then bash scripts/python.sh parity && touch $@; fi

# The R package carries the Python core, so it is installed anew when either changes.
.stamps/r: $(R_SOURCES) $(PY_SOURCES) scripts/r.sh scripts/r-packages.R | .stamps/system-run
	@bash scripts/r.sh && if $(HAVE_R); then touch $@; fi

.stamps/r-develop: DESCRIPTION scripts/r.sh scripts/r-packages.R | .stamps/system-develop
	@bash scripts/r.sh develop && if command -v Rscript >/dev/null; then touch $@; fi
