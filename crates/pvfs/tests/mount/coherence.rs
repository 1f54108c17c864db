//! Two mounts that cache, and yet see each other's changes at once.

use std::borrow::BorrowMut;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use pvfs_client::block_on;
use pvfs_wire::ops::Status;
use rustix::fs::Dir;
use rustix::process::{Pid, Signal, kill_process};

use pvfs_conformance::chance::Chance;

use crate::TwoMounts;
use crate::support::{eventually, pattern};

/// A file as it should look.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Model {
    mode: u32,
    content: Vec<u8>,
}

/// Everything that can be seen of a directory from one mount.
fn seen(directory: &Path) -> BTreeMap<String, Model> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let metadata = fs::symlink_metadata(entry.path()).unwrap();
        let content = fs::read(entry.path()).unwrap();
        assert_eq!(metadata.len(), content.len() as u64, "{:?}", entry.path());
        let model = Model { mode: metadata.mode() & 0o777, content };
        (entry.file_name().into_string().unwrap(), model)
    });
    entries.collect()
}

/// Does one thing, if it can be done, on the mount and on the model.
fn change(chance: &mut Chance, directory: &Path, model: &mut BTreeMap<String, Model>) -> String {
    let name = format!("f{}", chance.below(8));
    let other = format!("f{}", chance.below(8));
    let path = directory.join(&name);
    let known = model.contains_key(&name);
    match chance.below(7) {
        0 | 1 if !known => {
            let content = pattern(chance.below(20_000), chance.number());
            fs::write(&path, &content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            model.insert(name.clone(), Model { mode: 0o600, content });
            format!("create {name}")
        }
        2 if known => {
            fs::remove_file(&path).unwrap();
            model.remove(&name);
            format!("unlink {name}")
        }
        3 if known && name != other => {
            fs::rename(&path, directory.join(&other)).unwrap();
            let moved = model.remove(&name).expect("it is known");
            model.insert(other.clone(), moved);
            format!("rename {name} {other}")
        }
        4 if known => {
            let mode = 0o400 | chance.below(0o400) as u32;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            model.get_mut(&name).expect("it is known").mode = mode;
            format!("chmod {mode:o} {name}")
        }
        5 if known => {
            let size = chance.below(30_000) as u64;
            File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
            model.get_mut(&name).expect("it is known").content.resize(size as usize, 0);
            format!("truncate {name} to {size}")
        }
        6 if known => {
            let (offset, part) = (chance.below(20_000) as u64, pattern(3000, chance.number()));
            File::options().write(true).open(&path).unwrap().write_all_at(&part, offset).unwrap();
            let content = &mut model.get_mut(&name).expect("it is known").content;
            let end = offset as usize + part.len();
            content.resize(content.len().max(end), 0);
            content[offset as usize..end].copy_from_slice(&part);
            format!("write {name} at {offset}")
        }
        _ => String::from("nothing"),
    }
}

#[test]
fn a_thousand_changes_are_seen_at_once_from_the_other_mount() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    let (mut chance, mut model) = (Chance::new(7), BTreeMap::new());
    fs::create_dir(here.join("d")).unwrap();
    for step in 0..1000 {
        let (writer, reader) = if chance.below(2) == 0 { (&here, &there) } else { (&there, &here) };
        let done = change(&mut chance, &writer.join("d"), &mut model);
        for (place, mount) in [("the other", reader), ("its own", writer)] {
            // Names that are not there are remembered too.
            for name in (0..8).map(|name| format!("f{name}")) {
                let is_there = fs::symlink_metadata(mount.join("d").join(&name)).is_ok();
                let context = format!("{name} from {place} mount after step {step}: {done}");
                assert_eq!(is_there, model.contains_key(&name), "{context}");
            }
        }
        if step % 5 == 0 {
            for mount in [reader, writer] {
                let seen = seen(&mount.join("d"));
                assert!(seen.keys().eq(model.keys()), "names after step {step}: {done}");
                for (name, model) in &model {
                    let context = format!("{name} of {mount:?} after step {step}: {done}");
                    assert_eq!(seen[name].mode, model.mode, "mode of {context}");
                    assert_eq!(seen[name].content.len(), model.content.len(), "size of {context}");
                    assert!(seen[name].content == model.content, "content of {context}");
                }
            }
        }
    }
}

