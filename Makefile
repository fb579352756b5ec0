# Every target makes the environment it needs, once, in $(VENV). Without make (Windows, conda): the same commands are in README.md.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PY := $(BIN)/python
# Stamps: written last, so that an interrupted install is done again, as is one older than pyproject.toml. Each holds the
# checkout's path: scripts and links in an environment do too, so it does not work for a checkout that was moved or copied.
COURSE := $(VENV)/.llmc-course
TESTS := $(VENV)/.llmc-tests
BROWSER := $(VENV)/.llmc-browser
DOCS := $(VENV)/.llmc-docs

# What codespell reads; of data/ and exercises/ the rest is downloaded, or generated from solutions/.
SPELLED := README.md CHANGELOG.md Makefile pyproject.toml environment.yml docs .github .ci/run data/*.py llmc notebooks solutions exercises/AGENTS.md

ifneq ($(words $(VENV)),1)
$(error VENV must be one path without spaces, not "$(VENV)")
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install lab train update test gpu-test test-browser site exercises notebooks lint bench clean here

help:
	@echo 'make TARGET [ARGS="more options"] [PYTHON=python3.12] [VENV=.venv]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

lab: $(COURSE) ## open the course in JupyterLab, in your own copy if you like (ARGS: JupyterLab's options)
	@exec $(PY) -m llmc lab $(if $(ARGS),-- $(ARGS))

train: $(COURSE) ## train a small GPT-2 on this machine and have it write text (minutes; Ctrl-C stops it and keeps what it has)
	@exec $(PY) -m llmc train --precision auto $(ARGS)

update: $(COURSE) ## get the newest version of the course, and keep your answers
	@exec $(PY) -m llmc update $(ARGS)

test: $(TESTS) ## everything: the package's tests, every notebook and solution, the exercises, lint
	@exec $(PY) -m pytest -n 2 --dist loadscope $(ARGS)

gpu-test: ## the GPU's tests and the CUDA lessons on a real GPU; installs nothing: uses $(VENV) if it exists, else $(PYTHON)
	@exec $(if $(wildcard $(PY)),$(PY),$(PYTHON)) -m llmc.tests.on_gpu $(ARGS)

test-browser: $(BROWSER) ## an exercise in a real JupyterLab and Chromium; says why when it cannot (no Chromium)
	@exec $(PY) -m pytest -rs llmc/tests/house/test_browser.py $(ARGS)

site: $(DOCS) ## the course as pages to read, from the stored outputs, in build/site; its links are checked
	@exec $(PY) -m sphinx -E -W --keep-going -q -c docs -b html . build/site $(ARGS)

exercises: $(COURSE) ## regenerate exercises/ from solutions/
	@exec $(PY) -m llmc exercises build $(ARGS)

notebooks: $(COURSE) ## run every notebook and solution and store the outputs
	@exec $(PY) -m llmc.course.exercises.notebooks run $(ARGS) notebooks/*.ipynb solutions/*.ipynb

lint: $(TESTS) ## ruff and codespell on code, notebooks and pages (part of make test)
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m codespell_lib $(SPELLED)

bench: $(COURSE) ## milliseconds of a training step, next to what this machine's BLAS could do
	@exec $(PY) -m llmc bench $(ARGS)

install: $(COURSE) ## only make the environment; the other targets make it when they need it

clean: ## remove the environment and every cache; keeps runs/, data/ and your progress
	@if [ -e $(VENV)/pyvenv.cfg ]; then rm -rf $(VENV); fi
	@rm -rf .pytest_cache .ruff_cache .hypothesis build dist
	@find . -name .git -prune -o -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

here:
	@if [ -s $(COURSE) ] && [ "$$(cat $(COURSE))" != "$$(pwd -P)" ]; then \
	  echo "llmc: this checkout was moved or copied: $(VENV) was made for $$(cat $(COURSE)) and does not work here; make it again with \`make clean install\` (one to five minutes)." >&2; \
	  exit 2; fi

# Of pip's own lines only downloads are shown; its warnings and errors come through untouched.
define install
	@command -v '$(PYTHON)' >/dev/null || { echo 'llmc needs Python 3.11 or newer and there is no "$(PYTHON)": install one, or name it with make PYTHON=/path/to/python3.' >&2; exit 2; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11) and "llmc needs Python 3.11 or newer and $(PYTHON) is %d.%d: install a newer one, or name it with make PYTHON=/path/to/python3." % sys.version_info[:2] or 0)'
	@rm -f $(COURSE) $(TESTS) $(BROWSER) $(DOCS)
	@echo 'llmc: installing $(2) into $(VENV), once (one to five minutes) ...'
	@'$(PYTHON)' -m venv $(VENV)
	@{ $(PY) -m pip install --disable-pip-version-check -e '.$(1)' && for stamp in $(3); do pwd -P > $$stamp; done; } | while IFS= read -r line; do \
	  case "$$line" in \
	    *Downloading*MB*) printf '  %s\n' "$${line#"$${line%%[! ]*}"}";; \
	    Installing*) echo '  unpacking ...';; \
	  esac; done; test -e $(COURSE)
	@echo 'llmc: installed.'
endef

$(COURSE): pyproject.toml | here
	$(call install,[bf16],the course,$(COURSE))

$(TESTS): pyproject.toml | here
	$(call install,[test],the course and its tests (PyTorch is large),$(COURSE) $(TESTS))

comma := ,
$(BROWSER): pyproject.toml | here
	$(call install,[test$(comma)browser],the course$(comma) its tests and Playwright (PyTorch is large),$(COURSE) $(TESTS) $(BROWSER))

$(DOCS): pyproject.toml | here
	$(call install,[docs],the course and Sphinx,$(COURSE) $(DOCS))
