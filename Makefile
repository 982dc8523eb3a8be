# Every target makes .venv if it is missing or older than what it is made from.
# Needs only make and Python 3.11 to 3.13; choose another one with `make PYTHON=python3.12 test`.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help demo test lint bench evaluate-small

help:
	@echo "make demo   compare three schedulers on a three-tenant scenario and write a report"
	@echo "make test   run all tests"
	@echo "make lint   check style, types and the import rule"
	@echo "make bench  run the benchmarks in bench/"
	@echo "make evaluate-small  run a reduced matrix of scenarios; an interrupted one goes on where it stopped"

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "Headway needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	@echo "Making .venv with all dependencies; this is done once and takes a minute"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(INSTALLED)
	$(BIN)/headway compare examples/three_tenants.yaml --policies fcfs,edf,lucas --out out/demo

# As many at a time as the smallest machine has cores, a module at a time, since its tests may share a server.
test: $(INSTALLED)
	$(BIN)/python -m pytest -ra -n 2 --dist loadscope

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src
	$(BIN)/lint-imports

# All cells of bench/live.py take hours; this is one of them.
bench: $(INSTALLED)
	@set -e; for script in bench/[a-z]*.py; do \
		options=; \
		case $$script in bench/live.py) options="--utilisations 0.8 --slas 4 --duration 10 --repeats 3";; esac; \
		echo "== $$script $$options"; $(BIN)/python "$$script" $$options; \
	done

evaluate-small: $(INSTALLED)
	$(BIN)/headway evaluate small --out out/evaluate-small
