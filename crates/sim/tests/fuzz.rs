//! The fuzz targets with damaged copies of proper bytes, on every machine that runs tests.

use std::collections::BTreeSet;

use pvfs_sim::{Chance, fuzz, seeds};
use pvfs_wire::OK;

/// A proper input with some bytes changed, dropped or repeated; now and then nothing but noise.
fn damaged(seed: u64) -> Vec<u8> {
    let mut chance = Chance::new(seed);
    let corpus = fuzz::corpus();
    let bytes = corpus[chance.between(0, corpus.len() as u64 - 1) as usize].clone();
    damage(bytes, &mut chance)
}

fn damage(mut bytes: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    if chance.between(0, 19) == 0 {
        bytes.iter_mut().for_each(|byte| *byte = chance.any() as u8);
    }
    for _ in 0..chance.between(0, 4) {
        let at = chance.between(0, bytes.len() as u64 - 1) as usize;
        match chance.between(0, 9) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.extend_from_within(at..),
            2..=3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][chance.between(0, 4) as usize],
            4..=6 => bytes[at] ^= 1 << chance.between(0, 7),
            _ => bytes[at] = chance.any() as u8,
        }
    }
    bytes
}

#[test]
fn proper_requests_are_served() {
    let mut served = BTreeSet::new();
    for input in fuzz::corpus() {
        let answers = fuzz::requests(&input);
        served.extend(answers.iter().filter(|(_, status)| *status == OK).map(|(code, _)| *code));
    }
    let names: Vec<&str> = served.iter().map(|code| pvfs_wire::ops::name(*code)).collect();
    assert!(names.len() >= 20, "only these went well: {names:?}");
}

#[test]
fn no_request_damages_a_daemon() {
    seeds::each("no_request_damages_a_daemon", 1500, |seed| {
        fuzz::requests(&damaged(seed));
    });
}

#[test]
fn no_bytes_damage_a_daemon() {
    seeds::each("no_bytes_damage_a_daemon", 300, |seed| fuzz::connections(&damaged(seed)));
}

#[test]
fn no_bytes_damage_a_decoder() {
    seeds::each("no_bytes_damage_a_decoder", 3000, |seed| {
        let bytes = damaged(seed);
        // Of a list of requests, the first begins after two counts and a code.
        for start in [0, 1, 2, 4, 10] {
            let part = &bytes[start.min(bytes.len())..];
            fuzz::bodies(part);
            fuzz::layouts(part);
            fuzz::records(part);
            fuzz::tokens(part);
        }
    });
}

#[test]
fn no_group_handle_is_more_than_it_says() {
    assert!(fuzz::group_handles(&fuzz::group_handle()), "a proper one");
    seeds::each("no_group_handle_is_more_than_it_says", 3000, |seed| {
        fuzz::group_handles(&damage(fuzz::group_handle(), &mut Chance::new(seed)));
    });
}
