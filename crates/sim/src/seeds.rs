//! Which seeds a scenario is run with, and how a failure is repeated.
//!
//! - `PVFS_SIM_SEED=n` runs that seed only.
//! - `PVFS_SIM_SEEDS=n` runs the first n seeds of every scenario, for long runs.
//! - `PVFS_SIM_FIRST=n` begins there, so that one night's run differs from the last one's.

/// Runs a scenario with `count` seeds, or those the environment wishes. A failure says how to repeat it.
pub fn each(name: &str, count: u64, mut scenario: impl FnMut(u64)) {
    for seed in chosen(count) {
        let _replay = Replay { name, seed };
        scenario(seed);
    }
}

fn chosen(count: u64) -> std::ops::Range<u64> {
    if let Some(seed) = number("PVFS_SIM_SEED") {
        return seed..seed + 1;
    }
    let first = number("PVFS_SIM_FIRST").unwrap_or(0);
    first..first + number("PVFS_SIM_SEEDS").unwrap_or(count)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text}")))
}

/// Tells, when a panic passes by, how to have it again.
struct Replay<'a> {
    name: &'a str,
    seed: u64,
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { name, seed } = self;
            eprintln!(
                "seed {seed} failed; again: PVFS_SIM_SEED={seed} cargo test -p pvfs-sim {name}"
            );
        }
    }
}
