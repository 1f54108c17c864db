//! An agent's answers, sessions, capabilities, orders and group handles.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pvfs_sim::fuzz::tokens(data));
