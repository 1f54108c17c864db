//! Listings: opendir(3), readdir(3), seekdir(3), and directories that change meanwhile.

use std::collections::HashSet;

use crate::sys::*;
use crate::wants::*;

cases! { "directories"
    any [
        an_empty_directory_has_dot_and_dot_dot,
        every_name_is_listed_once,
        numbers_are_those_of_stat,
        what_was_there_throughout_is_listed_once_whatever_changes,
        positions_lead_back,
        rewinding_shows_what_changed,
        removing_while_listing_removes_all,
        two_streams_are_independent,
        a_removed_directory_lists_nothing,
        opening_what_is_no_directory_fails,
        an_open_directory_that_is_moved_lists_on,
    ]
    root []
}

fn an_empty_directory_has_dot_and_dot_dot() {
    mkdir("d", 0o755).unwrap();
    let mut stream = Stream::open("d").unwrap();
    let mut found: Vec<_> = std::iter::from_fn(|| stream.next()).collect();
    found.sort();
    let numbers = [lstat("d").unwrap().st_ino, lstat(".").unwrap().st_ino];
    assert_eq!(found.iter().map(|entry| &entry.0[..]).collect::<Vec<_>>(), [".", ".."]);
    assert_eq!(found[0].1, numbers[0]);
}

fn every_name_is_listed_once() {
    mkdir("d", 0o755).unwrap();
    let mut made: Vec<String> = (0..1500).map(|index| format!("name-{index:05}")).collect();
    for name in &made {
        mknod(&format!("d/{name}"), S_IFREG | 0o644, 0).unwrap();
    }
    made.sort();
    assert!(names("d") == made);
}

fn numbers_are_those_of_stat() {
    let made: HashSet<_> = one_of_each().into_iter().collect();
    let stream = Stream::open(".").unwrap();
    for (name, number) in stream {
        if made.contains(&name[..]) {
            assert_eq!(number, lstat(&name).unwrap().st_ino, "{name}");
        }
    }
}

fn what_was_there_throughout_is_listed_once_whatever_changes() {
    mkdir("d", 0o755).unwrap();
    let staying: Vec<String> = (0..300).map(|index| format!("d/stays-{index}")).collect();
    for name in &staying {
        drop(file(name, b""));
    }
    let mut stream = Stream::open("d").unwrap();
    let mut found = Vec::new();
    let mut count = 0;
    for (name, _) in stream.by_ref() {
        if name.starts_with("stays") {
            found.push(format!("d/{name}"));
        }
        count += 1;
        if count % 3 == 0 {
            drop(file(&format!("d/comes-{count}"), b""));
        }
        if count % 6 == 0 {
            unlink(&format!("d/comes-{}", count / 2 / 3 * 3)).unwrap();
        }
        assert!(count < 5000, "a listing that never ends");
    }
    let unique: HashSet<_> = found.iter().collect();
    assert_eq!((found.len(), unique.len()), (300, 300));
}

fn positions_lead_back() {
    mkdir("d", 0o755).unwrap();
    (0..400).for_each(|index| drop(file(&format!("d/f{index}"), b"")));
    let mut stream = Stream::open("d").unwrap();
    let mut all = Vec::new();
    loop {
        let position = stream.tell();
        let Some((name, _)) = stream.next() else { break };
        all.push((position, name));
    }
    for index in [401, 0, 200, 399, 1, 57] {
        stream.seek(all[index].0);
        assert_eq!(stream.next().unwrap().0, all[index].1, "entry {index}");
    }
    // After a removal elsewhere too.
    let victim = all.iter().find(|(_, name)| name == "f7").unwrap();
    unlink(&format!("d/{}", victim.1)).unwrap();
    let other = all.iter().find(|(_, name)| name == "f300").unwrap();
    stream.seek(other.0);
    assert_eq!(stream.next().unwrap().0, other.1);
}

fn rewinding_shows_what_changed() {
    mkdir("d", 0o755).unwrap();
    drop(file("d/a", b""));
    let mut stream = Stream::open("d").unwrap();
    let list = |stream: &mut Stream| {
        let mut found: Vec<String> = std::iter::from_fn(|| stream.next().map(|entry| entry.0))
            .filter(|name| !name.starts_with('.'))
            .collect();
        found.sort();
        found
    };
    assert_eq!(list(&mut stream), ["a"]);
    drop(file("d/b", b""));
    unlink("d/a").unwrap();
    stream.rewind();
    assert_eq!(list(&mut stream), ["b"]);
}

fn removing_while_listing_removes_all() {
    mkdir("d", 0o755).unwrap();
    (0..1200).for_each(|index| mknod(&format!("d/f{index}"), S_IFREG | 0o644, 0).unwrap());
    let mut stream = Stream::open("d").unwrap();
    for (name, _) in stream.by_ref() {
        if !name.starts_with('.') {
            unlink(&format!("d/{name}")).unwrap();
        }
    }
    rmdir("d").unwrap();
}

fn two_streams_are_independent() {
    mkdir("d", 0o755).unwrap();
    (0..50).for_each(|index| drop(file(&format!("d/f{index}"), b"")));
    let (mut first, mut second) = (Stream::open("d").unwrap(), Stream::open("d").unwrap());
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        one.extend(first.next());
    }
    two.extend(std::iter::from_fn(|| second.next()));
    one.extend(std::iter::from_fn(|| first.next()));
    assert_eq!((one.len(), one == two), (52, true));
}

fn a_removed_directory_lists_nothing() {
    mkdir("d", 0o755).unwrap();
    let mut stream = Stream::open("d").unwrap();
    rmdir("d").unwrap();
    for (name, _) in stream.by_ref() {
        assert!(name.starts_with('.'), "{name}");
    }
}

fn opening_what_is_no_directory_fails() {
    for name in one_of_each() {
        if !matches!(kind(name), S_IFDIR | S_IFCHR | S_IFBLK) {
            assert_eq!(Stream::open(name).err(), Some(Errno::ENOTDIR), "{name}");
        }
    }
}

fn an_open_directory_that_is_moved_lists_on() {
    mkdir("d", 0o755).unwrap();
    (0..20).for_each(|index| drop(file(&format!("d/f{index}"), b"")));
    let mut stream = Stream::open("d").unwrap();
    stream.next().unwrap();
    mkdir("e", 0o755).unwrap();
    rename("d", "e/d").unwrap();
    assert_eq!(std::iter::from_fn(|| stream.next()).count(), 21);
}
