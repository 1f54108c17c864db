//! What the run-time libraries of other languages do with files, and programs that rely on locks and renames.

use std::process::Command;

use super::{compile, compiled, same};
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

#[test]
fn javascript_reads_writes_and_walks() {
    if !is_installed("node") {
        return;
    }
    let cluster = TestCluster::start(3);
    let source = r"
const fs = require('fs'), d = process.cwd() + '/';
fs.writeFileSync(d + 'a', 'hello'); console.log(fs.statSync(d + 'a').size, fs.readFileSync('a', 'utf8'));
fs.copyFileSync(d + 'a', d + 'b'); fs.renameSync(d + 'b', d + 'c'); fs.appendFileSync(d + 'c', ' world');
console.log(fs.readdirSync(d), fs.existsSync(d + 'b'), fs.readFileSync(d + 'c', 'utf8'));
fs.symlinkSync('c', d + 's'); console.log(fs.realpathSync(d + 's'), fs.lstatSync(d + 's').isSymbolicLink(), fs.readlinkSync('s'));
try { fs.readFileSync(d + 'nothing') } catch (e) { console.log(e.code) }
(async () => {
  const p = fs.promises; fs.mkdirSync(d + 'many/deep', { recursive: true });
  await Promise.all([...Array(50).keys()].map(i => p.writeFile(d + 'many/f' + i, 'x'.repeat(i * 1000))));
  let total = 0; for (const e of await p.readdir(d + 'many', { withFileTypes: true })) if (e.isFile()) total += (await p.stat(d + 'many/' + e.name)).size;
  console.log(total); let n = 0; for await (const c of fs.createReadStream(d + 'many/f49')) n += c.length; console.log(n);
  await p.cp(d + 'many', d + 'copy', { recursive: true }); console.log((await p.readdir(d + 'copy')).length, fs.statSync(d + 'copy/deep').isDirectory());
  await p.rm(d + 'many', { recursive: true }); console.log(fs.existsSync(d + 'many')); await p.utimes(d + 'a', 1, 2); console.log((await p.stat(d + 'a')).mtimeMs);
  const f = await p.open(d + 'a', 'r+'); await f.truncate(3); await f.write('XY', 1); await f.sync(); console.log((await f.stat()).size); await f.close();
  process.chdir('copy'); console.log(process.cwd(), fs.readdirSync('.').length, fs.readFileSync('../a', 'utf8'));
  console.log(require('child_process').execSync('pwd; ls | wc -l').toString());
})().catch(e => console.log('failed', e.message));
";
    std::fs::write(cluster.scratch().join("program.js"), source).unwrap();
    same(&cluster, "node $S/program.js 2>&1; echo ended with $?");
}

