//! Corner cases, as C programs that print what they see.

use super::{compiled, same};
use crate::support::TestCluster;

#[track_caller]
fn runs_the_same(body: &str) {
    let source = format!("{HEAD}\nint main(void) {{\n{body}\nreturn 0; }}\n");
    let cluster = TestCluster::start(3);
    if compiled(&cluster, "program", &source).is_some() {
        same(&cluster, "$S/program 2>&1; echo ended with $?");
    }
}

const HEAD: &str = r#"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#define SAY(x) do { errno = 0; long r_ = (long)(x); printf("%s = %ld %s\n", #x, r_, r_ == -1 ? strerror(errno) : ""); fflush(stdout); } while (0)
static char b[100000];
__attribute__((unused)) static int signals;
__attribute__((unused)) static void caught(int number) { (void)number; signals++; }
__attribute__((unused)) static int by_name(const FTSENT **one, const FTSENT **other) { return strcmp((*one)->fts_name, (*other)->fts_name); }
__attribute__((unused)) static void show(int fd) { long n = pread(fd, b, sizeof b - 1, 0); b[n < 0 ? 0 : n] = 0; printf("[%s]\n", b); fflush(stdout); }
"#;

#[test]
fn descriptors_are_duplicated_and_numbered_as_the_kernel_does() {
    runs_the_same(
        r#"
        int f = open("f", O_RDWR | O_CREAT, 0666), g = open("g", O_RDWR | O_CREAT, 0666);
        SAY(f); SAY(g); SAY(dup(f)); SAY(close(f)); SAY(open("h", O_CREAT | O_WRONLY, 0600)); SAY(close(g)); SAY(open("/dev/null", O_RDONLY));
        f = 5; SAY(write(f, "hello", 5)); SAY(lseek(5, 0, SEEK_CUR)); SAY(dup2(5, 9)); SAY(write(9, " world", 6)); SAY(lseek(5, 0, SEEK_CUR));
        show(9); SAY(dup2(9, 9)); SAY(dup2(99, 9)); show(9); SAY(dup2(0, 9)); SAY(read(9, b, 3)); SAY(close(5)); SAY(write(5, "x", 1));
        SAY(fcntl(3, F_GETFL) & O_ACCMODE); SAY(fcntl(3, F_SETFL, O_APPEND)); SAY((fcntl(3, F_GETFL) & O_APPEND) != 0); SAY(fcntl(3, F_DUPFD, 20));
        SAY(fcntl(20, F_DUPFD_CLOEXEC, 0)); SAY(fcntl(20, F_GETFD)); SAY(fcntl(20, F_SETFD, FD_CLOEXEC)); SAY(fcntl(20, F_GETFD)); SAY(read(3, b, 1));
        SAY(dup3(20, 21, O_CLOEXEC)); SAY(fcntl(21, F_GETFD)); SAY(close_range(20, 30, 0)); SAY(write(20, "x", 1)); SAY(close(-1)); SAY(open("f", O_RDONLY));
        closefrom(3); SAY(write(3, "x", 1)); SAY(open("f", O_RDONLY)); show(3); for (int i = 0; i < 20000; i++) if (i > 2) close(i);
        SAY(open("f", O_RDONLY)); show(3); struct stat st; SAY(fstat(3, &st)); SAY(st.st_size); SAY(isatty(3)); SAY(lseek(3, -1, SEEK_END));
    "#,
    );
}

#[test]
fn appends_of_parent_and_child_go_to_the_end() {
    runs_the_same(
        r#"
        int f = open("f", O_RDWR | O_CREAT | O_APPEND, 0666);
        write(f, "start\n", 6);
        for (int c = 0; c < 3; c++) if (!fork()) { for (int i = 0; i < 50; i++) dprintf(f, "%d %02d\n", c, i); _exit(0); }
        while (wait(0) > 0);
        SAY(lseek(f, 0, SEEK_END)); SAY(pwrite(f, "x", 1, 0)); SAY(lseek(f, 0, SEEK_END)); SAY(pread(f, b, 6, 0)); printf("%.6s", b);
        int g = open("g", O_RDWR | O_CREAT, 0666); write(g, "0123456789", 10);
        if (!fork()) { lseek(g, 2, SEEK_SET); write(g, "ab", 2); _exit(0); }
        wait(0); SAY(lseek(g, 0, SEEK_CUR)); SAY(write(g, "c", 1)); show(g); fcntl(g, F_SETFL, O_APPEND); write(g, "end", 3); show(g); SAY(lseek(g, 0, SEEK_CUR));
        struct iovec v[3] = {{"one", 3}, {"", 0}, {"two", 3}}; SAY(writev(g, v, 3)); show(g); char c[4], d[20]; struct iovec w[2] = {{c, 4}, {d, 20}};
        SAY(preadv(g, w, 2, 3)); printf("%.4s %.12s\n", c, d); SAY(lseek(g, 3, SEEK_SET)); SAY(readv(g, w, 2)); SAY(readv(g, w, 2)); SAY(writev(g, v, -1));
    "#,
    );
}

