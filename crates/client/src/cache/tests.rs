//! The cache alone: nothing is told from it that was recalled or changed.

use super::*;
use pvfs_wire::Bytes;
use pvfs_wire::Handle;
use pvfs_wire::attr::{Entry, Time};

pub fn attr(object: u64, change: u64) -> Attr {
    let never = Time::default();
    Attr {
        handle: Handle { fsid: 1, generation: 1, object },
        kind: FileKind::Regular,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 10,
        size_state: SizeState::Settled,
        disk_bytes: None,
        atime: never,
        mtime: never,
        ctime: never,
        btime: never,
        change,
        extras: pvfs_wire::attr::Extras::NONE,
    }
}

const MS: u64 = 1_000_000;

/// A cache under a lease that ends after five seconds.
fn cache() -> Cache {
    let cache = Cache::default();
    cache.enable();
    cache.begin_lease(Instant(5000 * MS));
    cache
}

fn recall(kind: RecallKind, object: u64, name: &str) -> Recall {
    Recall { kind, object, name: Bytes::from(name) }
}

#[test]
fn what_is_kept_is_told_until_the_lease_ends() {
    let cache = cache();
    let mark = cache.mark(Instant(0));
    assert_eq!(cache.keep_attributes(mark, &attr(7, 1), 5000), Instant(5000 * MS));
    cache.keep_name(mark, 1, b"a", Named::Object(7), 5000);
    cache.keep_name(mark, 1, b"b", Named::Absent, 5000);
    let late = Instant(4999 * MS);
    assert_eq!(cache.attributes(7, late), Some((attr(7, 1), Instant(5000 * MS))));
    assert_eq!(cache.name(1, b"a", late).unwrap().0, Named::Object(7));
    assert_eq!(cache.name(1, b"b", late).unwrap().0, Named::Absent);
    assert_eq!(cache.name(1, b"c", late), None);
    assert_eq!(cache.attributes(7, Instant(5000 * MS)), None);
    cache.renew_lease(Instant(8000 * MS));
    assert!(cache.attributes(7, Instant(7000 * MS)).is_some());
}

#[test]
fn what_may_not_be_cached_is_not() {
    let cache = cache();
    let mark = cache.mark(Instant(0));
    assert_eq!(cache.keep_attributes(mark, &attr(7, 1), 0), Instant(0));
    let unsettled = Attr { size_state: SizeState::Unsettled, ..attr(8, 1) };
    assert_eq!(cache.keep_attributes(mark, &unsettled, 5000), Instant(0));
    assert!(cache.attributes(7, Instant(0)).is_none() && cache.attributes(8, Instant(0)).is_none());
    let unused = Cache::default();
    unused.keep_attributes(unused.mark(Instant(0)), &attr(7, 1), 5000);
    assert!(unused.attributes(7, Instant(0)).is_none());
}

#[test]
fn a_reply_that_a_recall_has_overtaken_is_not_kept() {
    let cache = cache();
    let mark = cache.mark(Instant(0));
    cache.recall(&[recall(RecallKind::Data, 7, ""), recall(RecallKind::Name, 1, "a")]);
    assert_eq!(cache.keep_attributes(mark, &attr(7, 1), 5000), Instant(0));
    assert_eq!(cache.keep_name(mark, 1, b"a", Named::Absent, 5000), Instant(0));
    assert_ne!(cache.keep_name(mark, 1, b"b", Named::Absent, 5000), Instant(0));
    let later = cache.mark(Instant(0));
    assert_ne!(cache.keep_attributes(later, &attr(7, 1), 5000), Instant(0));
    cache.recall(&[recall(RecallKind::Names, 1, "")]);
    assert_eq!(cache.name(1, b"b", Instant(0)), None);
    assert_eq!(cache.keep_name(later, 1, b"b", Named::Absent, 5000), Instant(0));
}

