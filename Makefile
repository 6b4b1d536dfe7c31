# Everything a developer runs. `make help` lists it; .ci/run is what a change must pass.

PYTHON ?= $(if $(wildcard .venv/bin/python),.venv/bin/python,python3)
PYTEST ?= $(PYTHON) -m pytest
SETUP := $(PYTHON) -W ignore -c "from setuptools import setup; setup()" -q
LIBASAN = $(shell $(or $(CC),cc) -print-file-name=libasan.so)
LIBUBSAN = $(shell $(or $(CC),cc) -print-file-name=libubsan.so)

.DEFAULT_GOAL := help
.PHONY: help venv build test hostile crash long compat newer-python lint format asan tsan leaks
.PHONY: fuzz analyze docs mutants packaged bench bench-peers clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

venv: ## .venv with everything, both extensions built into the tree
	python3 -m venv .venv
	.venv/bin/pip install -e '.[dev]'

build: ## both extensions in place, only what changed
	@$(SETUP) build_ext --inplace

test: build ## all tests but the long ones, and each bench once
	$(PYTEST)

hostile: build ## the tests that need the test build
	$(PYTEST) -m 'hostile and not long'

crash: build ## a thousand processes killed over one file, and what was killed where; two minutes
	$(PYTEST) -m long -s --timeout 1800 tests/test_storm.py

long: build ## the tests that take minutes
	$(PYTEST) -m long --timeout 1800

# Too much for the developers' environment, or for its Python: each has one under build/compat.
COMPAT := build/compat
COMPAT_PIP := $(PYTHON) -m pip --disable-pip-version-check -q
COMPAT_NEEDS := cffi msgspec cronsim hypothesis pytest pytest-asyncio pytest-benchmark pytest-timeout \
  typing_extensions
PYTHON314 = $(or $(wildcard $(COMPAT)/python314/usr/bin/python3.14),$(shell command -v python3.14))

compat: build ## other libraries' own suites and runners over our stores, all of which it installs
	$(PYTHON) -m venv --without-pip $(COMPAT)/langgraph
	$(COMPAT_PIP) --python $(COMPAT)/langgraph install $(COMPAT_NEEDS) \
	  langgraph langgraph-checkpoint-conformance
	PYTHONPATH=python $(COMPAT)/langgraph/bin/python -m pytest $(ARGS) tests/test_langgraph.py
	@test -n "$(PYTHON314)" || { echo "without-durability needs Python 3.14: make newer-python"; exit 1; }
	$(PYTHON314) -m venv --without-pip $(COMPAT)/durable
	$(COMPAT_PIP) --python $(COMPAT)/durable install $(COMPAT_NEEDS) without-durability-sqlite
	PYTHONPATH=python $(COMPAT)/durable/bin/python -m pytest $(ARGS) tests/test_durable_*.py

newer-python: ## Python 3.14 out of a newer Debian, in a folder under build/compat
	$(PYTHON) tests/newer_python.py $(COMPAT)/python314

lint: ## ruff, mypy, tidy, the form of the workflows
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) tests/tidy.py
	$(PYTHON) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

format: ## let ruff lay out the Python
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

# The first sanitizer build compiles SQLite under it, which takes minutes; then it is cached.
asan: ## tests under AddressSanitizer and UBSan, then the C driver with its leak check
	FENCEPOST_SANITIZE=address $(SETUP) build --build-lib build/address --build-temp build/address.tmp
	ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 PYTHONMALLOC=malloc \
	  LD_PRELOAD="$(LIBASAN) $(LIBUBSAN)" PYTHONPATH=build/address \
	  $(PYTEST) -p no:cacheprovider --timeout 900 $(or $(TESTS),tests)
	$(MAKE) --no-print-directory leaks

leaks: ## the C driver under AddressSanitizer, leaks counted
	FENCEPOST_SANITIZE=address $(PYTHON) tests/driver/build.py build/address/driver
	ASAN_OPTIONS=detect_leaks=1 build/address/driver

tsan: ## the C driver under ThreadSanitizer
	FENCEPOST_SANITIZE=thread $(PYTHON) tests/driver/build.py build/thread/driver
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 build/thread/driver

fuzz: ## libFuzzer over calls and over damaged files, ten minutes; ARGS says how many, and of which
	$(PYTHON) tests/fuzz/build.py $(ARGS)

# cppcheck and clang-tidy where they are found; gcc's analyzer where cc is gcc.
analyze: ## static analysis of our C; what it asks for and why not more is in .clang-tidy
	@$(PYTHON) build_ffi.py
	$(PYTHON) tests/analyze.py

docs: ## the documentation as a site, in build/docs; a link that leads nowhere is an error
	$(PYTHON) -m mkdocs build --strict

mutants: ## would a test notice? each promise of tests/mutants broken in turn; an hour
	$(PYTHON) tests/mutants.py $(ARGS)

packaged: ## the sdist and the wheel, as users get them, on each Python found
	$(PYTHON) tests/packaged.py $(ARGS)

bench: build ## the benchmarks with their real sizes
	@for bench in bench/bench_*.py; do $(PYTHON) $$bench || exit 1; done

bench-peers: build ## beside other queues, which it installs into build/peers; nine minutes
	$(PYTHON) -m bench.peers $(ARGS)

clean: ## what builds and tests left behind; the cached SQLite object stays
	rm -rf build/[!s]* dist temp *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find python tests bench -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/fencepost/*.so