#[test]
fn writes_with_flags_append_and_are_durable() {
    runs_the_same(
        r#"
        int f = open("f", O_RDWR | O_CREAT, 0666), r = open("f", O_RDONLY); struct iovec v[2] = {{"one", 3}, {"two", 3}}, w = {b, 100}, x = {"x", 1};
        SAY(write(f, "begin", 5)); SAY(pwritev2(f, v, 2, 0, RWF_APPEND)); show(f); SAY(lseek(f, 0, SEEK_CUR)); SAY(lseek(f, 1, SEEK_SET));
        SAY(pwritev2(f, v, 1, -1, RWF_APPEND | RWF_DSYNC)); SAY(lseek(f, 0, SEEK_CUR)); show(f); SAY(pwritev2(f, &x, 1, 1, RWF_SYNC)); SAY(pwritev2(f, &x, 1, 0, RWF_HIPRI)); show(f);
        SAY(lseek(f, 2, SEEK_SET)); SAY(pwritev2(f, &x, 1, -1, 0)); SAY(lseek(f, 0, SEEK_CUR)); SAY(pwritev2(f, &x, 1, -2, RWF_APPEND)); SAY(pwritev2(r, &x, 1, 0, RWF_APPEND)); SAY(pwritev2(f, &x, 1, 0, 1 << 30)); SAY(preadv2(f, &w, 1, 0, 1 << 30)); show(f);
        SAY(preadv2(f, &w, 1, 3, RWF_HIPRI)); SAY(preadv2(f, &w, 1, -1, 0)); SAY(lseek(f, 0, SEEK_CUR)); SAY(syscall(SYS_pwritev2, f, &x, 1L, 0L, 0L, RWF_APPEND)); show(f);
        for (int i = 0; i < 4; i++) if (!fork()) { int g = open("g", O_RDWR | O_CREAT, 0666); for (int j = 0; j < 50; j++) pwritev2(g, v, 2, 0, RWF_APPEND); _exit(0); }
        for (int i = 0; i < 4; i++) wait(0); int g = open("g", O_RDONLY), whole = 0; SAY(lseek(g, 0, SEEK_END)); for (int i = 0; i < 200; i++) { pread(g, b, 6, i * 6); whole += !memcmp(b, "onetwo", 6); } SAY(whole);
    "#,
    );
}

