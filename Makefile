# make demo: see nccldoctor catch a hung rank on this machine.   make test: everything that CI runs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST ?= -n 2 --dist loadfile

.PHONY: demo test lint docs clean

demo: $(VENV)/.torch
	@rm -rf .demo
	@$(BIN)/nccldoctor run --nproc 2 --hang-timeout 10 --run-dir .demo examples/demo_train.py; \
	test -f .demo/report.html && echo "The report: $(CURDIR)/.demo/report.html"

test: lint
	$(BIN)/python -m pytest -q $(PYTEST)

lint: $(VENV)/.dev
	$(BIN)/ruff format --check nccldoctor tests
	$(BIN)/ruff check nccldoctor tests
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

clean:
	rm -rf $(VENV) .demo dist build site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "Python is missing: install Python 3.10 or later, or say make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "$$($(PYTHON) -V) is too old: nccldoctor needs 3.10 or later; say make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing: apt-get install python3-venv (Debian, Ubuntu)"; rm -rf $(VENV); exit 1; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade pip

$(VENV)/.torch: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[torch]' || { echo "pip could not install nccldoctor and torch: see above; is there a network?"; exit 1; }
	@touch $@

$(VENV)/.dev: $(VENV)/.torch
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[torch,dask,remote,dev]' || { echo "pip could not install the development tools: see above; is there a network?"; exit 1; }
	@touch $@