#[test]
fn nothing_is_kept_or_told_of_what_this_client_is_changing() {
    let cache = cache();
    let before = cache.mark(Instant(0));
    cache.keep_attributes(before, &attr(7, 1), 5000);
    let change = cache.change([Key::Object(7), Key::Name(1, b"a".to_vec())]);
    assert!(cache.attributes(7, Instant(0)).is_none());
    let during = cache.mark(Instant(0));
    assert_eq!(cache.keep_attributes(during, &attr(7, 1), 5000), Instant(0));
    drop(change);
    for mark in [before, during] {
        assert_eq!(cache.keep_attributes(mark, &attr(7, 1), 5000), Instant(0));
        assert_eq!(cache.keep_name(mark, 1, b"a", Named::Absent, 5000), Instant(0));
    }
    let after = cache.mark(Instant(0));
    assert_ne!(cache.keep_attributes(after, &attr(7, 2), 5000), Instant(0));
    assert_eq!(cache.attributes(7, Instant(0)).unwrap().0, attr(7, 2));
}

#[test]
fn a_change_of_nobody_knows_what_concerns_everything() {
    let cache = cache();
    let mark = cache.mark(Instant(0));
    let change = cache.change([Key::All]);
    assert_eq!(cache.keep_attributes(mark, &attr(7, 1), 5000), Instant(0));
    drop(change);
    assert_eq!(cache.keep_attributes(mark, &attr(7, 1), 5000), Instant(0));
}

#[test]
fn older_attributes_do_not_replace_newer_ones() {
    let cache = cache();
    let mark = cache.mark(Instant(0));
    cache.keep_attributes(mark, &attr(7, 5), 5000);
    cache.keep_attributes(mark, &attr(7, 4), 5000);
    assert_eq!(cache.attributes(7, Instant(0)).unwrap().0, attr(7, 5));
}

#[test]
fn nothing_outlives_a_lost_lease() {
    let cache = cache();
    let mark = cache.mark(Instant(0));
    cache.keep_attributes(mark, &attr(7, 1), 5000);
    cache.lose_lease();
    assert!(cache.attributes(7, Instant(0)).is_none());
    cache.begin_lease(Instant(9000 * MS));
    assert!(cache.attributes(7, Instant(0)).is_none());
    assert_eq!(cache.keep_attributes(mark, &attr(7, 1), 5000), Instant(0), "asked before");
}

#[test]
fn a_listing_goes_with_its_directory() {
    let cache = cache();
    let mark = cache.mark(Instant(0));
    let entry = Entry {
        name: Bytes::from("a"),
        cookie: 8,
        handle: attr(7, 1).handle,
        kind: FileKind::Regular,
        attr: Some(attr(7, 1)),
        placement: None,
    };
    let parent = Handle::default();
    let listing = Listing { entries: vec![entry], end: true, parent };
    cache.keep_page(mark, 1, (0, 1024), &listing, 5000);
    assert!(cache.page(1, (0, 1024), Instant(0)).is_some());
    assert!(cache.page(1, (8, 1024), Instant(0)).is_none());
    assert_eq!(cache.name(1, b"a", Instant(0)).unwrap().0, Named::Object(7));
    cache.recall(&[recall(RecallKind::Attributes, 1, "")]);
    assert!(cache.page(1, (0, 1024), Instant(0)).is_none());
    assert!(cache.attributes(7, Instant(0)).is_some(), "the file is as it was");
}

#[test]
fn who_is_told_of_changes_knows_that_there_was_none() {
    let cache = cache();
    let now = Instant(MS);
    let mark = cache.mark(now);
    cache.recall(&[recall(RecallKind::Data, 8, ""), recall(RecallKind::Name, 7, "a")]);
    drop(cache.change([Key::Object(7)]));
    assert!(cache.holds_since(mark, 7, now), "nobody else has changed it");
    assert!(!cache.is_untouched_since(mark, 7, now), "this client has");
    assert!(!cache.holds_since(mark, 8, now) && !cache.is_untouched_since(mark, 8, now));
    let later = cache.mark(now);
    let change = cache.change([Key::Object(7)]);
    assert!(!cache.is_untouched_since(cache.mark(now), 7, now), "it is about to");
    drop(change);
    assert!(!cache.is_untouched_since(later, 7, now));
    assert!(cache.is_untouched_since(cache.mark(now), 7, now));
    assert!(cache.holds_since(cache.mark(now), 8, now), "nothing since");
    assert!(!cache.holds_since(mark, 7, Instant(5000 * MS)), "the lease is over");
    cache.begin_lease(Instant(9000 * MS));
    assert!(!cache.holds_since(mark, 7, now), "nobody told us between two leases");
}