#[test]
fn streams_read_write_and_seek() {
    runs_the_same(
        r#"
        FILE *f = fopen("f", "w+"); SAY(f != 0); SAY(fileno(f)); SAY(fprintf(f, "line %d\n", 1)); SAY(fputs("two\n", f) >= 0); SAY(ftello(f)); rewind(f);
        SAY(fgets(b, 100, f) != 0); printf("%s", b); SAY(fgetc(f)); SAY(ungetc('X', f)); SAY(fgetc(f)); SAY(fseeko(f, -2, SEEK_END)); SAY(fgetc(f)); SAY(fgetc(f)); SAY(fgetc(f)); SAY(feof(f) != 0);
        SAY(fclose(f)); f = fopen("f", "a+"); SAY(fgetc(f)); SAY(fputs("app", f) >= 0); SAY(fflush(f)); SAY(ftello(f)); SAY(fseek(f, 0, SEEK_SET)); SAY(fputs("end", f) >= 0); fclose(f);
        f = fopen("f", "r"); SAY(fread(b, 1, 1000, f)); printf("%.18s\n", b); SAY(fputc('x', f)); SAY(ferror(f) != 0); fclose(f);
        SAY(fopen("nothing", "r") != 0); printf("%s\n", strerror(errno)); SAY(fopen("f", "wx") != 0); printf("%s\n", strerror(errno)); SAY(fopen("f", "q") != 0); printf("%s\n", strerror(errno));
        f = fdopen(open("f", O_RDWR), "r+"); SAY(fscanf(f, "%s", b)); puts(b); SAY(setvbuf(f, 0, _IOLBF, 0)); fclose(f);
        f = fopen("g", "w"); for (int i = 0; i < 30000; i++) fprintf(f, "%d\n", i); fclose(f); f = fopen("g", "r"); long sum = 0, n; while (fscanf(f, "%ld", &n) == 1) sum += n; SAY(sum); fclose(f);
        f = fopen("h", "w"); fputs("first", f); f = freopen("i", "w", f); SAY(f != 0); fputs("second", f); fclose(f); f = fopen("h", "r"); SAY(fread(b, 1, 9, f)); f = freopen("i", "r", f); SAY(fread(b, 1, 9, f)); fclose(f);
        char *l = 0; size_t m = 0; f = fopen("g", "r"); SAY(getline(&l, &m, f)); SAY(getline(&l, &m, f)); fclose(f); f = fopen("unflushed", "w"); fputs("written at exit\n", f);
        int save = dup(1); fflush(stdout); SAY(freopen("out", "w", stdout) != 0); printf("into out\n"); fflush(stdout); dup2(save, 1); printf("back\n"); fflush(stdout); int o = open("out", O_RDONLY); show(o);
        if (!fork()) execlp("sh", "sh", "-c", "exec > by_exec; echo exec; cat by_exec >&2", (char *)0);
        wait(0); fflush(stdout); if (!fork()) { freopen("by_printf", "w", stdout); printf("no flush before exit"); exit(0); } wait(0); o = open("by_printf", O_RDONLY); show(o);
    "#,
    );
}

#[test]
fn directories_are_read_rewound_and_sought() {
    runs_the_same(
        r#"
        mkdir("d", 0777); char name[30]; for (int i = 0; i < 100; i++) { sprintf(name, "d/%03d", i); close(open(name, O_CREAT | O_WRONLY, 0666)); }
        DIR *d = opendir("d"); struct dirent *e; int n = 0; long at = 0; char after[300] = ""; while ((e = readdir(d))) { if (++n == 50) at = telldir(d); if (n == 51) strcpy(after, e->d_name); if (e->d_name[0] != '.') assert(e->d_type == DT_REG); }
        SAY(n); SAY(errno); seekdir(d, at); e = readdir(d); SAY(strcmp(e->d_name, after)); rewinddir(d); n = 0; while (readdir(d)) n++; SAY(n);
        SAY(openat(dirfd(d), "new", O_CREAT | O_WRONLY, 0666) >= 0); SAY(unlinkat(dirfd(d), "new", 0)); SAY(mkdirat(dirfd(d), "sub", 0700)); SAY(unlinkat(dirfd(d), "sub", 0)); SAY(unlinkat(dirfd(d), "sub", AT_REMOVEDIR));
        struct stat st; SAY(fstat(dirfd(d), &st)); SAY(S_ISDIR(st.st_mode)); SAY(fchdir(dirfd(d))); SAY(access("000", F_OK)); SAY(chdir("..")); SAY(closedir(d)); SAY(opendir("nothing") != 0); printf("%s\n", strerror(errno)); SAY(opendir("d/000") != 0); printf("%s\n", strerror(errno));
        d = fdopendir(open("d", O_RDONLY)); n = 0; while (readdir(d)) { if (n++ == 10) for (int i = 0; i < 100; i++) { sprintf(name, "d/%03d", i); unlink(name); } } SAY(n >= 11); closedir(d); SAY(rmdir("d"));
        SAY(read(open(".", O_RDONLY), b, 1)); SAY(open(".", O_WRONLY)); SAY(open("x/y", O_RDONLY)); SAY(mkdir("a", 0777)); SAY(rename("a", "b")); SAY(renameat2(AT_FDCWD, "b", AT_FDCWD, "b", RENAME_NOREPLACE)); SAY(realpath("b/../b/.", b) != 0); SAY(strlen(strrchr(b, '/')));
        SAY(symlink("b", "s")); SAY(readlink("s", b, 100)); SAY(lstat("s", &st)); SAY(S_ISLNK(st.st_mode)); SAY(stat("s", &st)); SAY(S_ISDIR(st.st_mode)); struct statx x; SAY(statx(AT_FDCWD, "s", AT_SYMLINK_NOFOLLOW, STATX_ALL, &x)); SAY(x.stx_size); SAY(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH)); SAY(stat("", &st));
        SAY(open("s", O_RDONLY | O_NOFOLLOW)); int p = open("s", O_PATH | O_NOFOLLOW); SAY(p >= 0); SAY(fstat(p, &st)); SAY(S_ISLNK(st.st_mode)); SAY(read(p, b, 1)); SAY(getcwd(b, 3) != 0); printf("%s\n", strerror(errno));
    "#,
    );
}

