//! Calls of libpvfs with layouts, partitions, vectors and blocks of any kind.

#![no_main]

use std::sync::Once;

#[path = "../../crates/capi/tests/entries/calls.rs"]
mod calls;

static BEGUN: Once = Once::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    BEGUN.call_once(calls::begin);
    calls::calls(data);
});
