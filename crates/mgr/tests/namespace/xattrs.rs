//! Extended attributes, and the striping parameters among them.

use crate::world::{World, policy, root, user};
use pvfs_mgr::permission::Credentials;
use pvfs_wire::attr::{FileKind, Striping};
use pvfs_wire::ops::*;
use pvfs_wire::{Bytes, Errno};

fn set(w: &mut World, who: &Credentials, path: &str, name: &str, value: &str) -> Result<(), Errno> {
    set_with(w, who, path, name, value, XattrFlags::NONE)
}

fn set_with(
    w: &mut World,
    who: &Credentials,
    path: &str,
    name: &str,
    value: &str,
    flags: XattrFlags,
) -> Result<(), Errno> {
    let (target, name, value) = (w.at(path), name.into(), value.into());
    w.run(who, SetXattr { target, follow: false, name, value, flags }).map(|_| ())
}

fn get(w: &mut World, who: &Credentials, path: &str, name: &str) -> Result<String, Errno> {
    let (target, name) = (w.at(path), name.into());
    let value = w.run(who, GetXattr { target, follow: false, name })?.value;
    Ok(String::from_utf8(value.0).unwrap())
}

fn remove(w: &mut World, who: &Credentials, path: &str, name: &str) -> Result<(), Errno> {
    let (target, name) = (w.at(path), name.into());
    w.run(who, RemoveXattr { target, follow: false, name }).map(|_| ())
}

fn list(w: &mut World, who: &Credentials, path: &str) -> Vec<String> {
    let target = w.at(path);
    let names = w.run(who, ListXattr { target, follow: false }).unwrap().names;
    let text = |name: Bytes| String::from_utf8(name.0).unwrap();
    names.into_iter().map(text).collect()
}

#[test]
fn attributes_are_set_listed_and_removed() {
    let mut w = World::new(1);
    w.file(&user(5), "f", 0o644).unwrap();
    assert_eq!(get(&mut w, &root(), "f", "user.a"), Err(Errno::ENODATA));
    set_with(&mut w, &user(5), "f", "user.a", "1", XattrFlags::CREATE).unwrap();
    let again = set_with(&mut w, &user(5), "f", "user.a", "2", XattrFlags::CREATE);
    assert_eq!(again, Err(Errno::EEXIST));
    let absent = set_with(&mut w, &user(5), "f", "user.b", "2", XattrFlags::REPLACE);
    assert_eq!(absent, Err(Errno::ENODATA));
    set(&mut w, &user(5), "f", "user.a", "").unwrap();
    set(&mut w, &user(5), "f", "user.b", "2").unwrap();
    assert_eq!(get(&mut w, &user(6), "f", "user.a"), Ok(String::new()));
    assert_eq!(list(&mut w, &user(6), "f"), ["user.a", "user.b"]);
    w.check();
    remove(&mut w, &user(5), "f", "user.a").unwrap();
    assert_eq!(remove(&mut w, &user(5), "f", "user.a"), Err(Errno::ENODATA));
    assert_eq!(list(&mut w, &root(), "f"), ["user.b"]);
    w.unlink(&root(), "f").unwrap();
    w.check();
}