#[test]
fn select_maps_locks_and_copies_work() {
    runs_the_same(
        r#"
        int f = open("f", O_RDWR | O_CREAT, 0666), g = open("g", O_RDWR | O_CREAT, 0666); for (int i = 0; i < 10000; i++) dprintf(f, "%04d\n", i);
        fd_set s; FD_ZERO(&s); FD_SET(f, &s); struct timeval t = {0, 0}; SAY(select(f + 1, &s, 0, 0, &t)); SAY(FD_ISSET(f, &s) != 0);
        char *m = mmap(0, 50000, PROT_READ, MAP_PRIVATE, f, 0); SAY(m != MAP_FAILED); printf("%.5s%.5s", m, m + 49995); SAY(munmap(m, 50000)); m = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, f, 4096); memcpy(m, "abcd", 4); SAY(pread(f, b, 4, 4096)); printf("%.4s\n", b); SAY(mmap(0, 10, PROT_READ, MAP_PRIVATE, f, 10) == MAP_FAILED); printf("%s\n", strerror(errno));
        off_t at = 5; SAY(sendfile(g, f, &at, 10)); SAY(at); show(g); SAY(lseek(f, 0, SEEK_SET)); SAY(sendfile(g, f, 0, 5)); SAY(lseek(f, 0, SEEK_CUR)); at = 0; off_t to = 100; SAY(copy_file_range(f, &at, g, &to, 40000, 0)); SAY(lseek(g, 0, SEEK_END)); SAY(ftruncate(g, 7)); show(g); SAY(posix_fallocate(g, 0, 20)); SAY(lseek(g, 0, SEEK_END)); SAY(fallocate(g, 0, 0, 0)); SAY(ftruncate(open("g", O_RDONLY), 0));
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5}; SAY(fcntl(f, F_SETLK, &l));
        if (!fork()) { struct flock k = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0}; SAY(fcntl(f, F_GETLK, &k)); SAY(k.l_type == F_WRLCK); SAY(k.l_start); SAY(k.l_len); SAY(k.l_pid == getppid()); k.l_type = F_RDLCK; SAY(fcntl(f, F_SETLK, &k)); SAY(lseek(f, 0, SEEK_SET)); SAY(lockf(f, F_TEST, 5)); k.l_type = F_WRLCK; k.l_start = 12; k.l_len = 1; alarm(0); SAY(fcntl(f, F_SETLKW, &k)); _exit(0); }
        usleep(300000); l.l_type = F_UNLCK; int given = fcntl(f, F_SETLK, &l); wait(0); SAY(given);
        int h = open("f", O_RDWR); SAY(flock(h, LOCK_EX)); SAY(flock(f, LOCK_SH | LOCK_NB)); SAY(close(h)); SAY(flock(f, LOCK_SH | LOCK_NB)); SAY(lseek(f, 49999, SEEK_DATA)); SAY(lseek(f, 0, SEEK_HOLE)); SAY(lseek(f, 60000, SEEK_DATA)); SAY(fsync(f)); SAY(fdatasync(f)); SAY(posix_fadvise(f, 0, 0, POSIX_FADV_DONTNEED)); SAY(write(f, 0, 0)); SAY(pread(f, b, 10, -1));
        int k = open("k", O_RDWR | O_CREAT, 0666); SAY(ftruncate(k, 1 << 20)); SAY(pwrite(k, "data", 4, 500000)); SAY(lseek(k, 0, SEEK_DATA) > 0); SAY(lseek(k, 500000, SEEK_DATA)); SAY(lseek(k, 510000, SEEK_DATA)); SAY(fallocate(k, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 500001, 2)); SAY(pread(k, b, 4, 500000)); SAY(b[0] == 'd' && !b[1] && !b[2] && b[3] == 'a'); SAY(fallocate(k, FALLOC_FL_KEEP_SIZE, 0, 2 << 20)); SAY(lseek(k, 0, SEEK_END)); SAY(fallocate(open("k", O_RDONLY), 0, 0, 5)); at = 0; to = 2; SAY(copy_file_range(k, &at, k, &to, 10, 0)); to = 4096; SAY(copy_file_range(k, &at, k, &to, 10, 0)); SAY(copy_file_range(k, 0, open("k", O_RDONLY), 0, 10, 0)); SAY(fchmod(open("k", O_PATH), 0600)); struct timespec none[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}}; SAY(futimens(k, none)); struct timeval both[2] = {{1, 0}, {1000, 0}}; struct stat told; SAY(futimesat(k, 0, both)); SAY(fstat(k, &told)); SAY(told.st_mtime);
    "#,
    );
}

