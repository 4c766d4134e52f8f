# Every verb first does what a fresh clone needs, so each can be the first one that is called.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
IN_VENV := $(BIN)/python -m
# pip takes four times as long.
INSTALL := $(BIN)/uv pip install --quiet --python
CASES ?= 2000
SECONDS_EACH ?= 120
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/)java

.DEFAULT_GOAL := help
.PHONY: help demo check check-rust check-python test test-rust test-python docs lint lint-rust lint-python deny audit fmt bench fuzz soak matrix wheel optimized jars clean develop extension need-java

help: ## Say what each verb does
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build, start a local Spark, and show real messages become typed rows
	@PYTHON="$(PYTHON)" examples/demo.sh

check: ## What needs no Java: lint, Rust, Python without Spark
	$(MAKE) --jobs 2 $(APART) check-rust check-python

# One after the other: both build in the same folder, and one that waits for the other's lock would occupy a core.
check-rust: lint-rust
	$(MAKE) test-rust

check-python: lint-python
	$(IN_VENV) pytest --numprocesses 2 --dist loadfile -m "not slow and not soak" $(UNIT)

# The jars come first, so that missing Java or Maven is reported at once.
test: need-java ## Everything that must pass: lint, the site, Rust, Python, Spark 4.0 with Kafka and Delta
	$(MAKE) --jobs 2 $(APART) jars lint-rust lint-python docs
	$(MAKE) --jobs 2 test-rust test-python NICE=nice

# Two run at the same time, since none uses two cores throughout. The output of each is kept together, if this make supports it.
APART := $(if $(filter output-sync,$(.FEATURES)),--output-sync)

UNIT := tests/python tests/lakehouse/unit

# Clippy compiles the crate as rustc does. So one build serves the lints and the tests.
check test lint: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
check test lint: export CLIPPY_ARGS := -Dwarnings

# Without its flags, as the tests of the documentation cannot reach the job server of this make. `make test` runs them beside
# pytest at a lower priority: NICE is `nice` there.
test-rust:
	MAKEFLAGS= $(NICE) cargo test --locked

# Two processes take whole files from one queue, and each has one JVM. The files of tests/lakehouse take longest, so they are first.
test-python: develop jars
	$(IN_VENV) pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/lakehouse tests/spark tests/python

# A broken link or a name without a description is an error, but not with --quiet.
docs: develop .venv-docs/installed ## Build the documentation site into target/site
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=python .venv-docs/bin/python -m mkdocs build --strict

lint: lint-rust lint-python ## Formatting, clippy, ruff, mypy, and the typed stub against the binary

lint-rust:
	cargo fmt --check
	cargo metadata --locked --format-version 1 --manifest-path tests/fuzz/Cargo.toml >/dev/null
	cargo test --locked --no-run --all-targets

# The build of the extension has the lints of the feature `python`.
lint-python: develop
	$(IN_VENV) ruff format --check .
	$(IN_VENV) ruff check .
	$(IN_VENV) mypy
	$(IN_VENV) mypy.stubtest --mypy-config-file pyproject.toml towpath._towpath
	@if cargo deny --version >/dev/null 2>&1; then $(MAKE) deny; else echo "cargo-deny is not installed, so licences were not checked; 'make deny' installs it."; fi

deny: ## Licences, duplicate crates and sources of the dependencies; installs cargo-deny once, which takes minutes
	@cargo deny --version >/dev/null 2>&1 || cargo install --locked --version 0.20.2 cargo-deny
	cargo deny --locked --offline check licenses bans sources

