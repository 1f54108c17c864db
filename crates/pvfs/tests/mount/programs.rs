//! Real programs, in a short form; `make conformance` has the long one.

use std::fs;

use crate::TwoMounts;

/// Whether a command is there; says what is missing.
fn has(mounts: &TwoMounts, command: &str, package: &str) -> bool {
    let there = mounts.shell(&format!("command -v {command}")).is_success();
    if !there {
        eprintln!("skipped: this takes {command}, of the package {package}");
    }
    there
}

#[test]
fn a_c_program_is_built_in_a_mount_and_make_sees_what_changed() {
    let Some(mounts) = TwoMounts::start() else { return };
    if !has(&mounts, "cc", "gcc") || !has(&mounts, "make", "make") {
        return;
    }
    let directory = mounts.here.join("c");
    fs::create_dir(&directory).unwrap();
    let parts = 0..20;
    for part in parts.clone() {
        let source = format!("int part{part}(void) {{ return {part}; }}\n");
        fs::write(directory.join(format!("part{part}.c")), source).unwrap();
    }
    let declared: String = parts.clone().map(|part| format!("int part{part}(void);\n")).collect();
    let added: String = parts.map(|part| format!(" + part{part}()")).collect();
    let main = format!(
        "#include <stdio.h>\n{declared}int main(void) {{ printf(\"%d\\n\", 0{added}); return 0; }}\n"
    );
    fs::write(directory.join("main.c"), main).unwrap();
    let makefile =
        "objects := $(patsubst %.c,%.o,$(wildcard *.c))\nsum: $(objects)\n\tcc -o $@ $^\n";
    fs::write(directory.join("Makefile"), makefile).unwrap();
    mounts.shell("cd $MNT/c && make -s -j2 && ./sum").succeeds().prints("190");
    mounts.shell("cd $ROOT/there/c && ./sum && make -s -q").succeeds().prints("190");
    mounts.shell("cd $ROOT/there/c && touch part7.c && ! make -s -q").succeeds();
    mounts.shell("cd $MNT/c && ! make -s -q && make -s && make -s -q").succeeds();
}

#[test]
fn two_programs_of_a_node_write_one_sqlite_database_in_every_journal_mode() {
    let Some(mounts) = TwoMounts::start() else { return };
    if !mounts.shell("python3 -c 'import sqlite3'").is_success() {
        eprintln!("skipped: this takes python3 with sqlite3");
        return;
    }
    let script = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60)
for mode in sys.argv[2:]:
    assert db.execute('pragma journal_mode=' + mode).fetchone() == (mode,)
    db.execute('create table t (a integer, b text)')
for i in range(0 if sys.argv[2:] else 25):
    with db:
        db.executemany('insert into t values (?, ?)', [(i, 'x' * 100)] * 10)
assert db.execute('pragma integrity_check').fetchone() == ('ok',)
print(db.execute('select count(*) from t').fetchone()[0])
";
    fs::write(mounts.cluster.scratch().join("db.py"), script).unwrap();
    for mode in ["delete", "truncate", "persist", "wal"] {
        mounts.shell(&format!("python3 db.py $MNT/{mode} {mode}")).succeeds();
        let both = format!("python3 db.py $MNT/{mode} & python3 db.py $MNT/{mode} && wait $!");
        mounts.shell(&both).succeeds();
        let count = format!(
            "sqlite3 $MNT/{mode} 'select count(*) from t' || python3 -c \"import sqlite3, os; print(sqlite3.connect(os.environ['MNT'] + '/{mode}').execute('select count(*) from t').fetchone()[0])\""
        );
        mounts.shell(&count).succeeds().prints("500");
    }
}

#[test]
fn pythons_own_tests_of_locks_and_temporary_files_pass() {
    let Some(mounts) = TwoMounts::start() else { return };
    if !mounts.shell("python3 -c 'import test.test_fcntl, test.test_tempfile'").is_success() {
        eprintln!("skipped: this takes Python's own tests (libpython3-testsuite)");
        return;
    }
    let run = "mkdir $MNT/python && cd $MNT/python && \
               TMPDIR=$PWD python3 -m test -q --tempdir $PWD test_fcntl test_tempfile";
    mounts.shell(run).succeeds();
}

#[test]
fn access_control_lists_are_set_shown_copied_and_obeyed() {
    let Some(mounts) = TwoMounts::start() else { return };
    if !has(&mounts, "setfacl", "acl") {
        return;
    }
    mounts.shell("chmod 755 $MNT; echo secret > $MNT/f; chmod 600 $MNT/f").succeeds();
    mounts.cluster.shell_as_nobody("cat $ROOT/there/f").ends_with(1);
    mounts.shell("setfacl -m u:nobody:r $MNT/f && ls -l $MNT/f").succeeds().prints("-rw-r-----+");
    mounts.shell("getfacl -pc $ROOT/there/f").succeeds().prints("user:nobody:r--");
    mounts.cluster.shell_as_nobody("cat $ROOT/there/f").succeeds().prints("secret");
    mounts.cluster.shell_as_nobody("echo x >> $ROOT/there/f").ends_with(1);
    mounts
        .shell(
            "cp -a $ROOT/there/f $MNT/g && diff <(getfacl -pc $MNT/f) <(getfacl -pc $ROOT/there/g)",
        )
        .succeeds();
    mounts
        .shell("mkdir $MNT/d && setfacl -d -m u:nobody:rwx $MNT/d && mkdir $ROOT/there/d/e")
        .succeeds();
    mounts.cluster.shell_as_nobody("echo mine > $MNT/d/e/f && cat $ROOT/there/d/e/f").succeeds();
    mounts.shell("setfacl -b $ROOT/there/f && ls -l $MNT/f").succeeds().prints("-rw------- ");
    mounts.cluster.shell_as_nobody("cat $MNT/f").ends_with(1);
}
