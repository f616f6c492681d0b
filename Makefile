.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
MODEL ?= smollm2-135m
ENGINES ?= 1
PORT ?= 8080
# More options of `agentix serve`, e.g. ARGS="--policy fcfs"
ARGS ?=
# How long `make soak` takes
MINUTES ?= 30
# Which figures `make paper` makes, e.g. FIGURE="12 13"; all if none
FIGURE ?=

.PHONY: help serve paper speed gateway-speed overhead equality soak install install-dev test check lint types contracts unit integration slow fidelity format clean docs

help: ## list what can be done here
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

serve: install ## prepare everything and serve a small real model on this machine (MODEL, ENGINES, PORT, ARGS)
	@exec $(BIN)/agentix serve $(MODEL) --engines $(ENGINES) --port $(PORT) $(ARGS)

paper: ## redo the paper's evaluation in the simulator, in docs/results/paper/ (FIGURE)
	@scripts/install.sh paper
	@$(BIN)/python -m benchmarks.paper $(FIGURE)

speed: ## measure how fast the simulator itself is, in docs/results/simulator-speed.md (half an hour)
	@scripts/install.sh paper
	@$(BIN)/python -m benchmarks.simulator_speed

gateway-speed: install ## measure what the gateway adds to a call, into docs/results/gateway.md (five minutes)
	@$(BIN)/python -m benchmarks.gateway --json docs/results/gateway-speed.json --out docs/results/gateway.md

overhead: install ## what program scheduling costs per step of vLLM's scheduler, without a model (minutes)
	@$(BIN)/python -m benchmarks.scheduler_overhead

equality: install ## are answers those of stock vLLM, token for token, when calls are switched all the time? (a quarter of an hour)
	@$(BIN)/python -m benchmarks.greedy_equality

soak: install ## half an hour of calls of all sorts, leaving clients and little KV on a real engine (MINUTES)
	@$(BIN)/python -m benchmarks.soak --minutes $(MINUTES)

docs: ## build the documentation's site into site/, its figures and the command line's reference anew
	@scripts/install.sh docs
	@$(BIN)/python scripts/cli_reference.py
	@cd docs/images && ../../$(BIN)/agentix simulate --scenario figure2 --policy fcfs,mlfq,plas --gantt figure-2.svg >/dev/null
	@cd docs/images && ../../$(BIN)/agentix simulate --scenario figure9 --policy fcfs,atlas --gantt figure-9.svg >/dev/null
	@$(BIN)/zensical build --strict

install: ## prepare .venv for running (skips what is done; PYTHON=… picks the interpreter)
	@scripts/install.sh run

install-dev: ## the same with what the tests need
	@scripts/install.sh dev

test: install-dev lint types contracts unit integration ## every check and test, doing all set-up itself

check: install-dev lint types contracts unit ## everything but the tests that start processes and real engines

lint: install-dev ## style and formatting
	@$(BIN)/ruff check src tests benchmarks examples
	@$(BIN)/ruff format --check src tests benchmarks examples

types: install-dev ## static types, strict
	@$(BIN)/mypy

contracts: install-dev ## who may import whom
	@$(BIN)/lint-imports

unit: install-dev ## fast tests: unit, property, golden
	@$(BIN)/pytest -n auto --maxprocesses 8 tests/unit tests/property tests/golden

integration: install-dev ## tests over sockets and processes, some with the real engine or a browser
	@$(BIN)/pytest -n 2 --dist loadfile tests/integration tests/browser

slow: install-dev ## tests that take minutes each: real engines on Ray, frameworks and examples on the real model
	@$(BIN)/pytest tests/integration -m slow

fidelity: install-dev ## simulate the runs that were measured on a real engine, and say how far off the simulator is
	@$(BIN)/python -m benchmarks.fidelity predict

format: install-dev ## put the code into shape
	@$(BIN)/ruff check --fix src tests benchmarks examples
	@$(BIN)/ruff format src tests benchmarks examples

clean: ## remove .venv and caches (not the converted model)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