#[test]
fn each_family_has_its_permissions() {
    let mut w = World::new(1);
    w.file(&user(5), "f", 0o600).unwrap();
    w.symlink(&user(5), "f", "l").unwrap();
    w.mkdir(&root(), "tmp", 0o1777).unwrap();
    for name in ["trusted.a", "security.a"] {
        assert_eq!(set(&mut w, &user(5), "f", name, "1"), Err(Errno::EPERM));
        set(&mut w, &root(), "f", name, "1").unwrap();
    }
    assert_eq!(get(&mut w, &user(5), "f", "trusted.a"), Err(Errno::ENODATA));
    assert_eq!(get(&mut w, &user(5), "f", "security.a"), Ok("1".into()));
    assert_eq!(list(&mut w, &user(5), "f"), ["security.a"]);
    assert_eq!(get(&mut w, &user(6), "f", "user.a"), Err(Errno::EACCES));
    assert_eq!(set(&mut w, &user(6), "f", "user.a", "1"), Err(Errno::EACCES));
    assert_eq!(set(&mut w, &root(), "l", "user.a", "1"), Err(Errno::EPERM));
    assert_eq!(set(&mut w, &user(6), "tmp", "user.a", "1"), Err(Errno::EPERM));
    set(&mut w, &root(), "l", "trusted.a", "1").unwrap();
    for (name, errno) in [
        ("system.posix_acl_access", Errno::EINVAL),
        ("system.nfs4_acl", Errno::EOPNOTSUPP),
        ("other.a", Errno::EOPNOTSUPP),
        ("user.", Errno::EINVAL),
        ("", Errno::ERANGE),
        (&format!("user.{}", "x".repeat(251)), Errno::ERANGE),
    ] {
        assert_eq!(set(&mut w, &root(), "f", name, "1"), Err(errno), "{name}");
    }
    let long = "x".repeat(XATTR_VALUE_BYTES_MAX);
    set(&mut w, &root(), "f", "user.long", &long).unwrap();
    let longer = long + "x";
    assert_eq!(set(&mut w, &root(), "f", "user.long", &longer), Err(Errno::E2BIG));
}

#[test]
fn the_number_of_attributes_is_bounded() {
    let mut w = World::new(1);
    w.file(&root(), "f", 0o600).unwrap();
    for i in 0..250 {
        set(&mut w, &root(), "f", &format!("user.{i}"), "v").unwrap();
    }
    assert_eq!(set(&mut w, &root(), "f", "user.more", "v"), Err(Errno::ENOSPC));
    set(&mut w, &root(), "f", "user.7", "w").unwrap();
}

#[test]
fn directories_hand_down_their_striping_and_files_show_theirs() {
    let mut w = World::new(1);
    w.mkdir(&root(), "d", 0o755).unwrap();
    for (name, value) in [("ssize", "128K"), ("pcount", "2"), ("base", "3")] {
        set(&mut w, &root(), "d", &format!("user.pvfs.{name}"), value).unwrap();
    }
    assert_eq!(get(&mut w, &root(), "d", "user.pvfs.ssize"), Ok("131072".into()));
    w.mkdir(&root(), "d/e", 0o755).unwrap();
    w.file(&root(), "d/e/f", 0o644).unwrap();
    for (name, value) in [
        ("dist", "simple_stripe:ssize=131072"),
        ("base", "3"),
        ("pcount", "2"),
        ("ssize", "131072"),
        ("iods", "3,0"),
    ] {
        let shown = get(&mut w, &root(), "d/e/f", &format!("user.pvfs.{name}"));
        assert_eq!(shown, Ok(value.into()), "{name}");
    }
    assert_eq!(get(&mut w, &root(), "d/e/f", "user.pvfs.other"), Err(Errno::ENODATA));
    assert_eq!(list(&mut w, &root(), "d/e/f"), Vec::<String>::new());
    assert_eq!(list(&mut w, &root(), "d").len(), 3);
    set(&mut w, &root(), "d", "user.pvfs.pcount", "-1").unwrap();
    remove(&mut w, &root(), "d", "user.pvfs.base").unwrap();
    assert_eq!(list(&mut w, &root(), "d"), ["user.pvfs.ssize"]);
    assert_eq!(remove(&mut w, &root(), "d", "user.pvfs.base"), Err(Errno::ENODATA));
    w.check();
}