# The advisories are fetched, so this is not part of `make test`: a new one must not fail a change that has nothing to do with it.
audit: .venv-audit/installed ## Known vulnerabilities of the crates and of the pinned Python packages; needs the network
	@cargo deny --version >/dev/null 2>&1 || cargo install --locked --version 0.20.2 cargo-deny
	cargo deny --locked check advisories
	@for pins in requirements/*.txt; do echo "$$pins"; .venv-audit/bin/pip-audit --requirement "$$pins" --disable-pip --require-hashes || exit 1; done

fmt: $(VENV)/installed ## Format Rust and Python
	cargo fmt
	$(IN_VENV) ruff format .
	$(IN_VENV) ruff check --fix .

# Two environments, since Spark's Kafka source is not available for the newest Spark. Without Java or Maven there are no jars,
# and the parts that need them are marked in the table.
bench: optimized .venv-bench/installed .venv-bench-kafka/installed ## Measure against other readers and write benches/RESULTS.md
	-$(MAKE) jars
	.venv-bench/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	.venv-bench-kafka/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	.venv-bench/bin/python benches/run.py $(PARTS)

# The properties first, so that the table of the targets is the end of the output.
fuzz: ## Fuzz every target for SECONDS_EACH=120 seconds, and try CASES=2000 of each property
	PROPTEST_CASES=$(CASES) cargo test --locked --release --test dialect
	PROPTEST_CASES=$$(($(CASES) / 5)) cargo test --locked --release --test differential
	SECONDS_EACH=$(SECONDS_EACH) tests/fuzz/run.sh $(TARGETS)

soak: jars target/jars/s3/fetched target/jars/hdfs/fetched wheel ## Bulk captures, also through Kafka into Delta while drivers and brokers are killed; needs the captures
	$(IN_VENV) pytest tests/python -m soak
	$(IN_VENV) pytest tests/lakehouse -m soak -s
	TOWPATH_TEST_MERGE=spark $(IN_VENV) pytest $(addprefix tests/lakehouse/test_,combinations.py key_deletes.py guarantees.py order.py rough_conditions.py followed_statements.py migrations.py tables_of_schemas.py)

matrix: wheel ## The Spark tests on the newest Spark 3.5, on 4.1 with Delta and Iceberg, and on the newest Spark 4
	$(MAKE) matrix-3.5
	$(MAKE) matrix-4.1
	$(MAKE) lakehouse-4.1
	$(MAKE) matrix-4.3

# After `develop`: two maturins at once move each other's library away.
wheel: develop ## Build the wheel into dist/
	rm -rf dist
	$(BIN)/maturin build --release --locked --out dist

# As `wheel`, but the compiler knows from a run of benches/train.py what is executed most. Without LLVM's tools it is the same.
PGO = $(if $(wildcard $(shell rustc --print sysroot)/lib/rustlib/*/bin/llvm-profdata*),--pgo)
optimized: $(VENV)/installed ## Build the wheel of a release into dist/: faster than `wheel`, and built twice; needs 'rustup component add llvm-tools'
	rm -rf dist
	$(BIN)/maturin build --release --locked $(PGO) --out dist

jars: need-java target/jars/kafka/fetched target/jars/spark/fetched ## Fetch a Kafka broker and the jars of Spark's formats

clean: ## Remove everything that was built
	rm -rf benches/.cache benches/peers/jvm/target target dist .venv .venv-* demo-output .mypy_cache .ruff_cache .pytest_cache

need-java:
	@$(JAVA) -version 2>&1 | grep -qE 'version "(17|21)[."]' || { echo "missing: a JDK 17 or 21, which Spark 4.0 and Kafka need; '$(JAVA)' is not one. Set JAVA_HOME to one." >&2; exit 1; }

# The folder is recreated, so that no jar of an older version remains.
target/jars/%/fetched: tests/lakehouse/jars/%.pom.xml
	@command -v mvn >/dev/null || { echo "missing: Maven, which fetches the Kafka broker and the Spark jars for tests/lakehouse." >&2; exit 1; }
	rm -rf $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(@D)"
	touch $@

# The extension module, installed in place: the Python files stay editable. It is compiled while the packages are installed.
MATURIN := VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --quiet --locked
develop: $(VENV)/builder
	$(MAKE) --jobs 2 extension $(VENV)/installed
	$(MATURIN)

extension: $(VENV)/builder
	$(MATURIN) --skip-install

$(VENV)/builder: requirements/build.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(IN_VENV) pip install --quiet --no-compile --requirement $<
	touch $@

$(VENV)/installed: requirements/dev.txt $(VENV)/builder
	$(INSTALL) $(VENV) --requirement $<
	touch $@

# One environment for each version of Spark, all with the same wheel.
matrix-%: .venv-spark-%/installed
	.venv-spark-$*/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	.venv-spark-$*/bin/python -m pytest tests/spark

# What needs Spark's Kafka source runs with Spark 4.0 only.
lakehouse-%: .venv-spark-%/installed target/jars/spark-%/fetched
	.venv-spark-$*/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	.venv-spark-$*/bin/python -m pytest $$(grep -LE "kafka|object_store|hdfs" tests/lakehouse/test_*.py)

# Every other environment is created from the requirements file of the same name.
.venv-%/installed: requirements/%.txt $(VENV)/builder
	$(PYTHON) -m venv --clear $(@D)
	$(INSTALL) $(@D) --requirement $<
	touch $@

.PRECIOUS: .venv-%/installed
