//! What the run-time libraries of other languages do with files, and programs that rely on locks and renames.

use std::process::Command;

use super::{compile, same};
use crate::support::TestCluster;

fn is_installed(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: {program} is not installed");
    }
    there
}

#[test]
fn cpp_streams_read_write_and_seek() {
    let cluster = TestCluster::start(3);
    let source = r#"
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
namespace fs = std::filesystem;
int main() {
    { std::ofstream o("f"); for (int i = 0; i < 50000; i++) o << i << '\n'; std::cout << o.good() << '\n'; }
    std::ifstream in("f"); long sum = 0, n; while (in >> n) sum += n; std::cout << sum << ' ' << in.eof() << '\n';
    std::fstream f("f", std::ios::in | std::ios::out | std::ios::binary); f.seekp(100); f.write("patched", 7); f.seekg(98); char b[12] = {}; f.read(b, 11); std::cout << b << ' ' << f.tellg() << '\n'; f.close();
    { std::ofstream a("f", std::ios::app); a << "end\n"; std::cout << a.tellp() << '\n'; }
    std::ifstream none("nothing"); std::cout << none.is_open() << '\n';
    std::ifstream whole("f"); std::stringstream all; all << whole.rdbuf(); std::cout << all.str().size() << '\n';
    fs::create_directories("a/b/c"); std::ofstream("a/b/g") << "text"; fs::copy("a", "z", fs::copy_options::recursive); fs::rename("z/b/g", "z/h"); fs::resize_file("z/h", 2);
    std::cout << fs::exists("z/h") << fs::file_size("z/h") << fs::is_directory("z/b/c") << fs::equivalent("a", "./a") << ' ' << fs::remove_all("z") << ' ' << fs::exists("z") << '\n';
    fs::create_symlink("f", "s"); std::cout << fs::read_symlink("s") << fs::canonical("s").filename() << ' ' << fs::file_size("s") << '\n'; fs::current_path("a"); std::cout << fs::current_path().filename() << '\n';
    for (auto &e : fs::recursive_directory_iterator("..")) if (e.path().filename() == "g") std::cout << e.path() << ' ' << e.file_size() << '\n';
    try { fs::remove("../a"); } catch (fs::filesystem_error &e) { std::cout << e.code().message() << '\n'; }
}
"#;
    let path = cluster.scratch().join("program.cc");
    std::fs::write(&path, source).unwrap();
    if is_installed("g++") && compile("g++", &path, &cluster.scratch().join("program")).is_some() {
        same(&cluster, "$S/program 2>&1; echo ended with $?");
    }
}

#[test]
fn fortran_units_read_and_write() {
    let cluster = TestCluster::start(3);
    let source = r"
program units
  implicit none
  integer :: i, n, total, io
  real(8) :: x(1000), y(1000)
  character(20) :: line
  open(10, file='formatted', status='new'); do i = 1, 1000; write(10, '(i6)') i; end do; close(10)
  total = 0; open(10, file='formatted', status='old', action='read'); do; read(10, *, iostat=io) n; if (io /= 0) exit; total = total + n; end do; print *, total; rewind(10); read(10, '(a)') line; print *, line; close(10)
  x = [(i * 0.5d0, i = 1, 1000)]; open(11, file='unformatted', form='unformatted'); write(11) x; write(11) sum(x); rewind(11); read(11) y; read(11) y(1); print *, all(y(2:) == x(2:)), y(1); close(11)
  open(12, file='direct', access='direct', recl=80); do i = 20, 1, -1; write(12, rec=i) x(i:i+9); end do; read(12, rec=7) y(1:10); print *, all(y(1:10) == x(7:16)); close(12)
  open(13, file='stream', access='stream', form='unformatted'); write(13) x; read(13, pos=81) y(1); print *, y(1); inquire(13, size=n); print *, n; close(13, status='delete')
  open(14, file='formatted', position='append'); write(14, '(a)') 'end'; close(14); open(14, file='nothing', status='old', iostat=io); print *, io /= 0
end program
";
    let path = cluster.scratch().join("units.f90");
    std::fs::write(&path, source).unwrap();
    let program = cluster.scratch().join("units");
    if !is_installed("gfortran") {
        return;
    }
    let built = Command::new("gfortran")
        .args(["-O1", "-ffree-line-length-none", "-o"])
        .args([&program, &path])
        .output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}", crate::support::text(&built));
    same(&cluster, "$S/units 2>&1; echo ended with $?; ls; md5sum *");
}

#[test]
fn rsync_brings_a_directory_up_to_date() {
    if !is_installed("rsync") {
        return;
    }
    let cluster = TestCluster::start(3);
    same(
        &cluster,
        "mkdir -p s/a; seq 50000 > s/a/f; ln s/a/f s/hard; ln -s a s/link; touch -d @1000000000 s/a/f; rsync -aH s/ t/; diff -r s t && echo same; \
         echo more >> s/a/f; rm s/link; rsync -aHO --delete --itemize-changes s/ t/ | cut -c1-4,12-; diff -r s t && stat -c '%h %a' t/a/f t/hard; \
         rsync -aO --checksum --itemize-changes s/ t/ | wc -l; rsync -a s/ $S/back/; diff -r s $S/back && echo same; rm -r $S/back",
    );
}

/// The rollback journal, by two processes at once: whoever cannot lock waits.
#[test]
fn sqlite_keeps_every_transaction() {
    if !is_installed("python3") {
        return;
    }
    let cluster = TestCluster::start(3);
    let script = r#"
import os, sqlite3, sys
def work(number):
    db = sqlite3.connect('db', timeout=100)
    for i in range(15):
        with db: db.executemany('insert into t values (?, ?)', [(number, 'x' * 200)] * 5)
    db.close()
for mode in ['delete', 'truncate', 'persist']:
    db = sqlite3.connect('db'); print(db.execute('pragma journal_mode=' + mode).fetchone()); db.execute('create table t (a integer, b text)'); db.commit(); db.close()
    children = []
    for number in range(3):
        pid = os.fork()
        if pid == 0: work(number); os._exit(0)
        children.append(pid)
    print([os.waitpid(pid, 0)[1] for pid in children])
    db = sqlite3.connect('db'); print(db.execute('select a, count(*) from t group by a').fetchall(), db.execute('pragma integrity_check').fetchone())
    try:
        with db: db.execute('delete from t'); raise KeyError
    except KeyError: print(db.execute('select count(*) from t').fetchone())
    db.execute('vacuum'); db.close(); os.remove('db'); print(sorted(os.listdir('.')) if mode != 'persist' else '')
"#;
    std::fs::write(cluster.scratch().join("s.py"), script).unwrap();
    same(&cluster, "python3 $S/s.py 2>&1");
}
