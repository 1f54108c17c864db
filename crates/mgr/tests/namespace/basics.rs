//! Names, links, directories and permissions, one rule at a time.

use crate::world::{World, nothing, root, user};
use pvfs_mgr::permission::Credentials;
use pvfs_wire::Errno;
use pvfs_wire::attr::{FileKind, SizeState, Time};
use pvfs_wire::ops::*;

const RW: OpenFlags = OpenFlags::READ.with(OpenFlags::WRITE);
const CREATE: OpenFlags = RW.with(OpenFlags::CREATE);

#[test]
fn a_created_file_is_there_for_everyone_and_exactly_one_creates_it() {
    let mut w = World::new(1);
    let made = w.open(&user(5), "a", CREATE | OpenFlags::EXCLUSIVE, 1).unwrap();
    assert!(made.created && made.truncation.is_none());
    assert_eq!((made.attr.uid, made.attr.mode, made.attr.nlink), (5, 0o644, 1));
    assert_eq!(made.placement.as_ref().unwrap().iods.len(), 4);
    let again = w.open(&user(5), "a", CREATE | OpenFlags::EXCLUSIVE, 2);
    assert_eq!(again.unwrap_err(), Errno::EEXIST);
    let opened = w.open_for(2, &user(6), "a", OpenFlags::READ, 1).unwrap();
    assert_eq!(opened.attr.handle, made.attr.handle);
    assert!(!opened.created);
    assert_eq!(w.open_for(2, &user(6), "a", RW, 2).unwrap_err(), Errno::EACCES);
    w.check();
}

#[test]
fn the_capability_says_what_the_open_allows() {
    use pvfs_wire::token::Rights;
    let mut w = World::new(1);
    w.open(&root(), "a", CREATE, 1).unwrap();
    for (flags, rights) in [
        (OpenFlags::READ, Rights::READ),
        (OpenFlags::WRITE, Rights::WRITE | Rights::TRUNCATE),
        (RW, Rights::READ | Rights::WRITE | Rights::TRUNCATE),
    ] {
        let number = 10 + u64::from(flags.bits());
        let opened = w.open(&root(), "a", flags, number).unwrap();
        let now_s = w.now.seconds as u64;
        let capability = w.keys.check_capability(&opened.capability, now_s).unwrap();
        assert_eq!((capability.rights, capability.handle), (rights, opened.attr.handle));
        assert_eq!(opened.expiry, now_s + 600);
        let renewed = w.run(&root(), Renew { open: number }).unwrap();
        let renewed = w.keys.check_capability(&renewed.capability, now_s).unwrap();
        assert_eq!(renewed.rights, rights);
    }
    assert_eq!(w.run(&user(5), Renew { open: 1 }).unwrap_err(), Errno::EPERM);
    assert_eq!(w.run(&root(), Renew { open: 99 }).unwrap_err(), Errno::EBADF);
}

#[test]
fn directories_count_their_subdirectories() {
    let mut w = World::new(1);
    w.mkdir(&root(), "d", 0o755).unwrap();
    w.mkdir(&root(), "d/e", 0o755).unwrap();
    w.file(&root(), "d/f", 0o644).unwrap();
    assert_eq!(w.stat(&root(), "d").unwrap().nlink, 3);
    assert_eq!(w.rmdir(&root(), "d").unwrap_err(), Errno::ENOTEMPTY);
    w.rmdir(&root(), "d/e").unwrap();
    assert_eq!(w.stat(&root(), "d").unwrap().nlink, 2);
    assert_eq!(w.rmdir(&root(), "d/f").unwrap_err(), Errno::ENOTDIR);
    assert_eq!(w.unlink(&root(), "d").unwrap_err(), Errno::EISDIR);
    w.unlink(&root(), "d/f").unwrap();
    w.rmdir(&root(), "d").unwrap();
    assert_eq!(w.stat(&root(), "d").unwrap_err(), Errno::ENOENT);
    w.check();
}

