//! Headers and the record of every operation and reply.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pvfs_sim::fuzz::bodies(data));