/// The kernel keeps what it was told while one alone has read a directory.
#[test]
fn listings_are_those_of_the_moment_however_they_are_read() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    // Opened each time, kept open and read again, and both at once.
    for (opens, keeps) in [(true, false), (false, true), (true, true)] {
        let (mut chance, mut model) = (Chance::new(11), BTreeSet::new());
        let name = format!("{opens} {keeps}");
        fs::create_dir(here.join(&name)).unwrap();
        let open = |mount: &Path| Dir::new(File::open(mount.join(&name)).unwrap()).unwrap();
        let mut kept: Vec<Dir> = [&here, &there].map(|mount| open(mount)).into();
        if !keeps {
            kept.clear();
        }
        for step in 0..1500 {
            let mount = if chance.below(2) == 0 { &here } else { &there };
            let file = format!("f{}", chance.below(40));
            let path = mount.join(&name).join(&file);
            match chance.below(8) {
                // In half of the cases nothing happens, so that the next listing comes from what is kept.
                0 | 1 if model.insert(file.clone()) => drop(File::create_new(&path).unwrap()),
                2 | 3 if model.remove(&file) => fs::remove_file(&path).unwrap(),
                4 if opens => {
                    // Read by two at a time, neither of them to the end.
                    let mut two = [open(mount), open(mount)];
                    for which in [0, 1, 0] {
                        two[which].read().unwrap().unwrap();
                    }
                }
                _ => {}
            }
            let context = format!("{name} after step {step} with {file}");
            for mount in [&here, &there].into_iter().filter(|_| opens) {
                assert_eq!(names(open(mount)), model, "{mount:?} {context}");
            }
            for dir in &mut kept {
                dir.rewind();
                assert_eq!(names(dir), model, "read again, {context}");
            }
        }
    }
}