#[test]
fn an_unlinked_open_file_lives_until_the_last_close_and_is_stale_afterwards() {
    let mut w = World::new(1);
    let handle = w.open(&root(), "b", CREATE, 1).unwrap().attr.handle;
    w.link(&root(), "b", "a").unwrap();
    assert_eq!(w.unlink(&root(), "b").unwrap().nlink, 1);
    w.open_for(2, &root(), "a", OpenFlags::READ, 1).unwrap();
    assert_eq!(w.unlink(&root(), "a").unwrap().nlink, 0);
    let stat = |w: &mut World| {
        let target = Target::object(handle);
        w.run(&root(), Stat { target, follow: false, placement: false })
    };
    assert_eq!(stat(&mut w).unwrap().attr.nlink, 0);
    w.close(1, Some(10));
    assert_eq!(stat(&mut w).unwrap().attr.size, 10);
    let statfs = w.run(&root(), Statfs {}).unwrap();
    assert_eq!((statfs.files, statfs.purging), (2, 0));
    w.check();
    w.expire(2);
    assert_eq!(stat(&mut w).unwrap_err(), Errno::ESTALE);
    let statfs = w.run(&root(), Statfs {}).unwrap();
    assert_eq!((statfs.files, statfs.purging), (1, 1));
    w.check();
}

#[test]
fn sizes_are_settled_by_the_last_writer() {
    let mut w = World::new(1);
    w.open(&root(), "a", CREATE, 1).unwrap();
    w.open_for(2, &root(), "a", RW, 1).unwrap();
    w.close(1, Some(100));
    assert_eq!(w.stat(&root(), "a").unwrap().size_state, SizeState::Unsettled);
    w.close_for(2, 1, Some(50), false);
    let attr = w.stat(&root(), "a").unwrap();
    assert_eq!((attr.size, attr.size_state), (100, SizeState::Settled));
    w.check();
}

#[test]
fn paths_are_walked_with_symlinks_and_dots() {
    let mut w = World::new(1);
    w.mkdir(&root(), "d", 0o755).unwrap();
    let file = w.file(&root(), "d/f", 0o644).unwrap().handle;
    w.symlink(&root(), "d", "l").unwrap();
    w.symlink(&root(), "../l/f", "d/m").unwrap();
    w.symlink(&root(), "loop", "loop").unwrap();
    w.symlink(&root(), "/etc", "abs").unwrap();
    let mut stat = |path: &str, follow| {
        let target = w.at(path);
        w.run(&root(), Stat { target, follow, placement: false }).map(|stated| stated.attr.handle)
    };
    for path in ["d/f", "l/f", "d/m", "./d//f", "d/../l/./m", "../../d/f", "d/../../d/f"] {
        assert_eq!(stat(path, true), Ok(file), "{path}");
    }
    for (path, errno) in [
        ("d/f/", Errno::ENOTDIR),
        ("d/f/x", Errno::ENOTDIR),
        ("d/f/..", Errno::ENOTDIR),
        ("nothing", Errno::ENOENT),
        ("nothing/x", Errno::ENOENT),
        ("loop", Errno::ELOOP),
        ("loop/x", Errno::ELOOP),
        ("abs", Errno::EXDEV),
        ("abs/x", Errno::EXDEV),
        ("d/m/", Errno::ENOTDIR),
        (&"x".repeat(256), Errno::ENAMETOOLONG),
        (&"x/".repeat(2100), Errno::ENAMETOOLONG),
        ("a\0b", Errno::EINVAL),
    ] {
        assert_eq!(stat(path, true), Err(errno), "{path}");
    }
    assert!(stat("abs", false).is_ok());
    assert_eq!(stat("l/", false), stat("d", false));
    assert_ne!(stat("l", false), stat("d", false));
}

#[test]
fn a_path_of_slashes_is_the_directory_itself() {
    let mut w = World::new(1);
    let file = w.file(&root(), "f", 0o644).unwrap().handle;
    for (dir, path, expected) in
        [(w.root(), "//", Ok(())), (file, "", Ok(())), (file, "/", Err(Errno::ENOTDIR))]
    {
        let stat = Stat { target: Target::below(dir, path), follow: false, placement: false };
        let result = w.run(&root(), stat).map(|stated| assert_eq!(stated.attr.handle, dir));
        assert_eq!(result, expected, "{path}");
    }
}

