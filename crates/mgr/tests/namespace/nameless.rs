//! Files without a name: made so, kept by their opens, given a name once or never.

use pvfs_mgr::permission::Credentials;
use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, SizeState, Striping};
use pvfs_wire::ops::*;

use crate::world::{World, root, user};

const NAMELESS: OpenFlags = OpenFlags::WRITE.with(OpenFlags::DIRECTORY).with(OpenFlags::NAMELESS);
const CREATE: OpenFlags = OpenFlags::WRITE.with(OpenFlags::CREATE);

fn made(w: &mut World, who: &Credentials, dir: &str, open: u64) -> Opened {
    w.open(who, dir, NAMELESS, open).unwrap()
}

fn stat(w: &mut World, opened: &Opened) -> Result<Attr, Errno> {
    let target = Target::object(opened.attr.handle);
    w.run(&root(), Stat { target, follow: false, placement: false }).map(|stated| stated.attr)
}

fn link(w: &mut World, who: &Credentials, opened: &Opened, new: &str) -> Result<Made, Errno> {
    let (existing, new) = (Target::object(opened.attr.handle), w.at(new));
    w.run(who, Link { existing, follow: false, new })
}

#[test]
fn it_lives_as_long_as_somebody_has_it_open() {
    let mut w = World::new(1);
    let file = made(&mut w, &user(5), "", 1);
    assert!(file.created && file.placement.is_some() && file.truncation.is_none());
    assert_eq!((file.attr.nlink, file.attr.size_state), (0, SizeState::Settled));
    let (target, striping) = (Target::object(file.attr.handle), Striping::default());
    let again = Open { target, flags: OpenFlags::READ, mode: 0, striping, open: 1 };
    w.run_for(2, &user(5), again).unwrap();
    w.check();
    w.close(1, Some(10));
    let attr = stat(&mut w, &file).unwrap();
    assert_eq!((attr.size, attr.nlink), (10, 0));
    w.check();
    w.expire(2);
    assert_eq!(stat(&mut w, &file).unwrap_err(), Errno::ESTALE);
    let statfs = w.run(&root(), Statfs {}).unwrap();
    assert_eq!((statfs.files, statfs.purging), (1, 1));
    w.check();
}

#[test]
fn its_directory_does_not_change() {
    let mut w = World::new(1);
    w.mkdir(&user(5), "d", 0o755).unwrap();
    let before = w.stat(&root(), "d").unwrap();
    made(&mut w, &user(5), "d", 1);
    assert_eq!(w.stat(&root(), "d").unwrap(), before);
    assert!(w.list(&root(), "d", 10).is_empty());
    w.rmdir(&user(5), "d").unwrap();
    w.check();
}

#[test]
fn it_is_made_as_a_file_of_a_name_would_be() {
    let mut w = World::new(1);
    w.mkdir(&user(5), "d", 0o777).unwrap();
    w.chmod(&user(5), "d", 0o2777).unwrap();
    let set = SetXattr {
        target: w.at("d"),
        follow: true,
        name: "user.pvfs.pcount".into(),
        value: "2".into(),
        flags: XattrFlags::NONE,
    };
    w.run(&user(5), set).unwrap();
    let named = w.open(&user(6), "d/named", CREATE, 1).unwrap();
    let nameless = made(&mut w, &user(6), "d", 2);
    for opened in [&named, &nameless] {
        assert_eq!((opened.attr.uid, opened.attr.gid, opened.attr.mode), (6, 5, 0o644));
        assert_eq!(opened.placement.as_ref().unwrap().iods.len(), 2);
    }
}

#[test]
fn it_is_given_its_first_name_once_and_is_an_ordinary_file_then() {
    let mut w = World::new(1);
    let file = made(&mut w, &user(5), "", 1);
    assert_eq!(link(&mut w, &user(5), &file, "a").unwrap().attr.nlink, 1);
    assert_eq!(link(&mut w, &user(5), &file, "b").unwrap().attr.nlink, 2);
    w.close(1, Some(10));
    assert_eq!(w.stat(&root(), "a").unwrap().size, 10);
    w.open(&user(5), "a", OpenFlags::READ, 2).unwrap();
    w.unlink(&user(5), "a").unwrap();
    w.unlink(&user(5), "b").unwrap();
    assert_eq!(stat(&mut w, &file).unwrap().nlink, 0);
    assert_eq!(link(&mut w, &user(5), &file, "a").unwrap_err(), Errno::ENOENT);
    w.close(2, None);
    assert_eq!(stat(&mut w, &file).unwrap_err(), Errno::ESTALE);
    w.check();
}

#[test]
fn an_exclusive_one_never_gets_a_name() {
    let mut w = World::new(1);
    let file = w.open(&root(), "", NAMELESS | OpenFlags::EXCLUSIVE, 1).unwrap();
    assert_eq!(link(&mut w, &root(), &file, "a").unwrap_err(), Errno::ENOENT);
    w.check();
}

#[test]
fn what_it_needs_and_what_is_refused() {
    let mut w = World::new(1);
    w.file(&root(), "f", 0o666).unwrap();
    w.mkdir(&root(), "d", 0o777).unwrap();
    w.symlink(&root(), "d", "l").unwrap();
    for (mode, errno) in [(0o755, Errno::EACCES), (0o776, Errno::EACCES)] {
        w.chmod(&root(), "d", mode).unwrap();
        assert_eq!(w.open(&user(5), "d", NAMELESS, 1).unwrap_err(), errno, "{mode:o}");
    }
    w.chmod(&root(), "d", 0o773).unwrap();
    made(&mut w, &user(5), "d", 1);
    made(&mut w, &user(5), "l", 2);
    let [read, directory, write] = [OpenFlags::READ, OpenFlags::DIRECTORY, OpenFlags::WRITE];
    let bare = OpenFlags::NAMELESS;
    for (path, flags, errno) in [
        ("f", NAMELESS, Errno::ENOTDIR),
        ("none", NAMELESS, Errno::ENOENT),
        ("l", NAMELESS | OpenFlags::NOFOLLOW, Errno::ENOTDIR),
        ("d", bare | directory | read, Errno::EINVAL),
        ("d", bare | write, Errno::EINVAL),
        ("d", NAMELESS | OpenFlags::CREATE, Errno::EINVAL),
        ("d", NAMELESS | OpenFlags::EXECUTE, Errno::EINVAL),
        ("d", NAMELESS | OpenFlags::ADOPTED, Errno::EINVAL),
    ] {
        assert_eq!(w.open(&user(5), path, flags, 3).unwrap_err(), errno, "{path} {flags:?}");
    }
    assert_eq!(w.open(&user(5), "d", NAMELESS, 2).unwrap_err(), Errno::EINVAL, "a number again");
    let shared = OpenShared {
        target: w.at("d"),
        flags: NAMELESS,
        mode: 0o644,
        striping: Striping::default(),
        sharers: Sharers::User,
        lifetime_s: 60,
    };
    assert_eq!(w.run(&root(), shared).unwrap_err(), Errno::EINVAL);
    w.check();
}