/// Calls by number, and what the C library does with many names by functions of its own.
#[test]
fn calls_by_number_and_walks_of_the_c_library() {
    let cluster = TestCluster::start(3);
    let source = r#"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#define SAY(x) do { errno = 0; long r_ = (long)(x); printf("%s = %ld %s\n", #x, r_, r_ == -1 ? strerror(errno) : ""); fflush(stdout); } while (0)
static char lines[200][300]; static int count, stopping;
static int by_text(const void *a, const void *b) { return strcmp(a, b); }
static void tell(const char *what) { qsort(lines, count, sizeof *lines, by_text); printf("%s\n", what); for (int i = 0; i < count; i++) puts(lines[i]); count = 0; }
static int visit(const char *path, const struct stat *s, int kind, struct FTW *w) {
    snprintf(lines[count++], 300, "%s kind %d base %s level %d size %ld there %d", path, kind, path + w->base, w->level, S_ISREG(s->st_mode) ? (long)s->st_size : 0L, access(path + w->base, F_OK)); return 0; }
static int stop(const char *path, const struct stat *s, int kind, struct FTW *w) { (void)s; (void)kind; (void)w; (void)path; return ++stopping == 3 ? 42 : 0; }
static int skip(const char *path, const struct stat *s, int kind, struct FTW *w) { (void)s; snprintf(lines[count++], 300, "%s %d", path, kind); return w->level == 1 && kind == FTW_D ? FTW_SKIP_SUBTREE : FTW_CONTINUE; }
static int plain(const char *path, const struct stat *s, int kind) { (void)s; snprintf(lines[count++], 300, "%s %d", path, kind); return 0; }
static int contrary(const struct dirent **a, const struct dirent **b) { static unsigned n = 1; (void)a; (void)b; n = n * 1103515245 + 12345; return (int)(n >> 16) % 3 - 1; }
static int not_dots(const struct dirent *e) { return e->d_name[0] != '.'; }
static void expand(const char *pattern, int flags) { glob_t g = {.gl_offs = 2}; printf("%s: %d", pattern, glob(pattern, flags, 0, &g)); for (size_t i = 0; i < g.gl_pathc; i++) printf(" %s", g.gl_pathv[i + (flags & GLOB_DOOFFS ? 2 : 0)]); puts(""); globfree(&g); }
int main(void) {
    char here[4096], at[4200], bytes[4096] = {0}; SAY(syscall(SYS_getcwd, here, 4096L) == (long)strlen(here) + 1); puts(here);
    int f; SAY((f = syscall(SYS_openat, AT_FDCWD, "f", O_RDWR | O_CREAT, 0644)) > 2);
    SAY(syscall(SYS_write, f, "0123456789", 10L)); SAY(syscall(SYS_lseek, f, 2L, SEEK_SET)); SAY(syscall(SYS_read, f, bytes, 3L)); puts(bytes);
    SAY(syscall(SYS_pwrite64, f, "ab", 2L, 20L)); SAY(syscall(SYS_pread64, f, bytes, 3L, 19L)); SAY(bytes[0] == 0 && bytes[1] == 'a');
    struct iovec two[2] = {{bytes, 4}, {bytes + 100, 4}}; SAY(syscall(SYS_preadv2, f, two, 2L, 0L, 0L, 0)); SAY(!memcmp(bytes, "0123", 4) && !memcmp(bytes + 100, "4567", 4)); SAY(syscall(SYS_pwritev2, f, two, 2L, -1L, -1L, 0));
    struct stat s; SAY(syscall(SYS_newfstatat, AT_FDCWD, "f", &s, 0)); SAY(s.st_size); struct statx x; SAY(syscall(SYS_statx, AT_FDCWD, "f", 0, STATX_SIZE, &x)); SAY(x.stx_size); SAY(syscall(SYS_faccessat, AT_FDCWD, "f", R_OK)); SAY(syscall(439, AT_FDCWD, "none", R_OK, 0));
    SAY(syscall(SYS_mkdirat, AT_FDCWD, "d", 0755)); SAY(syscall(SYS_renameat2, AT_FDCWD, "f", AT_FDCWD, "d/g", 1)); SAY(syscall(SYS_symlink, "d/g", "s")); SAY(syscall(SYS_readlink, "s", bytes, 100L)); SAY(syscall(SYS_rename, "none", "x")); SAY(syscall(SYS_utimensat, f, NULL, NULL, 0)); SAY(syscall(SYS_fadvise64, f, 0L, 0L, 77));
    unsigned long how[3] = {O_RDONLY, 0, 0}; SAY(syscall(437, AT_FDCWD, "d/g", how, sizeof how) > 2); SAY(syscall(SYS_dup2, f, 50)); SAY(syscall(SYS_ftruncate, 50, 5L)); SAY(syscall(SYS_close, f)); SAY(lseek(50, 0, SEEK_END)); SAY(syscall(SYS_fsync, 50)); SAY(syscall(SYS_getpid) == getpid()); SAY(syscall(SYS_close, -1)); SAY(syscall(9999));
    SAY(syscall(SYS_chdir, "d")); SAY(syscall(SYS_unlink, "g")); SAY(syscall(SYS_chdir, "..")); SAY(syscall(SYS_rmdir, "d")); SAY(syscall(SYS_unlinkat, AT_FDCWD, "s", 0));

    mkdir("t", 0755); mkdir("t/a", 0755); mkdir("t/b", 0755); mkdir("t/a/c", 0755); symlink("..", "t/a/up"); symlink("nowhere", "t/lost"); symlink("x1", "t/link"); close(open("t/x1", O_CREAT | O_WRONLY, 0644)); truncate("t/x1", 7); close(open("t/a/x2", O_CREAT | O_WRONLY, 0644)); close(open("t/a/c/.x3", O_CREAT | O_WRONLY, 0644));
    struct dirent **list; int n = scandir("t", &list, not_dots, alphasort); printf("%d:", n); for (int i = 0; i < n; i++) { printf(" %s", list[i]->d_name); free(list[i]); } puts(""); free(list); SAY(scandir("none", &list, 0, 0)); SAY(scandir("t/x1", &list, 0, 0)); n = scandirat(AT_FDCWD, "t/a", &list, 0, versionsort); SAY(n); SAY(strcmp(list[n - 1]->d_name, "x2"));
    mkdir("many", 0755); for (int i = 0; i < 300; i++) { snprintf(at, sizeof at, "many/%d", i); close(open(at, O_CREAT | O_WRONLY, 0644)); }
    for (int i = 0; i < 20; i++) SAY(scandir("many", &list, 0, contrary));
    snprintf(at, sizeof at, "%s/t", here);
    SAY(nftw("t", visit, 5, FTW_PHYS)); tell("physical"); SAY(nftw("t//", visit, 5, 0)); tell("through links"); SAY(nftw(at, visit, 1, FTW_PHYS | FTW_DEPTH | FTW_CHDIR)); tell("from below"); SAY(nftw("t/a", visit, 1, FTW_PHYS | FTW_CHDIR)); tell("changing directories"); SAY(nftw("t", stop, 5, FTW_PHYS)); SAY(nftw("t", skip, 5, FTW_PHYS | FTW_ACTIONRETVAL)); tell("skipping"); SAY(ftw("t", plain, 5)); tell("ftw"); SAY(nftw("none", visit, 5, 0)); SAY(nftw("", visit, 5, 0)); SAY(nftw("t/x1", visit, 5, 0)); tell("a file"); puts(getcwd(bytes, sizeof bytes));
    expand("t/*", 0); expand("t/*/x*", GLOB_DOOFFS); expand("t/{a,b}*", GLOB_BRACE | GLOB_MARK); expand("t/none*", 0); expand("t/none*", GLOB_NOCHECK); snprintf(at, sizeof at, "%s/t/[ax]*", here); expand(at, 0);
    SAY(stat("t/x1", &s)); SAY(ftok("t/x1", 7) == (key_t)((s.st_ino & 0xffff) | (s.st_dev & 0xff) << 16 | 7u << 24)); SAY(ftok("none", 7));
    fflush(stdout); syscall(SYS_exit_group, 3);
}
"#;
    if compiled(&cluster, "numbers", source).is_some() {
        same(&cluster, "$S/numbers 2>&1; echo ended with $?");
    }
}

