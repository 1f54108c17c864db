//! Requests of a user, with arbitrary bodies.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    pvfs_sim::fuzz::requests(data);
});
