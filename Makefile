# SPDX-License-Identifier: Apache-2.0
# A thin front: each target is one command that can be typed without make.
# `make demo` and `make check` are all a newcomer needs; README.md has the table.

PREFIX ?= /usr/local
DESTDIR ?=
BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PRESET ?= release

.PHONY: build deps demo check check-long check-models fuzz bench compare coverage install uninstall \
        clean format symbols help

build:
	@cmake --preset release --log-level=WARNING -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	@cmake --build build -j $(JOBS) --target all

deps:
	@tools/deps all

demo:
	@tools/demo

check:
	@tools/deps check
	@python3 tools/check $(STAGES)

check-long:
	@tools/deps check
	@python3 tools/check --long $(STAGES)

check-models:
	@tools/deps check models
	@python3 tools/check --models $(STAGES)

# make fuzz T=onnx [SECONDS=600]
fuzz:
	@tools/deps check
	@python3 tools/fuzz $(T) $(SECONDS)

bench:
	@tools/demo --prepare
	@tools/bench

compare:
	@tools/deps check peers
	@tools/demo --prepare
	@tools/compare

coverage:
	@tools/deps check
	@python3 tools/coverage

# BUILD=FOLDER installs from another build folder as it is.
install: $(if $(filter build,$(BUILD)),build)
	@DESTDIR="$(DESTDIR)" cmake --install "$(BUILD)" --prefix "$(PREFIX)"

uninstall:
	@tools/uninstall "$(DESTDIR)$(PREFIX)" "$(BUILD)/install_manifest.txt" "$(DESTDIR)"

format:
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i

symbols: build
	@python3 tools/check_symbols --write

clean:
	@rm -rf build

help:
	@sed -n 's/^| *`\(make [^`]*\)` *| *\(.*\) *|$$/\1: \2/p' README.md
