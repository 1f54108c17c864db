# Everything a developer types. Each target installs what it needs, or says what is missing.

CARGO ?= cargo

.PHONY: all build quickstart stop check test conformance bench clean

all: build

## build: the executable, optimised, at target/release/pvfs
build:
	@scripts/prepare
	$(CARGO) build --release --locked -p pvfs

## quickstart: builds, starts a file system on this machine, runs a real job on it, leaves it running
quickstart: build
	@scripts/quickstart

## stop: stops the file system that quickstart started
stop:
	@target/release/pvfs down

## check: formatting, lints, tidy rules and fast tests; what every commit passes
check:
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked --lib --bins -q
	$(CARGO) test --locked -q -p xtask

## test: all tests
test:
	@scripts/test

## conformance: a mount against our own cases, the public suites, Python's file tests and real programs; takes root
conformance:
	@scripts/conformance

## bench: the bars, next to the limits measured in the same run
bench: build
	target/release/pvfs bench io --quick
	target/release/pvfs bench meta --quick
	target/release/pvfs bench parallel --quick

clean:
	$(CARGO) clean
