# The front door of Ioweave: `make help` lists the goals. Each installs what it lacks, or prints the
# command that does. The work is done by CMake (CMakePresets.json) and the scripts in tools/ and
# bench/; this file only says which.

PREFIX ?= /usr/local
VENV := build/venv

.PHONY: build demo test test-asan test-tsan test-clang bench install lint format clean help
.PHONY: library develop apps beside external dev-tools

build: develop ## everything, into build/release (the default goal)
	cmake --preset release
	cmake --build --preset release

demo: develop ## an unmodified program on real data, plainly and under `ioweave run`
	bench/demo $(ARGS)

test: develop apps beside external $(VENV)/installed ## build with warnings as errors and run all tests
	tools/test_preset release $(ARGS)

test-asan: develop ## the quick tests under AddressSanitizer and UndefinedBehaviorSanitizer
	tools/test_preset asan-ubsan $(ARGS)

test-tsan: develop ## the quick tests under ThreadSanitizer
	tools/test_preset tsan $(ARGS)

test-clang: develop dev-tools $(VENV)/installed ## the quick tests, built by clang
	tools/test_preset clang $(ARGS)

bench: develop apps $(VENV)/installed ## run all benchmarks (ARGS=--quick: under a minute each)
	bench/run all $(ARGS)

install: library ## install to PREFIX (default /usr/local), DESTDIR before it
	cmake --preset install -DCMAKE_INSTALL_PREFIX='$(PREFIX)'
	cmake --build --preset install
	cmake --install build/install --strip || { echo 'Without root: make install PREFIX=$$HOME/.local'; exit 1; }
	@# The loader's cache knows /usr/local/lib only after ldconfig, which needs root.
	@[ -n '$(DESTDIR)' ] || [ "$$(id -u)" != 0 ] || ldconfig

lint: develop dev-tools $(VENV)/installed ## formatting, static analysis, include directions, types
	tools/lint $(ARGS)

format: develop dev-tools $(VENV)/installed ## rewrite the sources as lint wants them formatted
	tools/lint --fix format python

clean: ## remove everything that was built
	rm -rf build

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo 'ARGS="..." is passed on, e.g. make test ARGS="-R Policy"'

library:
	@tools/install_packages library

develop:
	@tools/install_packages library develop tasks

apps:
	@tools/install_packages --optional apps

beside:
	@tools/install_packages --optional beside

external:
	@command -v cargo >/dev/null || tools/install_packages --optional external

dev-tools:
	@tools/install_packages lint

$(VENV)/installed: tools/requirements-dev.txt | develop
	python3 -m venv --clear $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	touch $@
