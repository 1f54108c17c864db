//! The fuzz target of the C entry points with seeded bytes, on every machine that runs tests.

mod calls;

/// Any bytes; many of them small, so that much of what they say is right.
fn input(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut number = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    (0..number() % 600).map(|_| number() as u8).collect()
}

/// `PVFS_TEST_SEED` chooses one, which a failure has printed.
#[test]
fn calls_of_any_bytes_do_what_they_say_or_nothing() {
    calls::begin();
    let chosen = std::env::var("PVFS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = chosen.map_or(1..=SEEDS, |seed| seed..=seed);
    let mut succeeded = 0;
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| calls::calls(&input(seed)));
        succeeded += outcome.unwrap_or_else(|_| panic!("PVFS_TEST_SEED={seed} replays it"));
    }
    assert!(chosen.is_some() || succeeded > 1000, "only {succeeded} calls went well");
}

const SEEDS: u64 = 3000;