fn names(mut dir: impl BorrowMut<Dir>) -> BTreeSet<String> {
    let names = std::iter::from_fn(|| dir.borrow_mut().read());
    let names = names.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// How many questions the manager has answered.
fn questions(mounts: &TwoMounts) -> u64 {
    let user = mounts.cluster.user();
    let asked = user.inquire(user.filesystem().manager(), &Status {});
    let report = block_on(asked).unwrap();
    let figure = report.figures.into_iter().find(|(name, _)| name == "queries_total");
    figure.expect("the status has it").1
}

#[test]
fn repeated_stats_and_listings_never_leave_the_node() {
    let Some(mounts) = TwoMounts::start() else { return };
    let there = mounts.there.join("many");
    mounts.shell("mkdir $MNT/many && cd $MNT/many && seq 500 | xargs touch").succeeds();
    let list = |expected: usize| {
        let metadata = |entry: fs::DirEntry| fs::symlink_metadata(entry.path()).unwrap().len();
        let lengths = fs::read_dir(&there).unwrap().map(|entry| metadata(entry.unwrap()));
        assert_eq!(lengths.count(), expected);
        assert_eq!(fs::metadata(there.join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    };
    list(500);
    let before = questions(&mounts);
    // Longer than the kernel is told to believe anything: what it asks again is answered on this node.
    for _ in 0..16 {
        list(500);
        thread::sleep(Duration::from_millis(400));
    }
    let asked = questions(&mounts) - before;
    assert!(asked < 40, "{asked} questions for 16 listings of what nobody has changed");
    fs::write(mounts.here.join("many/new"), b"x").unwrap();
    list(501);
}

/// The process that serves a mount point.
fn server_of(mount: &Path) -> Pid {
    let wanted = format!("{}\0--background", mount.display());
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(command) = fs::read_to_string(entry.path().join("cmdline")) else { continue };
        if command.contains(&wanted) {
            let pid = entry.file_name().into_string().unwrap().parse().unwrap();
            return Pid::from_raw(pid).unwrap();
        }
    }
    panic!("nobody serves {}", mount.display());
}

/// How long `there` takes to change what `here` believes, when the server of `here` has got this signal.
fn time_to_change(mounts: &TwoMounts, signal: Signal) -> Duration {
    let path = |mount: &PathBuf| mount.join("f");
    fs::write(path(&mounts.there), b"x").unwrap();
    // What is being closed just now is not cached: it is asked for again.
    for _ in 0..5 {
        fs::metadata(path(&mounts.here)).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    let server = server_of(&mounts.here);
    kill_process(server, signal).unwrap();
    let start = Instant::now();
    fs::set_permissions(path(&mounts.there), fs::Permissions::from_mode(0o640)).unwrap();
    fs::remove_file(path(&mounts.there)).unwrap();
    let time = start.elapsed();
    if signal == Signal::STOP {
        kill_process(server, Signal::CONT).unwrap();
    }
    time
}

#[test]
fn a_stopped_mount_delays_others_by_its_lease_and_then_believes_nothing_old() {
    let Some(mounts) = TwoMounts::start() else { return };
    let time = time_to_change(&mounts, Signal::STOP);
    assert!(time < Duration::from_secs(8), "{time:?}");
    assert!(time > Duration::from_secs(2), "it was not waited for: {time:?}");
    assert!(!mounts.here.join("f").exists());
    fs::write(mounts.there.join("g"), b"y").unwrap();
    assert_eq!(fs::read(mounts.here.join("g")).unwrap(), b"y");
}

#[test]
fn a_killed_mount_delays_others_by_its_lease_at_most() {
    let Some(mounts) = TwoMounts::start() else { return };
    let time = time_to_change(&mounts, Signal::KILL);
    assert!(time < Duration::from_secs(8), "{time:?}");
    fs::write(mounts.there.join("g"), b"y").unwrap();
}

/// Each holds its directory in its own kernel while it waits for the other to forget a name in it.
#[test]
fn changes_of_one_directory_from_both_mounts_do_not_wait_for_each_other() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    fs::create_dir(here.join("d")).unwrap();
    let start = Instant::now();
    thread::scope(|scope| {
        for mount in [&here, &there, &here, &there] {
            scope.spawn(move || {
                for round in 0..100 {
                    let name = |number: u32| mount.join("d").join(format!("n{number}"));
                    let _ = File::create_new(name(round % 7));
                    let _ = fs::metadata(name((round + 3) % 7));
                    let _ = fs::rename(name(round % 7), name((round + 1) % 7));
                    let _ = fs::remove_file(name((round + 1) % 7));
                }
            });
        }
    });
    let time = start.elapsed();
    assert!(time < Duration::from_secs(60), "{time:?}");
    let names = |mount: &Path| {
        let entries = fs::read_dir(mount.join("d")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&here), names(&there));
    for name in names(&here) {
        let inode = |mount: &Path| fs::symlink_metadata(mount.join("d").join(&name)).unwrap().ino();
        assert_eq!(inode(&here), inode(&there));
    }
}

#[test]
fn a_manager_that_restarts_leaves_caches_true() {
    let Some(mounts) = TwoMounts::start() else { return };
    for round in 0..3 {
        fs::write(mounts.here.join("f"), format!("{round}")).unwrap();
        assert_eq!(fs::read(mounts.there.join("f")).unwrap(), format!("{round}").as_bytes());
        mounts.cluster.signal("mgr0", Signal::KILL);
        mounts.cluster.up();
        let start = Instant::now();
        fs::rename(mounts.here.join("f"), mounts.here.join("g")).unwrap();
        assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        assert!(!mounts.there.join("f").exists() && mounts.there.join("g").exists());
        fs::remove_file(mounts.there.join("g")).unwrap();
        assert!(!mounts.here.join("g").exists());
    }
}

#[test]
fn a_reader_sees_what_a_writer_has_synced_when_it_opens_again() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    let writer =
        File::options().write(true).create(true).truncate(false).open(here.join("log")).unwrap();
    for round in 0..50u64 {
        writer.write_all_at(&round.to_le_bytes(), round * 8).unwrap();
        // It is still open for writing: nobody may believe its size for any time.
        assert_eq!(fs::metadata(there.join("log")).unwrap().len(), round * 8 + 8);
        assert_eq!(fs::read(there.join("log")).unwrap()[round as usize * 8..], round.to_le_bytes());
    }
    drop(writer);
    eventually("the close is told", Duration::from_secs(5), || {
        fs::metadata(there.join("log")).unwrap().len() == 400
    });
}

#[test]
fn who_finds_others_writing_sees_what_they_write_from_then_on() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    fs::write(here.join("f"), pattern(400_000, 1)).unwrap();
    let open = |mount: &Path, write| {
        File::options().read(true).write(write).open(mount.join("f")).unwrap()
    };
    let writer = open(&here, true);
    for reader in [open(&there, false), open(&there, true)] {
        for round in 1..100u64 {
            // One place, another page, another stripe, and beyond the end.
            for offset in [0, 5000, 300_000, 400_000 + round * 8] {
                writer.write_all_at(&round.to_le_bytes(), offset).unwrap();
                let mut value = [0; 8];
                reader.read_exact_at(&mut value, offset).unwrap();
                assert_eq!(u64::from_le_bytes(value), round, "at {offset}");
            }
        }
    }
}
