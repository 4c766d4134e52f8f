# Every verb first does what a fresh clone needs, so each can be the first one that is called.

PYTHON ?= python3
VENV := .venv
IN_VENV := $(VENV)/bin/python -m
CLIPPY := cargo clippy --locked --all-targets

.DEFAULT_GOAL := help
.PHONY: help demo test lint fmt bench matrix wheel clean develop

help: ## Say what each verb does
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build, start a local Spark, and show real messages become typed rows
	@PYTHON="$(PYTHON)" examples/demo.sh

test: lint ## Everything that must pass: lint, the Rust tests, the Python tests, Spark 4.0
	cargo test --locked
	$(IN_VENV) pytest tests/python tests/spark

lint: develop ## Formatting, clippy, ruff, mypy, and the typed stub against the binary
	cargo fmt --check
	$(CLIPPY) -- -D warnings
	$(CLIPPY) --features python -- -D warnings
	$(IN_VENV) ruff format --check .
	$(IN_VENV) ruff check .
	$(IN_VENV) mypy
	$(IN_VENV) mypy.stubtest --mypy-config-file pyproject.toml towpath._towpath

fmt: $(VENV)/installed ## Format Rust and Python
	cargo fmt
	$(IN_VENV) ruff format .
	$(IN_VENV) ruff check --fix .

bench: wheel .venv-bench/installed ## Measure against other readers and write benches/RESULTS.md
	.venv-bench/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	.venv-bench/bin/python benches/run.py

matrix: wheel ## The Spark tests on the newest Spark 3.5 and the newest Spark 4
	$(MAKE) matrix-3.5
	$(MAKE) matrix-4.3

wheel: $(VENV)/installed ## Build the wheel into dist/
	rm -rf dist
	$(VENV)/bin/maturin build --release --locked --out dist

clean: ## Remove everything that was built
	rm -rf benches/.cache benches/peers/jvm/target target dist .venv .venv-* demo-output .mypy_cache .ruff_cache .pytest_cache

# The extension module, built in the release profile and installed in place: the Python files stay editable.
develop: $(VENV)/installed
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(VENV)/bin/maturin develop --release --locked

$(VENV)/installed: requirements/dev.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(IN_VENV) pip install --quiet --requirement requirements/dev.txt
	touch $@

# One environment for each version of Spark, all with the same wheel.
matrix-%: .venv-spark-%/installed
	.venv-spark-$*/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	.venv-spark-$*/bin/python -m pytest tests/spark

.venv-spark-%/installed: requirements/spark-%.txt
	$(PYTHON) -m venv --clear .venv-spark-$*
	.venv-spark-$*/bin/python -m pip install --quiet --requirement requirements/spark-$*.txt
	touch $@

.venv-bench/installed: requirements/bench.txt
	$(PYTHON) -m venv --clear .venv-bench
	.venv-bench/bin/python -m pip install --quiet --requirement requirements/bench.txt
	touch $@

.PRECIOUS: .venv-spark-%/installed
