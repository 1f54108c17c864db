//! Random sequences of all operations by several users, against a model.
//!
//! `PVFS_SEED=n` replays one sequence, `PVFS_RUNS=n` runs more of them than usual.

use crate::managed::Managed;
use crate::model::Model;
use crate::side::compare;
use crate::world::World;
use pvfs_mgr::namespace::FormatOptions;

/// The seeds to run: one that is asked for, or as many as asked for or usual.
pub fn seeds(usual: u64) -> Vec<u64> {
    let asked = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match asked("PVFS_SEED") {
        Some(seed) => vec![seed],
        None => (1..=asked("PVFS_RUNS").unwrap_or(usual)).collect(),
    }
}

#[test]
fn the_name_space_does_what_the_model_does() {
    for seed in seeds(40) {
        let mut managed = Managed::new(World::new(seed));
        compare(&mut managed, &mut Model::new(), seed, 300, true);
    }
}

/// With two bits of hash every directory is full of collisions and gaps.
#[test]
fn names_of_equal_hash_are_told_apart() {
    for seed in seeds(20) {
        let usual = FormatOptions { mode: 0o777, ..FormatOptions::new(7, 9, [3; 16]) };
        let world = World::with(seed, FormatOptions { hash_bits: 1, ..usual });
        compare(&mut Managed::new(world), &mut Model::new(), seed, 200, true);
    }
}
