.DEFAULT_GOAL := help
BIN := .venv/bin
SOURCES := blizzard functions spark_job infra
# Another Spark of the machine must not stand in for the one that is set up here.
unexport SPARK_HOME SPARK_CONF_DIR PYTHONPATH
# Spark's Python workers; without it they start whatever python3 is first on PATH.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python

.PHONY: help setup demo test check format lock clean

help:
	@echo "make demo     watch files land in a local S3 and their rows in Delta (sets up first)"
	@echo "make test     all checks and all tests (sets up first); PYTEST='-k sweep' runs some"
	@echo "make check    format, lint, types and import contracts"
	@echo "make format   put the code into shape"
	@echo "make setup    virtual environment, jars, log store; PYTHON=… names the interpreter"
	@echo "make lock     requirements.lock from pyproject.toml and requirements.in (needs uv)"
	@echo "make clean    remove everything that set-up and tests made"

setup:
	@infra/setup/run

demo: setup
	@$(BIN)/python -m infra.local.demo

test: check
	@$(BIN)/python -m pytest $(PYTEST)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--no-emit-index-url --extra dev pyproject.toml requirements.in --output-file requirements.lock

clean:
	rm -rf .venv .cache jars build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
		spark-warehouse metastore_db derby.log
	find $(SOURCES) tests -name __pycache__ -type d -prune -exec rm -rf {} +
