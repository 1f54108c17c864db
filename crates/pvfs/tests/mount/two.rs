//! What is done through one mount is seen through the other.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use crate::TwoMounts;
use crate::support::{eventually, pattern};

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn names_and_attributes_are_seen_at_once() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    fs::create_dir(here.join("d")).unwrap();
    fs::write(here.join("d/f"), b"one").unwrap();
    assert_eq!(names(&there.join("d")), ["f"]);
    assert_eq!(fs::metadata(there.join("d/f")).unwrap().len(), 3);
    fs::rename(there.join("d/f"), there.join("d/g")).unwrap();
    assert!(!here.join("d/f").exists() && here.join("d/g").exists());
    fs::set_permissions(here.join("d/g"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(there.join("d/g")).unwrap().mode() & 0o7777, 0o640);
    File::options().write(true).open(there.join("d/g")).unwrap().set_len(100_000).unwrap();
    assert_eq!(fs::metadata(here.join("d/g")).unwrap().len(), 100_000);
    symlink("g", there.join("d/s")).unwrap();
    assert_eq!(fs::read_link(here.join("d/s")).unwrap(), Path::new("g"));
    fs::hard_link(here.join("d/g"), here.join("d/h")).unwrap();
    assert_eq!(fs::metadata(there.join("d/g")).unwrap().nlink(), 2);
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&here.join("d/g")), inode(&there.join("d/h")));
    for name in ["g", "h", "s"] {
        fs::remove_file(there.join("d").join(name)).unwrap();
    }
    assert_eq!(names(&here.join("d")), [""; 0]);
    fs::remove_dir(here.join("d")).unwrap();
    assert!(!there.join("d").exists());
}

#[test]
fn a_mapping_of_a_file_opened_for_appending_is_written_back_in_place() {
    let Some(mounts) = TwoMounts::start() else { return };
    let script = "import mmap, os, sys\n\
                  fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)\n\
                  os.write(fd, b'a' * 10000)\n\
                  m = mmap.mmap(fd, 10000)\n\
                  m[5000:5004] = b'bbbb'\n\
                  m.flush()\n\
                  os.pwrite(fd, b'end', 0)\n\
                  os.close(fd)";
    mounts.shell(&format!("python3 -c \"{script}\" $MNT/f")).succeeds();
    let expected = [&[b'a'; 5000][..], b"bbbb", &[b'a'; 4996], b"end"].concat();
    assert!(fs::read(mounts.there.join("f")).unwrap() == expected);
}

#[test]
fn content_is_seen_from_the_next_open_on() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    for round in 0..20 {
        let content = pattern(300_000 + round * 1000, round as u64);
        let (writer, reader) = if round % 2 == 0 { (&here, &there) } else { (&there, &here) };
        fs::write(writer.join("f"), &content).unwrap();
        assert!(fs::read(reader.join("f")).unwrap() == content, "round {round}");
        let part = pattern(5000, 99 + round as u64);
        let file = File::options().write(true).open(reader.join("f")).unwrap();
        file.write_all_at(&part, 70_000).unwrap();
        drop(file);
        assert!(fs::read(writer.join("f")).unwrap()[70_000..75_000] == part, "round {round}");
    }
}

#[test]
fn appends_from_both_mounts_never_overlap() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    std::thread::scope(|scope| {
        for (mount, byte) in [(&here, b'a'), (&there, b'b'), (&here, b'c')] {
            scope.spawn(move || {
                let log = OpenOptions::new().append(true).create(true).open(mount.join("log"));
                let mut log = log.unwrap();
                (0..100).for_each(|_| log.write_all(&[byte; 700]).unwrap());
            });
        }
    });
    let log = fs::read(here.join("log")).unwrap();
    assert_eq!(log.len(), 3 * 100 * 700);
    for record in log.chunks(700) {
        assert!(record.iter().all(|byte| *byte == record[0]), "torn record");
    }
}

#[test]
fn a_file_unlinked_there_stays_usable_where_it_is_open() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    fs::write(here.join("f"), b"still").unwrap();
    let mut open = File::options().read(true).write(true).open(here.join("f")).unwrap();
    fs::remove_file(there.join("f")).unwrap();
    assert!(names(&here).is_empty());
    open.seek(SeekFrom::End(0)).unwrap();
    open.write_all(b" here").unwrap();
    open.rewind().unwrap();
    let mut content = String::new();
    open.read_to_string(&mut content).unwrap();
    assert_eq!(content, "still here");
    // The same name is another file now.
    fs::write(there.join("f"), b"new").unwrap();
    assert_eq!(fs::read(here.join("f")).unwrap(), b"new");
    assert_eq!(open.metadata().unwrap().len(), 10);
}

#[test]
fn renaming_over_an_open_file_leaves_its_reader_the_old_content() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    fs::write(here.join("f"), b"old").unwrap();
    let mut reader = File::open(here.join("f")).unwrap();
    fs::write(there.join("new"), b"new").unwrap();
    fs::rename(there.join("new"), there.join("f")).unwrap();
    let mut content = Vec::new();
    reader.read_to_end(&mut content).unwrap();
    assert_eq!(content, b"old");
    assert_eq!(fs::read(here.join("f")).unwrap(), b"new");
}