#[test]
fn a_removed_working_directory_has_no_path() {
    runs_the_same(
        r#"
        SAY(mkdir("d", 0700)); SAY(chdir("d")); SAY(rmdir("../d")); SAY(getcwd(b, 1000) != 0); printf("%s\n", strerror(errno)); SAY(open("x", O_CREAT | O_WRONLY, 0600)); SAY(chdir("..") == 0 || 1); memset(b, 'x', 5000); b[5000] = 0; SAY(chdir(b)); SAY(open(b, O_RDONLY));
    "#,
    );
}

#[test]
fn files_grow_no_further_than_their_limit() {
    runs_the_same(
        r#"
        int f = open("f", O_RDWR | O_CREAT, 0666), g = open("g", O_RDWR | O_CREAT, 0666), a = open("f", O_WRONLY | O_APPEND); struct rlimit l, old; struct iovec v = {b, 5}; off_t at = 0, to = 9995;
        SAY(pwrite(g, b, 30000, 0)); getrlimit(RLIMIT_FSIZE, &old); l = old; l.rlim_cur = 10000; SAY(setrlimit(RLIMIT_FSIZE, &l)); signal(SIGXFSZ, caught);
        SAY(write(f, b, 9000)); SAY(write(f, b, 2000)); SAY(lseek(f, 0, SEEK_CUR)); SAY(write(f, b, 1)); SAY(signals); SAY(write(f, b, 0)); SAY(pwrite(f, b, 20, 9990)); SAY(pwrite(f, b, 1, 50000)); SAY(write(a, b, 1)); SAY(pwritev2(f, &v, 1, 0, RWF_APPEND)); SAY(signals);
        SAY(ftruncate(f, 10001)); SAY(truncate("f", 20000)); SAY(signals); SAY(ftruncate(f, 9990)); SAY(write(a, b, 100)); SAY(lseek(f, 0, SEEK_END)); SAY(posix_fallocate(f, 0, 20000)); SAY(fallocate(f, 0, 5000, 5001)); SAY(fallocate(f, 0, 0, 10000)); SAY(signals);
        SAY(copy_file_range(g, &at, f, &to, 100, 0)); SAY(copy_file_range(g, &at, f, &to, 100, 0)); SAY(signals); SAY(ftruncate(g, 20000)); SAY(pwrite(g, b, 5, 15000)); SAY(pread(g, b, 50000, 0));
        FILE *s = fopen("s", "w"); for (int i = 0; i < 30000; i++) fputc('x', s); SAY(fclose(s)); signal(SIGXFSZ, SIG_DFL);
        SAY(WTERMSIG(system("echo fits > small; exec head -c 50000 /dev/zero > large"))); struct stat st; SAY(stat("large", &st)); SAY(st.st_size); if (!fork()) { write(a, b, 100); write(a, b, 1); _exit(0); } int w; wait(&w); SAY(WTERMSIG(w));
        SAY(setrlimit(RLIMIT_FSIZE, &old)); if (!vfork()) { setrlimit(RLIMIT_FSIZE, &l); _exit(0); } wait(0); SAY(write(f, b, 50000)); l.rlim_cur = 10; SAY(syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &l, 0L)); signal(SIGXFSZ, SIG_IGN); SAY(pwrite(f, b, 20, 5)); SAY(pwrite(f, b, 20, 10));
    "#,
    );
}

