//! What a manager stores.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pvfs_sim::fuzz::records(data));
