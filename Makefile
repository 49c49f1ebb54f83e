# make demo   the main job on the embedded model, ends in results/demo/report.html
# make test   unit, property and workflow tests
# make check  style, types, workflow lint
PYTHON ?= python3
# Where pip finds torch; empty: the default index, whose Linux build brings CUDA (gigabytes).
TORCH_INDEX ?=
# Words handed to snakemake, say CORES=2.
CORES ?= all

BIN := .venv/bin
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)

.PHONY: demo test check format clean help

demo: .venv/runtime.done
	@$(BIN)/python workflow/unlock.py
	@$(SNAKEMAKE) --rerun-incomplete
	@echo "The page is at results/demo/report.html"

test: .venv/dev.done
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: .venv/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/pyright
	$(BIN)/snakemake --lint

format: .venv/dev.done
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

clean:
	rm -rf results .snakemake

help:
	@sed -n '1,3p' Makefile
	@$(SNAKEMAKE) --list-target-rules

.venv/runtime.done: envs/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is %d.%d; say make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "Installing into .venv: torch, then the locked requirements"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(BIN)/pip install --quiet --require-hashes -r envs/requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.venv/dev.done: .venv/runtime.done envs/dev.lock
	$(BIN)/pip install --quiet --require-hashes -r envs/dev.lock
	@touch $@
