# Two commands: `make demo` shows it, `make test` proves it. `make help` lists the rest.
# Everything they need is installed by what they call; built things are kept in the user's cache folder.

PYTHON ?= python3
SECONDS ?= 300
JOBS ?= 500
BIN    := .venv/bin
PY     := PYTHONPATH=tests $(BIN)/python
PYTEST := $(BIN)/python -m pytest
# Tests that need a cluster mostly wait, so there are more processes than cores. Who shares a cluster shares a process:
# tests/support/lanes.py.
BESIDE := -n 4 --dist loadscope --no-loadscope-reorder
UV     := 0.13.9# in step with requirements/dev.txt
# What mypy knows of torch and kopf is worth 40 s in every fresh clone.
export MYPY_CACHE_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/elasticjob/mypy

.DEFAULT_GOAL := help
.PHONY: help venv tools demo clean-cluster test test-unit test-integration test-e2e explore bench-autoscaler bench-lifecycle bench-rendezvous soak kill-everywhere lint format lock

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | column -t -s "$$(printf '\t')"

venv: .venv/.ready ## the virtual environment with the exact versions of requirements/dev.txt

.venv/.ready: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed (kopf and torch need it); name one with: make PYTHON=python3.X ...")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "installing python3-venv"; apt-get install -qy python3-venv; }
	@echo "virtual environment (about 6 GB, most of it torch; half a minute to a few minutes)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check uv==$(UV)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

tools: venv ## the cluster's programs: Debian packages, and Go modules built once
	@$(PY) -m cluster tools

demo: venv ## an elastic job on a real Kubernetes, from nothing (CLUSTER=local|kind|current)
	@$(PY) -m demo

clean-cluster: ## take the demo's cluster down: no process, mount, link or namespace stays
	@$(PY) -m cluster down

test: venv ## every test, on a fresh machine too
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint test-unit
	@$(MAKE) --no-print-directory tools
	@$(PYTEST) $(BESIDE) tests/e2e tests/integration

lint: venv ## formatting, rules, types, layers
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/ruff check --quiet
	@$(BIN)/mypy
	@$(BIN)/mypy --python-version 3.10 rendezvous
	@$(BIN)/lint-imports

test-unit: venv ## no network, no cluster
	@$(PYTEST) -n 2 tests/unit

test-integration: tools ## a real control plane: etcd, API server, scheduler, controllers
	@$(PYTEST) $(BESIDE) tests/integration

test-e2e: tools ## cluster nodes, real pods, real torchrun
	@$(PYTEST) $(BESIDE) tests/e2e

bench-autoscaler: venv ## policies side by side on public traces: tables and plots into docs/autoscaler (minutes)
	@$(PY) -m bench.autoscaler

explore: venv ## the protocol's states, every order of steps, beyond what make test walks (10 minutes; SECONDS=300 for each of 49 worlds)
	@$(PY) -m support.rendezvous_exploring $(SECONDS)

bench-rendezvous: tools ## our rendezvous beside c10d and etcd-v2: build/bench/rendezvous.jsonl (8 to 12 minutes)
	-@$(BIN)/uv pip install --quiet --python $(BIN)/python --group bench
	@$(PY) -m bench.rendezvous

bench-lifecycle: tools ## from an event to the first step after it, on a real cluster: build/bench/lifecycle.jsonl (minutes)
	@$(PY) -m bench.lifecycle

soak: tools ## jobs that come and go, and what stays of them: build/bench/soak.jsonl (JOBS=500: some 6 minutes)
	@$(PY) -m bench.soak $(JOBS)

kill-everywhere: tools ## the operator killed before and after every single write: build/bench/kills.jsonl (minutes)
	@$(PY) -m bench.kills

format: venv ## write what lint wants to read
	@$(BIN)/ruff format --quiet
	@$(BIN)/ruff check --quiet --fix

lock: venv ## renew requirements/dev.txt from pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --group dev --extra operator -o requirements/dev.txt pyproject.toml
