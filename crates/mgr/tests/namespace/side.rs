//! Two implementations side by side: each act must end alike and leave the same tree.

use std::collections::{BTreeMap, BTreeSet};

use crate::act::{Act, Chooser, USERS};
use pvfs_mgr::execute::Random;

/// One implementation.
pub trait Side {
    /// What this is, for failures.
    fn name(&self) -> &'static str;
    /// Does it; an answer for what answers, or the error number.
    fn act(&mut self, user: usize, act: &Act) -> Result<String, u32>;
    /// Every path from the root, and what is there.
    fn tree(&mut self) -> BTreeMap<String, Shown>;
    /// Begins anew with an empty file system.
    fn clear(&mut self);
    /// The open files, as users and slots.
    fn open_slots(&self) -> Vec<(usize, u32)> {
        Vec::new()
    }
    /// Whether this act would run into rules that the other side does not have.
    fn is_unfair(&mut self, _user: usize, _act: &Act) -> bool {
        false
    }
}

/// What can be seen of one object, times aside.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Shown {
    pub kind: char,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// Of regular files and symlinks.
    pub size: u64,
    /// Symlinks: where it points.
    pub target: String,
    /// Which object: hard links show the same.
    pub object: u64,
    /// Modification and status change.
    pub times: [i64; 2],
    /// Somebody has it open for writing: data and times are on their way.
    pub written: bool,
}

/// Runs `steps` random acts on both sides and compares after each.
pub fn compare(left: &mut dyn Side, right: &mut dyn Side, seed: u64, steps: usize, dots: bool) {
    let mut random = Random::new(seed);
    let (mut before_left, mut before_right) = (left.tree(), right.tree());
    let mut chooser = Chooser::new(&mut random, dots);
    let mut history = Vec::new();
    let names = format!("{} and {}", left.name(), right.name());
    for step in 0..steps {
        chooser.existing = before_left.keys().skip(1).map(|path| path[1..].to_owned()).collect();
        let user = chooser.below(USERS.len() as u64) as usize;
        let mut act = chooser.act();
        let user = chooser.open_slot(&mut act, &left.open_slots()).unwrap_or(user);
        if left.is_unfair(user, &act) || right.is_unfair(user, &act) {
            continue;
        }
        history.push(format!("{user} {act:?}"));
        let (one, other) = (left.act(user, &act), right.act(user, &act));
        let told = |what: &str| {
            let last = history.iter().rev().take(12).rev().cloned().collect::<Vec<_>>().join("\n");
            format!("seed {seed} step {step}: {what} differs between {names}\n{last}\n")
        };
        assert_eq!(one, other, "{}", told("the answer"));
        let (now_left, now_right) = (left.tree(), right.tree());
        let unsteady = unsteady(&before_left, &now_left);
        let shown_left = seen(&before_left, &now_left, &unsteady);
        let shown_right = seen(&before_right, &now_right, &unsteady);
        for (path, shown) in &shown_left {
            assert_eq!(Some(shown), shown_right.get(path), "{}{path}", told("the tree"));
        }
        assert_eq!(shown_left.len(), shown_right.len(), "{}", told("the tree"));
        (before_left, before_right) = (now_left, now_right);
    }
}

/// Paths of files that are or just were open for writing: the left side knows.
fn unsteady(before: &BTreeMap<String, Shown>, now: &BTreeMap<String, Shown>) -> BTreeSet<String> {
    let written = |shown: &&Shown| shown.written;
    let objects = before.values().chain(now.values()).filter(written).map(|shown| shown.object);
    let objects: BTreeSet<u64> = objects.collect();
    let unsteady = now.iter().filter(|(_, shown)| objects.contains(&shown.object));
    unsteady.map(|(path, _)| path.clone()).collect()
}

/// What is comparable: objects by the first path that shows them, times by whether they changed.
fn seen(
    before: &BTreeMap<String, Shown>,
    now: &BTreeMap<String, Shown>,
    unsteady: &BTreeSet<String>,
) -> BTreeMap<String, (Shown, [String; 2])> {
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    let old: BTreeMap<u64, &Shown> = before.values().map(|shown| (shown.object, shown)).collect();
    let mut result = BTreeMap::new();
    for (number, (path, shown)) in now.iter().enumerate() {
        let object = *first.entry(shown.object).or_insert(number as u64);
        let times = [0, 1].map(|which| match old.get(&shown.object) {
            _ if unsteady.contains(path) => "on its way".to_owned(),
            _ if shown.times[which] < 1000 => shown.times[which].to_string(),
            Some(was) if was.times[which] == shown.times[which] => "same".to_owned(),
            _ => "new".to_owned(),
        });
        let mode = if unsteady.contains(path) { shown.mode & 0o1777 } else { shown.mode };
        let shown = Shown { object, mode, written: false, times: [0, 0], ..shown.clone() };
        result.insert(path.clone(), (shown, times));
    }
    result
}
