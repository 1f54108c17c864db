# Everything a developer types. Each target installs what it needs, or says what is missing.

CARGO ?= cargo

.PHONY: all build install quickstart stop check test conformance mpi-suites bench clean

all: build

## build: the executable and the libraries for C programs and for preloading, optimised, in target/release
build:
	@scripts/prepare
	$(CARGO) build --release --locked -p pvfs -p pvfs-preload -p pvfs-capi
	@ln -sf libpvfs.so target/release/libpvfs.so.0 # the name that programs linked with it look for

## install: what was built, the libraries for MPI as well, with manual pages, completions and units; PREFIX is /usr/local unless said otherwise, DESTDIR is for packaging
install:
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install

## quickstart: builds, starts a file system on this machine, runs a real job on it, leaves it running
quickstart: build
	@scripts/quickstart

## stop: stops the file system that quickstart started
stop:
	@target/release/pvfs down "$${PVFS_DIR:-./.pvfs}"

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

## mpi-suites: the MPI-IO suites of ROMIO, MPICH, HDF5, PnetCDF and mpi4py over every front end (tests/mpiio); takes root, hours
mpi-suites: build
	@tests/mpiio/run $(ARGS)

## bench: the bars, next to the limits measured in the same run
bench: build
	target/release/pvfs bench io --quick
	target/release/pvfs bench meta --quick
	target/release/pvfs bench parallel --quick
	target/release/pvfs bench preload --quick
	@if [ -e target/mpiio/lib/libpvfs_romio.so ]; then target/release/pvfs bench mpi --quick; else \
	  echo "MPI-IO is skipped: its driver was not built (make -C bindings/mpiio)"; fi

clean:
	$(CARGO) clean
