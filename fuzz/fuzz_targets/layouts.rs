//! Distributions, lists of iods and of regions.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pvfs_sim::fuzz::layouts(data));
