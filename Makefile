# Everything a newcomer needs: `make demo` and `make test`. Only python3 (3.11 or newer) and make are taken
# for granted; the rest is installed into .venv, at the versions of constraints.txt.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
UV_VERSION := 0.13.9
PACKAGES := domain projections ledger grpc client cli examples
TYPED := domain projections ledger grpc client cli examples
# Strict editable mode is a tree of links: a new file needs a new installation.
SOURCES := $(shell find $(PACKAGES) -name '*.py' -o -name '*.pyi' -o -name '*.gz' | grep -v __pycache__ | LC_ALL=C sort)
SOURCE_LIST := $(VENV)/sources-$(shell printf '%s' '$(SOURCES)' | cksum | cut -d' ' -f1)

.PHONY: demo test check lint types imports contract gen release-contract lock setup

demo: setup
	@$(BIN)/turnledger demo

test: setup
	@$(BIN)/python -m pytest -n 2

check: lint types imports contract

setup: $(VENV)/installed

$(VENV)/uv: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "turnledger needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

$(SOURCE_LIST): | $(VENV)/uv
	@rm -f $(VENV)/sources-*
	@touch $@

$(VENV)/installed: $(VENV)/uv pyproject.toml constraints.txt $(SOURCE_LIST)
	@echo "setting up $(VENV) …"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt \
	  --config-settings editable_mode=strict --editable '.[server,demo]' --group dev
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy $(foreach package,$(TYPED),-p turnledger.$(package)) -p benchmarks

imports: setup
	$(BIN)/lint-imports

contract: setup
	cd protos && ../$(BIN)/buf lint && ../$(BIN)/buf format --diff --exit-code && ../$(BIN)/buf breaking --against released.binpb

gen: setup
	PATH=$(BIN):$$PATH $(BIN)/python -m grpc_tools.protoc -Iprotos --python_out=grpc/_gen --grpc_python_out=grpc/_gen \
	  --mypy_out=quiet:grpc/_gen --mypy_grpc_out=quiet:grpc/_gen protos/turnledger/v1/*.proto
	$(BIN)/python tests/support/async_to_sync.py

# After a release: what later changes of the contract are compared with.
release-contract: setup
	cd protos && ../$(BIN)/buf build --as-file-descriptor-set -o released.binpb

lock: setup
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --no-emit-index-url \
	  --all-extras --group dev pyproject.toml --output-file constraints.txt
