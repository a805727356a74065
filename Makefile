# `make` lists the targets. Every target makes the virtual environment it needs.

PYTHON ?= python3
VENV := .venv
DEMO_VENV := .venv-demo
DEMO_HOME := build/demo
BIN := $(VENV)/bin
SCORECARD_PLATFORMS ?= embedded ceph-rgw minio seaweedfs versitygw
FUZZ_SECONDS ?= 300
FUZZ_TIMES ?= 50
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help demo picture test test-benchmarks test-platforms test-browser test-long platforms browser peers check format bench scorecard docs lock dist fuzz clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(DEMO_VENV)/installed ## measure the embedded store through S3 and TSM in turn, compare, write the page
	@rm -rf $(DEMO_HOME)
	@mkdir -p $(DEMO_HOME)
	@ARCHIVER_HOME=$(abspath $(DEMO_HOME)) VENV_BIN=$(abspath $(DEMO_VENV)/bin) sh demo.sh

picture: browser ## take the picture of README.md: the page that the last demo wrote
	mkdir -p docs/images
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,800 \
		--screenshot=docs/images/demo.png file://$(abspath $(DEMO_HOME))/page/comparison.html

# Tests wait for other processes and for the disk: four at a time keep two cores busy. A process of pytest that ended
# is not replaced: pytest-xdist 3.8 then waits for ever (its issue 1323).
BY_FILE := --dist loadfile --max-worker-restart 0

test: $(VENV)/installed ## run the tests (minutes)
	$(BIN)/python -m pytest -q -n 4 $(BY_FILE) --no-loadscope-reorder -m "not long and not platforms and not browser" \
		--ignore=tests/benchmarks

test-benchmarks: $(VENV)/installed ## run every benchmark small, and test what they say
	$(BIN)/python -m pytest -q -n 2 $(BY_FILE) -m "not long" tests/benchmarks

test-platforms: $(VENV)/installed ## run the tests against real platforms
	$(BIN)/python -m pytest -q -n 2 $(BY_FILE) -m platforms

test-browser: $(VENV)/installed ## look at the reports in Chromium
	$(BIN)/python -m pytest -q -m browser

test-long: $(VENV)/installed ## run the tests that take longer, and the properties with all of their examples
	ARCHIVER_EXAMPLES=all $(BIN)/python -m pytest -q -m "long or hypothesis"

platforms: $(VENV)/installed ## install Ceph RGW, MinIO, SeaweedFS and versitygw into the cache folder (minutes, once; needs Go and apt-get)
	$(BIN)/archiver platform install

browser: ## install Chromium from the system's packages, where it is missing (once; needs apt-get)
	@command -v chromium || { $(SUDO) apt-get update && $(SUDO) apt-get install -y --no-install-recommends chromium; }

# What cannot be installed is left out of the comparison.
peers: $(VENV)/installed ## install what `make bench` compares with: wrk (needs apt-get), warp, minio-go and MinIO (need Go)
	@command -v wrk || { $(SUDO) apt-get update && $(SUDO) apt-get install -y --no-install-recommends wrk; } || true
	$(BIN)/python -m benchmarks.peers
	-$(BIN)/archiver platform install minio

check: $(VENV)/installed ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -m "not platforms" tests/docs tests/test_docs.py tests/test_layout.py

format: $(VENV)/installed ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: peers ## run the benchmarks; write their results into docs/benchmarks.md and README.md (half an hour)
	$(BIN)/python -m benchmarks all

scorecard: platforms ## measure SCORECARD_PLATFORMS in turn; write docs/scorecard.md (an hour)
	$(BIN)/archiver scorecard $(addprefix --platform ,$(SCORECARD_PLATFORMS)) --out docs

docs: $(VENV)/installed ## write the reference pages anew, and build docs/ as a site, build/site/index.html
	$(BIN)/python -m docs.generate
	$(BIN)/python -m mkdocs build --quiet --strict

lock: ## write requirements-dev.lock anew: the newest versions that setup.cfg allows
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet --disable-pip-version-check '.[dask,docs,test,timestamps,traces]'
	sed -n '/^#/p' requirements-dev.lock >build/lock/new
	build/lock/bin/pip freeze --all --exclude pip --exclude archiver-worm >>build/lock/new
	mv build/lock/new requirements-dev.lock

dist: $(VENV)/installed ## build dist/: sdist and wheel, the same bytes wherever this commit is built
	rm -rf dist build/lib build/bdist.*
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation

fuzz: $(VENV)/installed ## try hostile input at length (FUZZ_TIMES as many; FUZZ_SECONDS per libFuzzer target)
	@command -v clang || { $(SUDO) apt-get update && $(SUDO) apt-get install -y --no-install-recommends clang libclang-rt-dev; }
	FUZZ_TIMES=$(FUZZ_TIMES) $(BIN)/python -m pytest -q tests/fuzz
	sh tests/fuzz/shim/libfuzzer.sh $(FUZZ_SECONDS)

clean: ## remove everything that the other targets made
	rm -rf $(VENV) $(DEMO_VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache

$(VENV)/installed: setup.cfg setup.py pyproject.toml requirements-dev.lock $(shell find backends -name '*.[ch]')
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements-dev.lock --editable '.[test,docs]'
	touch $@

# The demo installs the package as a user would, from a copy of the tree as it is now.
$(DEMO_VENV)/installed: setup.cfg setup.py pyproject.toml $(shell find archiver backends scenarios results -type f -not -name '*.pyc')
	$(PYTHON) -m venv $(DEMO_VENV)
	rm -rf build/lib
	$(DEMO_VENV)/bin/pip install --quiet --disable-pip-version-check .
	touch $@
