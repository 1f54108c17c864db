//! Listings while the directory changes (M4).

use std::collections::{BTreeMap, BTreeSet};

use crate::random::seeds;
use crate::world::{World, root};
use pvfs_mgr::execute::Random;
use pvfs_mgr::namespace::FormatOptions;
use pvfs_wire::ops::*;

/// A listing under way, and the names that were there when it began and have not gone since.
struct Listing {
    cookie: u64,
    throughout: BTreeSet<String>,
    seen: Vec<String>,
}

fn world(seed: u64, hash_bits: u8) -> World {
    World::with(seed, FormatOptions { hash_bits, ..FormatOptions::new(7, 9, [5; 16]) })
}

/// Entries come and go and are renamed while several listings are read page by page: each listing
/// has every entry that was there throughout exactly once, and no name twice.
fn list_among_changes(seed: u64, hash_bits: u8, names: u64) {
    let mut w = world(seed, hash_bits);
    let mut random = Random::new(seed);
    let mut present: BTreeSet<String> = BTreeSet::new();
    let mut listings: Vec<Listing> = Vec::new();
    for _ in 0..600 {
        let name = |random: &mut Random| format!("n{}", random.number() % names);
        let (one, other) = (name(&mut random), name(&mut random));
        match random.number() % 8 {
            0..2 if w.file(&root(), &one, 0o644).is_ok() => {
                present.insert(one);
            }
            2 if w.unlink(&root(), &one).is_ok() => forget(&mut present, &mut listings, &one),
            3 if one != other && w.rename(&root(), &one, &other).is_ok() => {
                forget(&mut present, &mut listings, &one);
                // A replaced name is never absent, so a listing must show it all the same.
                present.insert(other);
            }
            4 if listings.len() < 3 => {
                let throughout = present.clone();
                listings.push(Listing { cookie: 0, throughout, seen: Vec::new() });
            }
            5.. if !listings.is_empty() => {
                let which = random.number() as usize % listings.len();
                let page = (random.number() % 4 + 1) as u32;
                if read_page(&mut w, &mut listings[which], page) {
                    finish(listings.swap_remove(which), seed);
                }
            }
            _ => {}
        }
    }
    w.check();
}

fn forget(present: &mut BTreeSet<String>, listings: &mut [Listing], name: &str) {
    present.remove(name);
    listings.iter_mut().for_each(|listing| _ = listing.throughout.remove(name));
}

fn read_page(w: &mut World, listing: &mut Listing, entries_max: u32) -> bool {
    let readdir = Readdir { dir: w.root(), cookie: listing.cookie, entries_max, attributes: false };
    let page = w.run(&root(), readdir).unwrap();
    assert!(page.entries.len() <= entries_max as usize);
    for entry in page.entries {
        assert!(
            entry.cookie > listing.cookie && entry.cookie >= 8 && entry.cookie <= i64::MAX as u64
        );
        listing.cookie = entry.cookie;
        listing.seen.push(String::from_utf8(entry.name.0).unwrap());
    }
    page.end
}

fn finish(listing: Listing, seed: u64) {
    let mut times: BTreeMap<&String, u32> = BTreeMap::new();
    listing.seen.iter().for_each(|name| *times.entry(name).or_default() += 1);
    for name in &listing.throughout {
        assert_eq!(times.get(name), Some(&1), "seed {seed}: {name} was there throughout");
    }
    // A name that went and came back has its old cookie again, unless it met a collision.
    assert!(times.values().all(|times| *times <= 2), "seed {seed}: {times:?}");
}

#[test]
fn a_listing_shows_what_is_there_throughout_exactly_once() {
    for seed in seeds(60) {
        list_among_changes(seed, 60, 40);
    }
}

/// Three bits of hash: most names collide, and gaps are left and filled behind every listing's back.
#[test]
fn collisions_change_nothing_about_that() {
    for seed in seeds(60) {
        list_among_changes(seed, 3, 24);
    }
}

#[test]
fn a_ninth_name_of_one_hash_is_refused_and_the_eight_are_fine() {
    let mut w = world(1, 1);
    for i in 0..8 {
        w.file(&root(), &format!("f{i}"), 0o644).unwrap();
    }
    assert_eq!(w.file(&root(), "f8", 0o644).unwrap_err(), pvfs_wire::Errno::ENOSPC);
    w.unlink(&root(), "f3").unwrap();
    w.file(&root(), "f8", 0o644).unwrap();
    let mut names = w.list(&root(), "", 3);
    names.sort();
    assert_eq!(names, ["f0", "f1", "f2", "f4", "f5", "f6", "f7", "f8"]);
    w.check();
}
