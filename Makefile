.DEFAULT_GOAL := help
BIN := .venv/bin
SOURCES := blizzard functions spark_job infra
# Another Spark of the machine must not stand in for the one that is set up here.
unexport SPARK_HOME SPARK_CONF_DIR PYTHONPATH
# Container images set it. Without compiled files each of four workers would compile all tests again, and each process all sources.
unexport PYTHONDONTWRITEBYTECODE
# Spark's Python workers; without it they start whatever python3 is first on PATH.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python

.PHONY: help setup setup-python demo demo-kafka local-aws test test-localstack quick check check-stack format bench prove wheel package publish rollback probe stop lock advisories clean

help:
	@echo "make demo     watch files land in a local S3 and their rows in Delta (sets up first)"
	@echo "make demo-kafka  watch messages of a real broker and their rows in Delta, while job and broker are killed"
	@echo "make local-aws  the whole stack on this machine, until Ctrl-C; CONFIG=… names another configuration"
	@echo "make test     all checks and all tests (sets up first), in four workers; PYTEST='-k sweep' runs some"
	@echo "make test-localstack  sam deploy and aws s3 cp on LocalStack, from files to rows: a quarter of an hour (sets up first; no Docker)"
	@echo "make quick    format, lint, types, unit tests and the local engine's contract, in five minutes, without Java"
	@echo "make check    format, lint, types, import contracts, template and container (make check-stack: only these two)"
	@echo "make format   format the code and fix what ruff can fix"
	@echo "make setup    virtual environment, jars, log store, class archive; PYTHON=… names the interpreter"
	@echo "make setup-python  only the virtual environment: enough for blizzard on one machine, without Java"
	@echo "make bench    every benchmark, several hours at full size; BENCH='big small --scale 0.01' runs some, smaller"
	@echo "make prove    show that nothing is lost or duplicated: every campaign, 30 minutes; PROVE='kill --minutes 60' runs one, longer"
	@echo "make wheel    dist/blizzard-….whl, for pip install on other machines"
	@echo "make package  function bundles and the job's archive, into build/; ARCH=x86_64 for x86 workers"
	@echo "make publish  CONFIG=pipelines.yaml ARTIFACTS=s3://bucket: upload them with the configuration"
	@echo "make stop     STACK=blizzard: pause a stack and stop its application, which then takes a change; CANCEL=1 waits for no run"
	@echo "make rollback RELEASE=… ARTIFACTS=s3://bucket: prepare an earlier release for deployment"
	@echo "make probe    STACK=blizzard: one tiny run in the account, which says what is wrong there"
	@echo "make lock     write requirements.lock from pyproject.toml and requirements.in (needs uv)"
	@echo "make advisories  check all locked packages for known security advisories (needs PyPI itself, not a mirror)"
	@echo "make clean    remove everything that setup and tests created"

setup:
	@infra/setup/run

setup-python:
	@infra/setup/run --without-java

demo: setup
	@$(BIN)/python -m infra.local.demo

demo-kafka: setup
	@$(BIN)/python -m infra.local.demo.topics

local-aws: setup
	@$(BIN)/python -m infra.local.aws $(if $(CONFIG),--config "$(CONFIG)")

# The S3 server first: built by Go once, in a minute or two, but many times that next to four workers. So the broker: 43 MB of jars.
test: check
	@$(BIN)/python -m infra.tools --prebuild versitygw kafka
	@$(BIN)/python -m pytest -n 4 $(PYTEST)

# Apart from `make test`: 600 MB of other tools, and several minutes more. -s shows its progress.
test-localstack: setup
	@$(BIN)/python -m pytest -s tests/localstack $(PYTEST)

quick: setup-python
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(BIN)/python -m pytest -q -n auto -m "not spark" tests/unit tests/spark/test_table_engines.py tests/spark/test_task_engines.py

check: setup check-stack
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check-stack: setup .cache/stack-checked

# Half a minute for cfn-lint, checkov and sam, so only when something has changed that they or our own rules look at.
.cache/stack-checked: template.yaml Dockerfile docs/runbook.md requirements.lock $(wildcard infra/template/*.py infra/tools/* infra/setup/commands.py \
		blizzard/setup/file_lock.py blizzard/setup/stamps.py blizzard/environment.py blizzard/errors.py \
		functions/*.py functions/*/*.py spark_job/*.py spark_job/*/*.py spark_job/*/*/*.py) | setup
	@$(BIN)/python -m infra.template
	@touch $@

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: setup
	@$(BIN)/python -m hatchling build -t wheel

package: setup
	@$(BIN)/python -m infra.package --arch $(or $(ARCH),arm64)

publish: setup
	@$(BIN)/python -m infra.publish --config "$(CONFIG)" --artifacts "$(ARTIFACTS)" --environment "$(or $(SAM_ENV),default)"

rollback: setup
	@$(BIN)/python -m infra.publish --release "$(RELEASE)" --artifacts "$(ARTIFACTS)" --environment "$(or $(SAM_ENV),default)"

stop: setup
	@$(BIN)/python -m infra.stop --stack "$(STACK)" $(if $(CANCEL),--cancel)

probe: setup-python
	@$(BIN)/python -m infra.probe --stack "$(STACK)" $(if $(JSON),--json)

bench: setup
	@$(BIN)/python -m benchmarks $(BENCH)

prove: setup
	@$(BIN)/python -m tests.proof $(PROVE)

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--no-emit-index-url --extra dev --extra kafka pyproject.toml requirements.in --output-file requirements.lock
	$(BIN)/python -m infra.package.requirements
	for tool in sam checkov pip-audit localstack awscli uv; do \
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
			--no-emit-index-url infra/tools/$$tool.in --output-file infra/tools/$$tool.lock || exit 1; done

# --strict: a package that the index does not know is reported too.
advisories: setup
	@ended=0; for lock in requirements.lock functions/requirements.txt infra/tools/*.lock; do echo "$$lock:"; \
		$(BIN)/python -m infra.tools pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
			-r $$lock || ended=1; done; exit $$ended

clean:
	rm -rf .venv .cache jars build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
		spark-warehouse metastore_db derby.log
	find $(SOURCES) benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +
