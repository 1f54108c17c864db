//! Every small case of renaming: all pairs of paths of one tree, by all users, with all flags.

use crate::act::{Act, USERS};
use crate::managed::Managed;
use crate::model::Model;
use crate::side::Side;
use crate::world::World;

/// Full, empty, nested, foreign, read-only and sticky directories; files, links and symlinks.
fn tree() -> Vec<(usize, Act)> {
    let dir = |path: &str, mode| Act::Mkdir { path: path.into(), mode };
    let file = |path: &str| Act::File { path: path.into(), mode: 0o644 };
    vec![
        (1, dir("own", 0o755)),
        (1, dir("own/empty", 0o755)),
        (1, dir("own/full", 0o755)),
        (1, dir("own/full/deep", 0o755)),
        (1, dir("own/locked", 0o555)),
        (1, file("own/f")),
        (1, file("own/full/f")),
        (1, Act::Link { old: "own/f".into(), new: "own/full/same".into(), follow: false }),
        (1, Act::Symlink { to: "full".into(), path: "own/link".into() }),
        (2, dir("sticky", 0o777)),
        (2, Act::Chmod { path: "sticky".into(), mode: 0o1777 }),
        (1, dir("sticky/mine", 0o777)),
        (2, dir("sticky/yours", 0o777)),
        (1, file("sticky/f")),
        (2, file("sticky/g")),
        (3, dir("closed", 0o700)),
        (3, file("closed/f")),
    ]
}

const PATHS: [&str; 26] = [
    "own",
    "own/",
    "own/.",
    "own/..",
    "own/empty",
    "own/empty/",
    "own/empty/new",
    "own/full",
    "own/full/deep",
    "own/full/deep/new",
    "own/full/same",
    "own/locked",
    "own/locked/new",
    "own/f",
    "own/f/",
    "own/link",
    "own/link/",
    "own/link/f",
    "own/new",
    "own/new/",
    "sticky/mine",
    "sticky/yours",
    "sticky/f",
    "sticky/g",
    "sticky/new",
    "closed/f",
];

/// Does every `nth` of all renames on two sides; what succeeds is followed by a look at both trees.
pub fn rename_everything(left: &mut dyn Side, right: &mut dyn Side, nth: usize) {
    let mut is_fresh = false;
    for (user, act) in renames().step_by(nth) {
        if !is_fresh {
            plant(left);
            plant(right);
        }
        let (one, other) = (left.act(user, &act), right.act(user, &act));
        assert_eq!(one, other, "user {user} {act:?} on {} and {}", left.name(), right.name());
        is_fresh = one.is_err();
        if one.is_ok() {
            assert_eq!(names(left), names(right), "user {user} {act:?}");
        }
    }
}

fn renames() -> impl Iterator<Item = (usize, Act)> {
    let pairs = PATHS.iter().flat_map(|old| PATHS.iter().map(move |new| (*old, *new)));
    pairs.flat_map(|(old, new)| {
        let ways = (0..USERS.len()).flat_map(|user| (0..4).map(move |flags| (user, flags)));
        ways.map(move |(user, flags)| {
            (user, Act::Rename { old: old.into(), new: new.into(), flags })
        })
    })
}

fn plant(side: &mut dyn Side) {
    side.clear();
    for (user, act) in tree() {
        side.act(user, &act).unwrap();
    }
}

/// Paths, and what cannot depend on clocks and numbering.
fn names(side: &mut dyn Side) -> Vec<(String, char, u32, u32)> {
    let tree = side.tree().into_iter();
    tree.map(|(path, shown)| (path, shown.kind, shown.nlink, shown.uid)).collect()
}

#[test]
fn all_renames_end_as_in_the_model() {
    rename_everything(&mut Managed::new(World::new(1)), &mut Model::new(), 1);
}