#[test]
fn what_one_mount_maps_and_changes_the_other_reads_after_the_sync() {
    let Some(mounts) = TwoMounts::start() else { return };
    if !mounts.shell("python3 -c 'import mmap'").is_success() {
        eprintln!("skipped: this takes python3");
        return;
    }
    let script = "import mmap, os, sys
f = os.open(sys.argv[1] + '/f', os.O_RDWR | os.O_CREAT)
os.ftruncate(f, 1 << 20)
m = mmap.mmap(f, 1 << 20)
m[500000:500005] = b'hello'
m.flush()
other = os.open(sys.argv[2] + '/f', os.O_RDONLY)
assert os.pread(other, 5, 500000) == b'hello', os.pread(other, 5, 500000)
m[0:3] = b'bye'
m.close()
os.fsync(f)
os.close(f)
assert open(sys.argv[2] + '/f', 'rb').read(3) == b'bye'
";
    fs::write(mounts.cluster.scratch().join("map.py"), script).unwrap();
    mounts.shell("python3 map.py $MNT $ROOT/there").succeeds();
}

#[test]
fn extended_attributes_are_kept_and_shared() {
    let Some(mounts) = TwoMounts::start() else { return };
    let (here, there) = (mounts.here.join("f"), mounts.there.join("f"));
    fs::write(&here, b"x").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&here, "user.colour", b"green", flags).unwrap();
    let mut value = [0; 100];
    let length = rustix::fs::getxattr(&there, "user.colour", &mut value).unwrap();
    assert_eq!(&value[..length], b"green");
    let length = rustix::fs::getxattr(&there, "user.pvfs.pcount", &mut value).unwrap();
    assert_eq!(&value[..length], b"4");
    rustix::fs::removexattr(&there, "user.colour").unwrap();
    let gone = rustix::fs::getxattr(&here, "user.colour", &mut value).unwrap_err();
    assert_eq!(gone, rustix::io::Errno::NODATA);
    // Attributes of a directory choose the striping of what is made in it.
    fs::create_dir(mounts.here.join("d")).unwrap();
    rustix::fs::setxattr(mounts.there.join("d"), "user.pvfs.ssize", b"1048576", flags).unwrap();
    fs::write(mounts.here.join("d/f"), b"x").unwrap();
    mounts.shell("pvfs stat $MNT/d/f").succeeds().prints("ssize 1048576");
}

#[test]
fn space_is_told_alike_and_comes_back() {
    let Some(mounts) = TwoMounts::start() else { return };
    let free = |path: &Path| rustix::fs::statvfs(path).unwrap();
    assert!(free(&mounts.here).f_blocks > 0 && free(&mounts.there).f_bavail > 0);
    fs::write(mounts.here.join("f"), vec![1; 64 << 20]).unwrap();
    let used = |mounts: &TwoMounts| {
        mounts
            .shell("du -sk $ROOT/io* | awk '{ sum += $1 } END { print sum }'")
            .stdout
            .trim()
            .parse::<u64>()
    };
    assert!(used(&mounts).unwrap() >= 64 << 10);
    fs::remove_file(mounts.there.join("f")).unwrap();
    eventually("the space comes back", Duration::from_secs(20), || {
        used(&mounts).is_ok_and(|kibibytes| kibibytes < 1 << 10)
    });
}

#[test]
fn other_users_have_their_own_rights() {
    let Some(mounts) = TwoMounts::start() else { return };
    mounts.shell("chmod 755 $MNT && mkdir $MNT/theirs && chown nobody $MNT/theirs").succeeds();
    mounts
        .shell("mkdir -m 1777 $MNT/all && echo secret > $MNT/secret && chmod 600 $MNT/secret")
        .succeeds();
    let nobody = |line: &str| mounts.cluster.shell_as_nobody(line);
    nobody("echo mine > $MNT/theirs/f && cat $ROOT/there/theirs/f").succeeds().prints("mine");
    mounts.shell("stat -c %U $MNT/theirs/f").succeeds().prints("nobody");
    nobody("cat $MNT/secret").ends_with(1).says("ermission denied");
    nobody("echo x > $MNT/new").ends_with(1).says("ermission denied");
    nobody("chmod 666 $ROOT/there/secret").ends_with(1);
    mounts.shell("echo x > $MNT/all/roots").succeeds();
    nobody("rm -f $MNT/all/roots").ends_with(1).says("not permitted");
    nobody("umask 027 && mkdir $MNT/all/d && stat -c %a $MNT/all/d").succeeds().prints("750");
    mounts
        .shell("mkdir -m 2775 $MNT/set && chgrp nogroup $MNT/set && chmod g+s $MNT/set")
        .succeeds();
    mounts.shell("touch $MNT/set/f && stat -c %G $ROOT/there/set/f").succeeds().prints("nogroup");
}
