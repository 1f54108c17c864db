//! The shared directory: races for names, tokens on the move, and names that stay and must be listed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use pvfs_sim::{Chance, Client};
use pvfs_wire::attr::{Entry, FileKind};
use pvfs_wire::ops::{RenameFlags, Target};
use pvfs_wire::{Errno, Handle};

use crate::outcome::known;

/// What all clients know of it.
pub struct Shared {
    dir: Handle,
    races: u32,
    /// Of each race: who won, who lost, who does not know.
    outcomes: BTreeMap<u32, [u32; 3]>,
}

impl Shared {
    /// Nothing was done in it yet.
    pub fn new(dir: Handle) -> Self {
        Self { dir, races: 0, outcomes: BTreeMap::new() }
    }

    /// One winner each, if everybody knows; never two, unless a win was lost with the power.
    pub fn check_races(&self, wins_may_be_lost: bool) {
        for (race, [won, lost, unknown]) in &self.outcomes {
            assert!(*won <= 1 || wins_may_be_lost, "race {race} has {won} winners");
            let is_explained = *won > 0 || *unknown > 0 || *lost == 0;
            assert!(is_explained, "race {race} has {lost} losers and no winner");
        }
    }
}

/// Puts the tokens and the names that stay there.
pub async fn prepare(client: &Client, dir: Handle) {
    let tokens = (0..TOKENS).map(|token| format!("t{token}"));
    for name in tokens.chain((0..STAYING).map(|name| format!("stay{name}"))) {
        let target = Target::below(dir, name);
        let made = client.user.mknod(target, FileKind::Regular, 0o600, 0).await;
        made.expect("the weather is fine");
    }
}

/// Moves a token to a name that is free, if the one it tries is.
pub async fn move_token(client: &Client, chance: &mut Chance, shared: &RefCell<Shared>) {
    let dir = shared.borrow().dir;
    let mut place = || Target::below(dir, format!("t{}", chance.between(0, PLACES - 1)));
    let (from, to) = (place(), place());
    let same = from == to;
    match known(client.user.rename(from, to, RenameFlags::NOREPLACE).await) {
        None | Some(Ok(_) | Err(Errno::ENOENT)) => {}
        Some(Err(Errno::EEXIST)) if !same => {}
        Some(Err(Errno::EEXIST | Errno::EINVAL)) => {}
        Some(Err(error)) => panic!("moving a token: {error}"),
    }
}

/// Races the others for the newest name.
pub async fn race(client: &Client, shared: &Rc<RefCell<Shared>>) {
    let (race, dir) = {
        let mut shared = shared.borrow_mut();
        // Several clients run the same race before the next one begins.
        shared.races += 1;
        (shared.races / 4, shared.dir)
    };
    let made = client.user.mkdir(Target::below(dir, format!("race{race}")), 0o700).await;
    let place = match known(made) {
        Some(Ok(_)) => 0,
        Some(Err(Errno::EEXIST)) => 1,
        Some(Err(error)) => panic!("racing: {error}"),
        None => 2,
    };
    shared.borrow_mut().outcomes.entry(race).or_default()[place] += 1;
}

/// Lists page by page; every name that stays is there once.
pub async fn list(client: &Client, chance: &mut Chance, shared: &RefCell<Shared>) {
    let dir = shared.borrow().dir;
    let Some(entries) = pages(client, dir, chance.between(1, 9) as u32).await else { return };
    for name in 0..STAYING {
        let name = format!("stay{name}");
        let count = entries.iter().filter(|entry| *entry.name == *name.as_bytes()).count();
        assert_eq!(count, 1, "{name} was listed {count} times");
    }
}

async fn pages(client: &Client, dir: Handle, entries_max: u32) -> Option<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let cookie = entries.last().map_or(0, |entry| entry.cookie);
        let page = client.user.readdir(dir, cookie, entries_max, false).await;
        let page = known(page)?.expect("a directory can be listed");
        entries.extend(page.entries);
        if page.end {
            return Some(entries);
        }
    }
}

/// In the end there are as many tokens as there were, all different.
pub async fn count_tokens(client: &Client, shared: &RefCell<Shared>) {
    let dir = shared.borrow().dir;
    let entries = client.user.list(dir, false).await.expect("everything is mended");
    let is_token = |entry: &&Entry| entry.name.starts_with(b"t");
    let mut tokens: Vec<Handle> =
        entries.iter().filter(is_token).map(|entry| entry.handle).collect();
    tokens.sort_unstable();
    tokens.dedup();
    let names = entries.iter().filter(is_token).count();
    assert_eq!((tokens.len(), names), (TOKENS, TOKENS), "tokens and their names");
}

const TOKENS: usize = 5;
const PLACES: u64 = 9;
const STAYING: usize = 12;
