//! Which iod holds which byte of a file: pure arithmetic, the on-disk contract.
