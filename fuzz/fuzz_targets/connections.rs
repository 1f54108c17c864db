//! Raw bytes on a connection to each daemon.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pvfs_sim::fuzz::connections(data));