#[test]
fn forty_symlinks_are_followed_and_no_more() {
    let mut w = World::new(1);
    w.file(&root(), "0", 0o644).unwrap();
    for i in 1..=41 {
        w.symlink(&root(), &(i - 1).to_string(), &i.to_string()).unwrap();
    }
    for (path, expected) in [("40", None), ("41", Some(Errno::ELOOP))] {
        let target = w.at(path);
        let result = w.run(&root(), Stat { target, follow: true, placement: false });
        assert_eq!(result.err(), expected, "{path}");
    }
}

#[test]
fn a_listing_in_pages_has_every_name_once() {
    let mut w = World::new(1);
    let mut expected: Vec<String> = (0..100).map(|i| format!("f{i}")).collect();
    expected.sort();
    for name in &expected {
        w.file(&root(), name, 0o644).unwrap();
    }
    for page in [1, 7, 100, 1000] {
        let mut names = w.list(&root(), "", page);
        names.sort();
        assert_eq!(names, expected, "pages of {page}");
    }
}

#[test]
fn listing_and_searching_need_their_permissions() {
    let mut w = World::new(1);
    w.mkdir(&user(5), "r", 0o744).unwrap();
    w.mkdir(&user(5), "x", 0o711).unwrap();
    w.file(&user(5), "r/f", 0o644).unwrap();
    w.file(&user(5), "x/f", 0o644).unwrap();
    assert_eq!(w.stat(&user(6), "r/f").unwrap_err(), Errno::EACCES);
    assert!(w.stat(&user(6), "x/f").is_ok());
    let list = |w: &mut World, path: &str| {
        let dir = w.stat(&root(), path).unwrap().handle;
        w.run(&user(6), Readdir { dir, cookie: 0, entries_max: 10, attributes: true })
    };
    assert_eq!(list(&mut w, "x").unwrap_err(), Errno::EACCES);
    assert_eq!(list(&mut w, "r").unwrap().entries[0].attr, None);
}

#[test]
fn sticky_directories_protect_what_others_own() {
    let mut w = World::new(1);
    w.mkdir(&root(), "tmp", 0o1777).unwrap();
    w.file(&user(5), "tmp/f", 0o666).unwrap();
    w.file(&user(6), "tmp/g", 0o666).unwrap();
    assert_eq!(w.unlink(&user(6), "tmp/f").unwrap_err(), Errno::EPERM);
    assert_eq!(w.rename(&user(6), "tmp/f", "tmp/h").unwrap_err(), Errno::EPERM);
    assert_eq!(w.rename(&user(6), "tmp/g", "tmp/f").unwrap_err(), Errno::EPERM);
    w.unlink(&user(5), "tmp/f").unwrap();
    w.unlink(&root(), "tmp/g").unwrap();
}

#[test]
fn setgid_directories_hand_down_their_group() {
    let mut w = World::new(1);
    w.mkdir(&user(5), "d", 0o777).unwrap();
    w.chmod(&user(5), "d", 0o2777).unwrap();
    let file = w.file(&user(6), "d/f", 0o2775).unwrap();
    assert_eq!((file.gid, file.mode), (5, 0o775));
    let sub = w.mkdir(&user(6), "d/s", 0o755).unwrap();
    assert_eq!((sub.gid, sub.mode), (5, 0o2755));
    assert_eq!(w.mkdir(&root(), "plain", 0o7755).unwrap().mode, 0o1755);
}

#[test]
fn changing_owner_and_mode_follows_linux() {
    let mut w = World::new(1);
    let mut member = user(5);
    member.gids = vec![50];
    w.file(&member, "f", 0o6755).unwrap();
    assert_eq!(w.chown(&member, "f", Some(6), None).unwrap_err(), Errno::EPERM);
    assert_eq!(w.chown(&member, "f", None, Some(51)).unwrap_err(), Errno::EPERM);
    assert_eq!(w.chmod(&user(6), "f", 0o777).unwrap_err(), Errno::EPERM);
    let attr = w.chown(&member, "f", Some(5), Some(50)).unwrap();
    assert_eq!((attr.gid, attr.mode), (50, 0o755));
    assert_eq!(w.chmod(&member, "f", 0o2755).unwrap().mode, 0o2755);
    w.chown(&root(), "f", None, Some(51)).unwrap();
    assert_eq!(w.chmod(&member, "f", 0o2755).unwrap().mode, 0o755);
    assert_eq!(w.chmod(&root(), "f", 0o6711).unwrap().mode, 0o6711);
    assert_eq!(w.chown(&root(), "f", Some(7), None).unwrap().mode, 0o711);
}