#[test]
fn own_changes_however_many_recall_nothing() {
    let cache = cache();
    let mark = cache.mark(Instant(0));
    for object in 0..RECENT_MAX as u64 + 10 {
        drop(cache.change([Key::Object(object)]));
    }
    assert!(cache.holds_since(mark, RECENT_MAX as u64 * 2, Instant(MS)));
    assert!(cache.lock().changed.len() <= RECENT_MAX + 1);
    let kept = cache.keep_attributes(mark, &attr(5, 1), 5000);
    assert_eq!(kept, Instant(0), "it may be one of those that were changed meanwhile");
}

#[test]
fn memory_is_bounded() {
    let cache = cache();
    let mark = cache.mark(Instant(0));
    for object in 0..OBJECTS_MAX as u64 + 10 {
        cache.keep_attributes(mark, &attr(object, 1), 5000);
        cache.keep_name(mark, object % 7, &object.to_le_bytes(), Named::Absent, 5000);
    }
    let state = cache.lock();
    assert!(state.attributes.len() <= OBJECTS_MAX);
    let names: usize = state.names.values().map(HashMap::len).sum();
    assert!(names <= NAMES_MAX && names == state.names_count);
    drop(state);
    for object in 0..RECENT_MAX as u64 + 10 {
        cache.recall(&[recall(RecallKind::Attributes, object, "")]);
    }
    assert!(cache.lock().recalled.len() <= RECENT_MAX + 1);
    assert_eq!(cache.keep_attributes(mark, &attr(5, 1), 5000), Instant(0), "who knows");
}

fn facts(object: u64, change: u64) -> Vec<Fact> {
    let name = Fact::Name(Key::Name(1, b"a".to_vec()), Named::Object(object));
    vec![name, Fact::Attributes(attr(object, change), None)]
}

fn making(cache: &Cache) -> OwnChange<'_> {
    cache.change([Key::Object(7), Key::Name(1, b"a".to_vec())])
}

#[test]
fn what_a_change_is_answered_is_kept() {
    let cache = cache();
    let (change, mark) = (making(&cache), cache.mark(Instant(0)));
    change.done(mark, 5000, || facts(7, 1));
    assert_eq!(cache.attributes(7, Instant(0)).unwrap().0, attr(7, 1));
    assert_eq!(cache.name(1, b"a", Instant(0)).unwrap().0, Named::Object(7));
    assert_eq!(cache.keep_name(mark, 1, b"a", Named::Absent, 5000), Instant(0), "asked before");
    let change = making(&cache);
    change.done(cache.mark(Instant(0)), 0, || facts(7, 2));
    assert!(cache.attributes(7, Instant(0)).is_none(), "it may not be cached");
}

#[test]
fn what_a_change_is_answered_is_not_kept_when_it_may_be_old() {
    let recalled = |cache: &Cache| cache.recall(&[recall(RecallKind::Attributes, 7, "")]);
    let changed = |cache: &Cache| drop(cache.change([Key::Object(7)]));
    let everything = |cache: &Cache| drop(cache.change([Key::All]));
    let lost = |cache: &Cache| {
        cache.lose_lease();
        cache.begin_lease(Instant(9000 * MS));
    };
    let meanwhile: [&dyn Fn(&Cache); 4] = [&recalled, &changed, &everything, &lost];
    for meanwhile in meanwhile {
        let cache = cache();
        let (change, mark) = (making(&cache), cache.mark(Instant(0)));
        meanwhile(&cache);
        change.done(mark, 5000, || facts(7, 1));
        assert!(cache.attributes(7, Instant(0)).is_none());
    }
    let cache = cache();
    let (change, mark) = (making(&cache), cache.mark(Instant(0)));
    let other = cache.change([Key::Names(1), Key::Object(7)]);
    change.done(mark, 5000, || facts(7, 1));
    assert!(cache.attributes(7, Instant(0)).is_none() && cache.name(1, b"a", Instant(0)).is_none());
    other.done(cache.mark(Instant(0)), 5000, || facts(7, 1));
    assert!(cache.name(1, b"a", Instant(0)).is_none(), "that was not among what it touched");
}