#[test]
fn trees_are_walked() {
    runs_the_same(
        r#"
        mkdir("t", 0777); mkdir("t/a", 0777); mkdir("t/a/b", 0777); mkdir("t/empty", 0777); mkdir("t/skip", 0777); close(open("t/a/b/f", O_CREAT | O_WRONLY, 0600)); close(open("t/skip/f", O_CREAT | O_WRONLY, 0600)); close(open("g", O_CREAT | O_WRONLY, 0600));
        symlink("../t", "t/loop"); symlink("nowhere", "t/dangling"); symlink("../g", "t/link"); mkfifo("t/pipe", 0600); symlink("t", "top"); write(open("g", O_WRONLY), "1234", 4);
        char whole[1000]; getcwd(whole, 900); strcat(whole, "/t/a"); char *trees[][4] = {{"t"}, {"t/", "g"}, {"top", "./t/a", "none"}, {whole}, {"."}};
        int options[] = {FTS_PHYSICAL, FTS_LOGICAL, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_SEEDOT, FTS_LOGICAL | FTS_NOSTAT, FTS_PHYSICAL | FTS_NOSTAT};
        for (int i = 0; i < 5; i++) for (int j = 0; j < 6; j++) {
            FTS *walk = fts_open(trees[i], options[j], by_name); FTSENT *e; assert(walk); printf("walk %d %d\n", i, j);
            while ((e = fts_read(walk))) {
                printf("%d %s %s %d %d %d %ld %d\n", e->fts_info, e->fts_path, e->fts_name, e->fts_level, e->fts_namelen, e->fts_pathlen == strlen(e->fts_path), e->fts_number, e->fts_info == FTS_DC ? e->fts_cycle->fts_level : e->fts_info == FTS_NS ? e->fts_errno : e->fts_info == FTS_F && !(options[j] & FTS_NOSTAT) ? (int)e->fts_statp->st_size : 0);
                struct stat st; if (e->fts_info != FTS_NS && lstat(e->fts_accpath, &st)) printf("not there: %s\n", strerror(errno));
                if (e->fts_level > 0 && e->fts_parent->fts_info != FTS_D) printf("parent %d\n", e->fts_parent->fts_info);
                if (!strcmp(e->fts_name, "skip")) fts_set(walk, e, FTS_SKIP);
                if (!strcmp(e->fts_name, "link") && e->fts_info == FTS_SL) fts_set(walk, e, FTS_FOLLOW);
                if (!strcmp(e->fts_name, "empty") && e->fts_info == FTS_D && !e->fts_number++) fts_set(walk, e, FTS_AGAIN);
                if (!strcmp(e->fts_name, "a") && e->fts_info == FTS_D) for (FTSENT *c = fts_children(walk, j % 2 ? FTS_NAMEONLY : 0); c; c = c->fts_link) { printf("  child %s %d\n", c->fts_name, c->fts_info); c->fts_number = 7; if (j == 2) fts_set(walk, c, FTS_SKIP); }
            }
            SAY(fts_close(walk));
        }
        FTS *walk = fts_open(trees[0], FTS_PHYSICAL, 0); for (FTSENT *c = fts_children(walk, 0); c; c = c->fts_link) puts(c->fts_name); fts_read(walk); fts_read(walk); fts_children(walk, 0); SAY(fts_close(walk)); SAY(fts_open(trees[0], 1 << 20, 0) == 0); SAY(errno); getcwd(b, 1000); puts(b);
        char *empty[] = {"t", "", 0}; SAY(fts_open(empty, FTS_PHYSICAL, 0) == 0);
        walk = fts_open(trees[0], FTS_PHYSICAL, 0); for (FTSENT *e; (e = fts_read(walk));) if (e->fts_info == FTS_DP ? rmdir(e->fts_accpath) : e->fts_info != FTS_D ? unlink(e->fts_accpath) : 0) printf("%s stays: %s\n", e->fts_path, strerror(errno)); SAY(fts_close(walk)); SAY(access("t", F_OK));
    "#,
    );
}