#[test]
fn setting_times_to_now_needs_less_than_setting_them_to_something() {
    let mut w = World::new(1);
    w.file(&user(5), "f", 0o666).unwrap();
    w.file(&user(5), "g", 0o644).unwrap();
    let now = Some(SetTime::Now);
    let then = Some(SetTime::At(Time { seconds: 5, nanos: 0 }));
    let set = |w: &mut World, path: &str, atime, mtime| {
        let change = SetAttr { atime, mtime, ..nothing(w.at(path)) };
        w.run(&user(6), change).map(|stated| stated.attr.mtime)
    };
    assert!(set(&mut w, "f", now, now).is_ok());
    assert_eq!(set(&mut w, "g", now, now), Err(Errno::EACCES));
    assert_eq!(set(&mut w, "f", now, None), Err(Errno::EPERM));
    assert_eq!(set(&mut w, "f", then, then), Err(Errno::EPERM));
    let change = SetAttr { mtime: then, ..nothing(w.at("f")) };
    assert_eq!(w.run(&user(5), change).unwrap().attr.mtime.seconds, 5);
    let bad = Some(SetTime::At(Time { seconds: 5, nanos: 1_000_000_000 }));
    let change = SetAttr { mtime: bad, ..nothing(w.at("f")) };
    assert_eq!(w.run(&user(5), change).unwrap_err(), Errno::EINVAL);
}

#[test]
fn special_files_are_kept_and_devices_are_roots() {
    let mut w = World::new(1);
    let mut mknod = |who: &Credentials, path: &str, kind| {
        let target = w.at(path);
        w.run(who, Mknod { target, kind, mode: 0o600, rdev: 0x0103 }).map(|made| made.attr)
    };
    let device = mknod(&root(), "null", FileKind::CharDevice).unwrap();
    assert_eq!((device.kind, device.rdev), (FileKind::CharDevice, 0x0103));
    assert_eq!(mknod(&user(5), "disk", FileKind::BlockDevice).unwrap_err(), Errno::EPERM);
    assert_eq!(mknod(&user(5), "pipe", FileKind::Fifo).unwrap().rdev, 0);
    assert_eq!(mknod(&user(5), "dir", FileKind::Directory).unwrap_err(), Errno::EINVAL);
    assert_eq!(w.open(&root(), "null", OpenFlags::READ, 1).unwrap_err(), Errno::ENXIO);
    w.check();
}

#[test]
fn handles_of_another_file_system_are_stale() {
    let mut w = World::new(1);
    let root_handle = w.root();
    for handle in [
        pvfs_wire::Handle { fsid: 8, ..root_handle },
        pvfs_wire::Handle { generation: 8, ..root_handle },
        root_handle.sibling(999),
    ] {
        let target = Target::object(handle);
        let result = w.run(&root(), Stat { target, follow: false, placement: false });
        assert_eq!(result.unwrap_err(), Errno::ESTALE);
    }
}

#[test]
fn dispatch_runs_what_is_encoded_and_refuses_what_is_not_understood() {
    use pvfs_mgr::execute::dispatch;
    use pvfs_wire::{Operation, Wire};
    let mut w = World::new(1);
    let request = Mkdir { target: w.at("d"), mode: 0o755 };
    let body =
        w.with_context(1, &root(), |cx| dispatch(Mkdir::CODE, &request.to_bytes(), cx)).unwrap();
    assert_eq!(Made::from_bytes(&body).unwrap().attr.mode, 0o755);
    let mut refused = |code, body: &[u8]| w.with_context(1, &root(), |cx| dispatch(code, body, cx));
    assert_eq!(refused(Mkdir::CODE, &request.to_bytes()), Err(Errno::EEXIST));
    assert_eq!(refused(Mkdir::CODE, b"x"), Err(Errno::EPROTO));
    assert_eq!(refused(Lock::CODE, b""), Err(Errno::ENOSYS));
    assert_eq!(refused(0xffff, b""), Err(Errno::ENOSYS));
}