#[test]
fn what_this_client_has_written_is_added_to_what_is_kept() {
    let cache = cache();
    let progress = Progress::new(&attr(7, 1));
    cache.keep_known(cache.mark(Instant(0)), &attr(7, 1), Some(progress.clone()), 5000);
    let size = || cache.attributes(7, Instant(0)).map(|(attr, _)| attr.size);
    assert_eq!(size(), Some(10));
    progress.begin();
    assert_eq!(size(), None, "it is being written");
    let mtime = Time { seconds: 9, nanos: 0 };
    let wrote = pvfs_wire::ops::Wrote { end: 12, mtime, uncertain: false, disk_bytes: None };
    progress.changes().wrote = Some(wrote);
    progress.end();
    assert_eq!(size(), Some(12));
    assert_eq!(cache.attributes(7, Instant(0)).unwrap().0.mtime, mtime);
}

#[test]
fn a_name_is_absent_when_all_names_are_known() {
    let cache = cache();
    let absent = |name: &str| cache.is_absent(1, name.as_bytes(), Instant(0));
    let dir = Attr { kind: FileKind::Directory, ..attr(1, 1) };
    let making = cache.change([Key::Object(1)]);
    let facts = vec![Fact::Attributes(dir, None), Fact::Empty(1)];
    making.done(cache.mark(Instant(0)), 5000, || facts);
    assert!(absent("a") && absent("b"));
    assert!(!cache.is_absent(2, b"a", Instant(0)), "nothing is known of that");
    assert!(!absent(&"a".repeat(256)), "that is no name");

    let name = |name: &str| Key::Name(1, name.as_bytes().to_vec());
    let change = |what: &str, named, dir: Attr| {
        let own = cache.change([name(what), Key::Object(1)]);
        assert!(!absent(what), "it is being changed");
        let facts = vec![Fact::Attributes(dir, None), Fact::Name(name(what), named)];
        own.done(cache.mark(Instant(0)), 5000, || facts);
    };
    change("a", Named::Object(7), Attr { change: 2, ..dir });
    assert!(!absent("a") && absent("b"));
    change("a", Named::Absent, Attr { change: 3, ..dir });
    assert!(absent("a") && absent("b"));

    // A change of which nobody knows what it did.
    drop(cache.change([name("b"), Key::Object(1)]));
    assert!(!absent("a"));
}

#[test]
fn a_name_may_be_there_once_somebody_else_has_changed_the_directory() {
    let absent = |cache: &Cache| cache.is_absent(1, b"b", Instant(0));
    for recalled in [RecallKind::Attributes, RecallKind::Data, RecallKind::Names] {
        let cache = cache();
        let listing = Listing { entries: Vec::new(), end: true, parent: Handle::default() };
        cache.keep_page(cache.mark(Instant(0)), 1, (0, 1024), &listing, 5000);
        assert!(absent(&cache));
        cache.recall(&[recall(recalled, 1, "")]);
        assert!(!absent(&cache));
    }
    let cache = cache();
    let part = Listing { entries: Vec::new(), end: false, parent: Handle::default() };
    cache.keep_page(cache.mark(Instant(0)), 1, (0, 1024), &part, 5000);
    assert!(!absent(&cache), "there are more");
    // A recall between the question and the answer takes the names as well.
    let mark = cache.mark(Instant(0));
    let own = cache.change([Key::Object(1)]);
    cache.recall(&[recall(RecallKind::Attributes, 1, "")]);
    own.done(mark, 5000, || vec![Fact::Attributes(attr(1, 1), None), Fact::Empty(1)]);
    assert!(!absent(&cache));
}