/// By the kernel itself, as no library sees it.
#[cfg(target_arch = "x86_64")]
#[test]
fn numbers_that_were_closed_behind_our_back() {
    let cluster = TestCluster::start(2);
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define SAY(x) printf("%s = %ld\n", #x, (long)(x))
static long close_unseen(long fd) { long r; __asm__ volatile("syscall" : "=a"(r) : "0"(3L), "D"(fd) : "rcx", "r11", "memory"); return r; }
int main(void) {
    char byte = 0, name[] = "/tmp/pvfs-number-XXXXXX";
    int wrong = 0, elsewhere = mkstemp(name), here = open("f", O_RDWR | O_CREAT, 0644);
    for (int round = 0; round < 200; round++) {
        int ours = open("f", O_RDWR), other;
        wrong += pwrite(ours, "a", 1, 0) != 1 || close_unseen(ours) != 0;
        /* The number is given out again at once. */
        other = open(name, O_RDWR);
        wrong += other != ours || pwrite(other, "b", 1, 0) != 1 || pread(other, &byte, 1, 0) != 1 || byte != 'b';
        wrong += close(other) != 0 || pread(here, &byte, 1, 0) != 1 || byte != 'a';
    }
    SAY(wrong);
    for (int round = 0; round < 5; round++) {
        int ours = open("f", O_RDWR), ends[2];
        wrong += pwrite(ours, "a", 1, 0) != 1 || close_unseen(ours) != 0;
        /* By a call that has nothing to do with files. */
        wrong += pipe(ends) != 0 || ends[0] != ours;
        usleep(20000);
        wrong += write(ends[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 1 || byte != 'x';
        close(ends[0]); close(ends[1]);
    }
    SAY(wrong); SAY(unlink(name)); SAY(close(elsewhere));
    return 0;
}
"#;
    if compiled(&cluster, "unseen", source).is_some() {
        same(&cluster, "$S/unseen 2>&1; echo ended with $?");
    }
}

/// As the hooks of memory allocation in communication libraries do it.
#[test]
fn functions_of_a_program_that_ask_by_number_in_their_turn() {
    let cluster = TestCluster::start(2);
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static int maps, opens;
void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset) { maps++; return (void *)syscall(SYS_mmap, at, length, (long)protection, (long)flags, (long)fd, offset); }
int open(const char *path, int flags, ...) { opens++; return syscall(SYS_open, path, (long)flags, 0644L); }
int stat(const char *path, struct stat *s) { return syscall(SYS_newfstatat, (long)AT_FDCWD, path, s, 0L); }
int main(void) {
    int f = open("f", O_RDWR | O_CREAT); printf("%d\n", write(f, "mapped", 6) == 6);
    char *text = mmap(0, 4096, PROT_READ, MAP_PRIVATE, f, 0); puts(text == MAP_FAILED ? "failed" : text);
    char *bare = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memset(bare, 1, 1 << 20);
    printf("%d\n", mmap(0, 4096, PROT_READ, MAP_PRIVATE, 999, 0) == MAP_FAILED);
    struct stat s; stat("f", &s); printf("%ld, %d maps, %d opens\n", (long)s.st_size, maps, opens);
}
"#;
    if compiled(&cluster, "hooks", source).is_some() {
        same(&cluster, "$S/hooks 2>&1; echo ended with $?");
    }
}