#[test]
fn striping_that_cannot_be_is_refused() {
    let mut w = World::new(1);
    w.mkdir(&root(), "d", 0o755).unwrap();
    for (name, value) in [
        ("ssize", "0"),
        ("ssize", "x"),
        ("pcount", "0"),
        ("pcount", "5"),
        ("base", "4"),
        ("base", "-2"),
        ("dist", "raid0"),
        ("nothing", "1"),
    ] {
        let result = set(&mut w, &root(), "d", &format!("user.pvfs.{name}"), value);
        assert_eq!(result, Err(Errno::EINVAL), "{name}={value}");
    }
    assert_eq!(set(&mut w, &root(), "d", "user.pvfs.iods", "1,2"), Err(Errno::EPERM));
}

#[test]
fn a_file_can_be_striped_anew_until_it_has_data() {
    let mut w = World::new(1);
    w.file(&root(), "f", 0o644).unwrap();
    set(&mut w, &root(), "f", "user.pvfs.pcount", "2").unwrap();
    set(&mut w, &root(), "f", "user.pvfs.ssize", "4096").unwrap();
    assert_eq!(get(&mut w, &root(), "f", "user.pvfs.pcount"), Ok("2".into()));
    let opened = w.open(&root(), "f", OpenFlags::WRITE, 1).unwrap();
    assert_eq!(opened.placement.unwrap().dist.to_string(), "simple_stripe:ssize=4096");
    assert_eq!(set(&mut w, &root(), "f", "user.pvfs.ssize", "1M"), Err(Errno::EPERM));
    w.close(1, Some(1));
    assert_eq!(set(&mut w, &root(), "f", "user.pvfs.ssize", "1M"), Err(Errno::EPERM));
}

#[test]
fn a_creator_chooses_first_then_the_directory_then_the_file_system() {
    let mut w = World::new(1);
    w.mkdir(&root(), "d", 0o755).unwrap();
    set(&mut w, &root(), "d", "user.pvfs.dist", "two_d:groups=2,factor=1,ssize=8K").unwrap();
    let mut create = |path: &str, open, striping| {
        let (target, flags) = (w.at(path), OpenFlags::WRITE | OpenFlags::CREATE);
        let opened = w.run(&root(), Open { target, flags, mode: 0o644, striping, open })?;
        Ok::<_, Errno>(opened.placement.unwrap())
    };
    let usual = Striping::default();
    assert_eq!(
        create("a", 1, usual.clone()).unwrap().dist.to_string(),
        "simple_stripe:ssize=65536"
    );
    let two_d = "two_d:groups=2,factor=1,ssize=8192";
    assert_eq!(create("d/a", 2, usual.clone()).unwrap().dist.to_string(), two_d);
    let wish = Striping { dist: Some("basic".into()), ..usual.clone() };
    assert_eq!(create("d/b", 3, wish).unwrap().iods.len(), 1);
    let wish = Striping { base: Some(2), pcount: Some(2), ..usual.clone() };
    let iods: Vec<u32> = create("b", 4, wish).unwrap().iods.iter().map(|iod| iod.0).collect();
    assert_eq!(iods, [2, 3]);
    let wish = Striping { pcount: Some(9), ..usual };
    assert_eq!(create("c", 5, wish), Err(Errno::EINVAL));
    assert_eq!(w.stat(&root(), "c").unwrap_err(), Errno::ENOENT);
}

#[test]
fn new_files_begin_where_there_is_space() {
    let mut w = World::new(1);
    w.policy.free_bytes = vec![0, 1 << 30, 0, 3 << 30];
    let mut first = [0; 4];
    for i in 0..400 {
        let target = w.at(i.to_string());
        let kind = FileKind::Regular;
        w.run(&root(), Mknod { target, kind, mode: 0o644, rdev: 0 }).unwrap();
        let base = get(&mut w, &root(), &i.to_string(), "user.pvfs.base").unwrap();
        first[base.parse::<usize>().unwrap()] += 1;
    }
    assert_eq!((first[0], first[2]), (0, 0));
    assert!((50..150).contains(&first[1]), "{first:?}");
    w.policy = policy(0);
    assert_eq!(w.file(&root(), "none", 0o644).unwrap_err(), Errno::EINVAL);
}
