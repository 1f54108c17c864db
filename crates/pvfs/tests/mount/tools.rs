//! Everyday tools work as on any file system.

use std::fs;
use std::time::Instant;

use crate::TwoMounts;
use crate::support::{can_mount, pattern};

fn tree(mounts: &TwoMounts) {
    let tree = mounts.cluster.scratch().join("tree");
    for dir in 0..10 {
        let dir = tree.join(format!("a/b{dir}"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..20 {
            fs::write(dir.join(format!("f{file}")), pattern(file * 3000, file as u64)).unwrap();
        }
    }
    mounts.shell("cd tree && ln -s a/b0 link && ln a/b0/f1 hard && chmod 600 a/b1/*").succeeds();
    mounts.shell("touch -d 2001-02-03 tree/a/b2/f3 && mkfifo tree/fifo").succeeds();
}

#[test]
fn archives_and_copies_come_out_as_they_went_in() {
    let Some(mounts) = TwoMounts::start() else { return };
    tree(&mounts);
    mounts.shell("tar c --format=posix -C tree . | tar x -C $MNT").succeeds();
    mounts.shell("cp -a $MNT/a $MNT/copy && diff -r $MNT/a $ROOT/there/copy").succeeds();
    let list = "find . ! -type d -printf '%P %y %m %n %s %T@ %l\\n' | sort";
    mounts
        .shell(&format!("diff <(cd tree; {list}) <(cd $ROOT/there; rm -r copy; {list})"))
        .succeeds();
    mounts.shell("rsync --version > /dev/null || exit 0; rsync -a tree/ $MNT/r/ && diff -r tree/a $MNT/r/a").succeeds();
    mounts.shell("dd if=/dev/urandom of=big bs=1M count=40 status=none; dd if=big of=$MNT/big bs=333k status=none").succeeds();
    mounts
        .shell("cmp big $ROOT/there/big && mv $MNT/big $MNT/a/ && cmp big $ROOT/there/a/big")
        .succeeds();
    mounts
        .shell(
            "sed -i s/x/y/ $MNT/hard; sort -o $MNT/sorted big; find $MNT -name 'f1*' | grep -c . ",
        )
        .succeeds();
    mounts.shell("rm -rf $MNT/* && test -z \"$(ls -A $ROOT/there)\"").succeeds();
}

#[test]
fn git_clones_into_a_mount_and_finds_nothing_wrong() {
    let Some(mounts) = TwoMounts::start() else { return };
    tree(&mounts);
    let identity = "export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t \
                    GIT_CONFIG_GLOBAL=/dev/null";
    mounts
        .shell(&format!("{identity}; cd tree && git init -q && git add . && git commit -qm one"))
        .succeeds();
    mounts.shell("git clone -q tree $MNT/clone && git -C $MNT/clone fsck --strict").succeeds();
    mounts.shell("diff -r --exclude .git --exclude fifo tree $ROOT/there/clone").succeeds();
    let work = "cd $MNT/clone && echo more >> hard && git commit -qam two && git gc -q && git fsck && \
                git checkout -q HEAD~1 && git status --porcelain";
    let status = mounts.shell(&format!("{identity}; {work}")).succeeds();
    assert_eq!(status.stdout, "");
}

#[test]
fn cargo_builds_in_a_mount() {
    let Some(mounts) = TwoMounts::start() else { return };
    let make = "cd $MNT && cargo new --quiet --vcs none hello && cd hello && unset CARGO_TARGET_DIR && \
                CARGO_BUILD_JOBS=1 cargo run --quiet --offline";
    mounts.shell(make).succeeds().prints("Hello, world!");
    mounts.shell("$ROOT/there/hello/target/debug/hello").succeeds().prints("Hello, world!");
}

#[test]
fn sqlite_keeps_a_database_on_a_mount() {
    let Some(mounts) = TwoMounts::start() else { return };
    if !mounts.shell("python3 -c 'import sqlite3'").is_success() {
        eprintln!("skipped: this takes python3 with sqlite3");
        return;
    }
    let script = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1] + '/db', timeout=20)
db.execute('create table if not exists t (a integer, b text)')
for i in range(30):
    with db:
        db.executemany('insert into t values (?, ?)', [(i, 'x' * 100)] * 10)
assert db.execute('pragma integrity_check').fetchone() == ('ok',)
";
    fs::write(mounts.cluster.scratch().join("db.py"), script).unwrap();
    // Two writers at once, one on each mount, keep out of each other's way by locks.
    mounts.shell("python3 db.py $MNT & python3 db.py $ROOT/there && wait $!").succeeds();
    let count = "import sqlite3; print(sqlite3.connect('db').execute('select count(*) from t').fetchone()[0])";
    mounts.shell(&format!("cd $MNT && python3 -c \"{count}\"")).succeeds().prints("600");
}

#[test]
fn a_directory_of_five_thousand_files_is_listed() {
    if !can_mount() {
        return;
    }
    let Some(mounts) = TwoMounts::start() else { return };
    mounts
        .shell("mkdir $MNT/many && cd $MNT/many && seq -f file%05.0f 5000 | xargs touch")
        .succeeds();
    let start = Instant::now();
    let listed = mounts.shell("ls -l $ROOT/there/many").succeeds();
    eprintln!("ls -l of 5,000 files: {:?}", start.elapsed());
    assert_eq!(listed.lines().len(), 5001);
    mounts.shell("rm -r $MNT/many").succeeds();
}
