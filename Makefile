# make demo   the main job on the embedded model, ends in results/demo/report.html
# make test   unit, property and workflow tests
# make check  style, types, workflow lint
PYTHON ?= python3
# Where pip finds torch; empty: the default index, whose Linux build brings CUDA (gigabytes).
TORCH_INDEX ?=
# 0 leaves out llama.cpp, the second engine, which is built from source: 4 minutes of one core.
LLAMA_CPP ?= 1
# Words handed to snakemake, say CORES=2.
CORES ?= all

BIN := .venv/bin
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)

ENGINES := .venv/runtime.done $(if $(filter-out 0,$(LLAMA_CPP)),.venv/llamacpp.done)

.PHONY: demo test check format clean help llamacpp

demo: $(ENGINES)
	@$(BIN)/python workflow/unlock.py
	@$(SNAKEMAKE) --rerun-incomplete
	@echo "The page is at results/demo/report.html"

test: .venv/dev.done $(ENGINES)
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

# Portable (no -march=native), and without the tools and servers: 83 compiler steps of 193.
LLAMA_CPP_ARGS := -DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DGGML_CCACHE=OFF \
	-DCMAKE_PROJECT_INCLUDE=$(CURDIR)/envs/nocommon.cmake

llamacpp: .venv/llamacpp.done

.venv/llamacpp.done: envs/llamacpp-build.lock envs/llamacpp.lock envs/nocommon.cmake | .venv/runtime.done
	@echo "Building llama.cpp into .venv, once, in minutes; LLAMA_CPP=0 leaves it out"
	$(BIN)/pip install --quiet --require-hashes -r envs/llamacpp-build.lock
	CMAKE_BUILD_PARALLEL_LEVEL=$${CMAKE_BUILD_PARALLEL_LEVEL:-2} CMAKE_ARGS="$(LLAMA_CPP_ARGS)" \
		$(BIN)/pip install --quiet --require-hashes --no-build-isolation -r envs/llamacpp.lock
	@touch $@