#[test]
fn whoever_is_in_a_directory_that_was_removed_goes_on() {
    runs_the_same(
        r#"
        char *argv[] = {"sh", "-c", "echo started", 0}; extern char **environ; pid_t child; struct stat st; DIR *d;
        mkdir("d", 0700); mkdir("d/e", 0700); close(open("d/e/f", O_CREAT | O_RDWR, 0600)); chdir("d/e"); int f = open("f", O_RDWR), here = open(".", O_RDONLY);
        SAY(system("rm -r ../../d; echo $?")); SAY(getcwd(b, 1000) != 0); SAY(errno); SAY(get_current_dir_name() != 0); SAY(errno); SAY(realpath(".", b) != 0); SAY(errno);
        SAY(open("f", O_RDONLY)); SAY(open("x", O_CREAT | O_WRONLY, 0600)); SAY(mkdir("x", 0700)); SAY(symlink("a", "x")); SAY(unlink("f")); SAY(rename("f", "x")); SAY(access("f", F_OK)); SAY(stat("f", &st)); SAY(fopen("f", "r") != 0); SAY(chdir("e"));
        SAY(stat(".", &st)); SAY(st.st_nlink); SAY(fstat(here, &st)); SAY(st.st_nlink); d = opendir("."); SAY(d != 0); SAY(d && readdir(d)); SAY(openat(here, "f", O_RDONLY)); SAY(mkdirat(here, "x", 0700)); SAY(fchdir(here)); SAY(write(f, "still", 5)); show(f);
        SAY(execl("f", "f", (char *)0)); SAY(system("echo fine; cat f; touch x; ls; echo $?")); int spawned = posix_spawn(&child, "/bin/sh", 0, 0, argv, environ); wait(0); SAY(spawned); if (!fork()) { SAY(open("f", O_RDONLY)); _exit(0); } wait(0);
        SAY(chdir("/")); SAY(getcwd(b, 1000) != 0); SAY(strlen(b)); SAY(fchdir(here)); SAY(getcwd(b, 1000) != 0); SAY(errno); if (!fork()) execl("/bin/ls", "ls", "f", (char *)0); wait(0);
    "#,
    );
}

#[test]
fn descriptors_pass_through_sockets_and_threads_share_them() {
    runs_the_same(
        r#"
        int f = open("f", O_RDWR | O_CREAT, 0666), p[2]; write(f, "passed", 6); socketpair(AF_UNIX, SOCK_STREAM, 0, p);
        if (!fork()) { close(f); char c, k[100]; struct iovec v = {&c, 1}; struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = k, .msg_controllen = sizeof k}; recvmsg(p[1], &h, 0); int g; memcpy(&g, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof g); show(g); SAY(lseek(g, 0, SEEK_CUR)); SAY(write(g, " on", 3)); struct stat st; SAY(fstat(g, &st)); SAY(st.st_size); _exit(0); }
        char k[CMSG_SPACE(sizeof f)] = {0}; struct iovec v = {"x", 1}; struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = k, .msg_controllen = sizeof k}; struct cmsghdr *m = CMSG_FIRSTHDR(&h); m->cmsg_level = SOL_SOCKET; m->cmsg_type = SCM_RIGHTS; m->cmsg_len = CMSG_LEN(sizeof f); memcpy(CMSG_DATA(m), &f, sizeof f); ssize_t sent = sendmsg(p[0], &h, 0); wait(0); SAY(sent); show(f); SAY(lseek(f, 0, SEEK_CUR));
    "#,
    );
}

#[test]
fn a_read_leaves_what_lies_after_the_end_of_the_file() {
    runs_the_same(
        r#"
        int f = open("f", O_RDWR | O_CREAT, 0666), n; ftruncate(f, 70000); pwrite(f, "end", 3, 200000);
        for (int at = 0; at < 210000; at += 33333) { memset(b, 'x', sizeof b); n = pread(f, b, 90000, at); int zeros = 0, marks = 0; for (int i = 0; i < 90000; i++) { zeros += !b[i]; marks += b[i] == 'x'; } printf("%d %d %d %d\n", at, n, zeros, marks); }
    "#,
    );
}
