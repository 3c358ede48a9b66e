# Every target performs its own set-up: it works in a fresh clone, and takes only seconds when repeated.

VENV   := .venv
PYTHON := $(VENV)/bin/python
BOOT   ?= python3
T      ?= tests
# Two test processes: more help only on more cores, and each starts its own MongoDB. Each runs half of the tests in their
# order, so that the fixtures of a file are set up in one of them, and takes over what is left of the other's.
JOBS   ?= 2
# The gate always uses the same seed; 0 selects a random one, which the report prints.
FUZZ_REQUESTS ?= 20000
FUZZ_SEED     ?= 0
BOUNDARY_SEQUENCES ?= 20000
BOUNDARY_SEED ?= 0
CHAOS_EVENTS  ?= 100000
CHAOS_SEED    ?= 1
# The version that `make release` prepares.
VERSION       ?= $(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' identity/__init__.py)

# yes: the packages of constraints.txt, whose hashes pip checks. no: the newest that setup.py allows, for a platform for
# which one of them has no file.
LOCKED        ?= yes
# `make constraints UPGRADE=1` takes the newest versions; otherwise only what setup.py requires changes.
UPGRADE       ?=

# Compiling every module anew takes each process of the tests a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test check coverage fuzz boundary clients keycloak screenshots bench chaos docs site tutorials dist image release constraints format clean debian-run debian-test debian-bench

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  make test T=tests/api/test_webhooks.py    runs one part"

run: debian-run $(VENV)/.installed-run  ## start the service on port 9011, with its own MongoDB and Redis
	@exec $(PYTHON) run.py

test: debian-test $(VENV)/.installed-test  ## run the test suite, or the part given by T=
	@$(PYTHON) -m pytest -n $(JOBS) --dist worksteal $(T)

check: debian-test $(VENV)/.installed-test  ## run the complete gate: format, lint, types, layers, tests
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports
	$(PYTHON) -m pytest -n $(JOBS) --dist worksteal

# Measured apart from the gate: without sys.monitoring (Python 3.12) it doubles the work of every test.
coverage: debian-test $(VENV)/.installed-test  ## run the test suite and measure branch coverage, which must not fall
	$(PYTHON) -m pytest -n $(JOBS) --dist worksteal --cov --cov-report=term

fuzz: debian-test $(VENV)/.installed-test  ## send FUZZ_REQUESTS (20000) generated requests, with the seed FUZZ_SEED
	@FUZZ_REQUESTS=$(FUZZ_REQUESTS) FUZZ_SEED=$(FUZZ_SEED) $(PYTHON) -m pytest -q -s tests/fuzz

boundary: debian-test $(VENV)/.installed-test  ## run BOUNDARY_SEQUENCES (20000) of calls against administrators, with BOUNDARY_SEED
	@BOUNDARY_SEQUENCES=$(BOUNDARY_SEQUENCES) BOUNDARY_SEED=$(BOUNDARY_SEED) $(PYTHON) -m pytest -q -s tests/boundary

clients: debian-test $(VENV)/.installed-test  ## call the API with every official client, and with a generated one
	@ALL_CLIENTS=1 $(PYTHON) -m pytest -q tests/clients/test_generated_clients.py tests/clients/test_journeys.py

keycloak: debian-test $(VENV)/.installed-test  ## log in through Keycloak, which Maven downloads, as the identity provider
	@KEYCLOAK=1 $(PYTHON) -m pytest -q tests/federation/test_keycloak.py

screenshots: debian-test $(VENV)/.installed-test  ## write screenshots of all pages to build/screenshots
	@mkdir -p build/screenshots
	@SCREENSHOTS=$(CURDIR)/build/screenshots $(PYTHON) -m pytest -q tests/hosted/test_accessibility.py \
		tests/hosted/test_steps_browser.py tests/hosted/test_self_service_browser.py tests/hosted/test_builtin_mails.py tests/console/test_browser.py

bench: debian-bench $(VENV)/.installed-test  ## measure start-up time, memory and throughput
	@$(PYTHON) -m bench

chaos: debian-run $(VENV)/.installed-test  ## inject faults under load and check that none of CHAOS_EVENTS (100000) events is lost
	@$(PYTHON) -m chaos --events $(CHAOS_EVENTS) --seed $(CHAOS_SEED)

ha: debian-run $(VENV)/.installed-run  ## kill or cut off primaries and masters under load (HA= chooses scenarios), and check that nothing is lost
	@$(PYTHON) -m ha --only "$(HA)"

docs: $(VENV)/.installed-test  ## generate docs/configuration.md, the table of docs/security.md, and build/requirements.md (requirements and their tests)
	PYTHONPATH=. $(PYTHON) docs/configuration_reference.py > docs/configuration.md
	PYTHONPATH=. $(PYTHON) docs/role_permissions.py
	@mkdir -p build
	PYTHONPATH=. $(PYTHON) docs/requirements.py > build/requirements.md

site: $(VENV)/.installed-run  ## build the documentation as a site in build/site
	@$(call install,site,site)
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet

tutorials: debian-test $(VENV)/.installed-test  ## run the tutorials with all that they install (npm, Go, Maven), and print their times
	@TUTORIALS=1 $(PYTHON) -m pytest -q -s tests/tutorials

dist: $(VENV)/.installed-test  ## build sdist, wheel and bill of materials into dist/, twice, and compare
	@$(PYTHON) -m release.dist

image:  ## build the container image with buildah or docker, and try it (BASE=, IMAGE=, BUILD_FLAGS=)
	@BASE="$(BASE)" IMAGE="$(IMAGE)" BUILD_FLAGS="$(BUILD_FLAGS)" sh deploy/image.sh

release: $(VENV)/.installed-test  ## prepare the release VERSION (0.2.0): version, changelog section, text of the tag
	@$(PYTHON) -m release.prepare $(VERSION)

constraints:  ## write constraints.txt after a change of setup.py (UPGRADE=1: with the newest versions)
	@test -x build/constraints/bin/python || $(BOOT) -m venv build/constraints
	@build/constraints/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
	@build/constraints/bin/python -m release.constraints $(if $(UPGRADE),--upgrade)

format: $(VENV)/.installed-test  ## format the code and apply automatic lint fixes
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

clean:  ## remove the virtual environment and caches, but not the data in var/
	rm -rf $(VENV) build dist .hypothesis *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage .coverage.*

# Debian packages: missing ones are installed if make runs as root; otherwise their names are printed.
debian-run:
	@BOOT=$(BOOT) sh .ci/debian-packages venv mongod

debian-test:
	@BOOT=$(BOOT) sh .ci/debian-packages venv mongod browser nginx wrk ldap promtool examples

debian-bench:
	@BOOT=$(BOOT) sh .ci/debian-packages venv mongod wrk

# Reinstalled only when setup.py or constraints.txt changes.
$(VENV)/.installed-run: setup.py constraints.txt
	@test -x $(PYTHON) || $(BOOT) -m venv $(VENV)
	@echo "installing the packages of constraints.txt into $(VENV) ..."
	@$(call install,run,embedded)
	@touch $@

$(VENV)/.installed-test: setup.py constraints.txt
	@test -x $(PYTHON) || $(BOOT) -m venv $(VENV)
	@echo "installing the packages of constraints.txt, with those for tests, into $(VENV) ..."
	@$(call install,test,embedded$(comma)test)
	@touch $@ $(VENV)/.installed-run

# Install the packages of constraints.txt for $(1), or with LOCKED=no the extras $(2) of setup.py, and this package, editable.
comma := ,
PIP   := $(PYTHON) -m pip install --quiet --disable-pip-version-check
define install
if [ "$(LOCKED)" = yes ]; then \
    sh .ci/locked-packages $(1) > $(VENV)/locked.txt && $(PIP) --require-hashes --requirement $(VENV)/locked.txt \
        && $(PIP) --no-deps --no-build-isolation --editable . \
        || { echo "A package of constraints.txt cannot be installed here: see above. LOCKED=no installs those of setup.py." >&2; exit 1; }; \
else \
    $(PIP) --editable '.[$(2)]'; \
fi
endef
