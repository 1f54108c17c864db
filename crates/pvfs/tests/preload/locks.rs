//! Locks of open files belong to whoever shares the descriptor: over dup, fork and exec; those of a process to it alone,
//! whatever it executes.

use std::process::Command;

use super::{compiled, inside, same};
use crate::support::{TestCluster, text};

#[test]
fn scripts_lock_through_a_descriptor_that_they_keep() {
    if Command::new("flock").arg("--version").output().is_err() {
        return eprintln!("skipped: flock is not installed");
    }
    let cluster = TestCluster::start(2);
    for line in [
        // The program that takes it ends at once; the shell keeps the descriptor, and with it the lock.
        "exec 9> l; flock 9; flock -n l echo never || echo busy; flock -u 9; flock -n l echo free",
        "exec 9> l; flock -s 9; flock -ns l echo shared; flock -n l echo never || echo busy; exec 9>&-; flock -w 20 l echo free",
        "exec 9> l; flock 9; (exec 9>&-; flock -n l echo never || echo busy); bash -c 'exec bash -c \"flock -n l echo never || echo still busy\"'",
        // Who inherited it keeps it when the one who took it is gone.
        "(exec 9> l; flock 9; exec bash -c 'read x < <(sleep 1; echo); exec sleep 2') & sleep 1; flock -n l echo never || echo busy; wait; flock -w 20 l echo free",
        "for i in 1 2 3 4; do (exec 9> l; for j in 1 2 3 4 5; do flock 9; n=$(cat n 2> /dev/null); echo $((n + 1)) > n; flock -u 9; done) & done; wait; cat n",
    ] {
        same(&cluster, line);
    }
}

#[test]
fn locks_of_open_files_outlive_the_process_that_took_them() {
    let cluster = TestCluster::start(2);
    let source = r#"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#define SAY(x) do { errno = 0; long r_ = (long)(x); printf("%s = %ld %s\n", #x, r_, r_ == -1 ? strerror(errno) : ""); fflush(stdout); } while (0)
static int own(int f, int what, int start, int length, int wait) {
    struct flock l = {.l_type = what, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(f, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l);
}
static void caught(int s) { (void)s; }
int main(int argc, char **argv) {
    if (argc > 1) { /* executed, with descriptor 5 open and locked */
        int g = open("f", O_RDWR);
        SAY(own(g, F_WRLCK, 0, 10, 0)); SAY(own(5, F_WRLCK, 0, 20, 0)); SAY(own(g, F_WRLCK, 15, 1, 0)); SAY(own(5, F_UNLCK, 0, 0, 0)); SAY(own(g, F_WRLCK, 0, 10, 0));
        return 0;
    }
    int f = open("f", O_RDWR | O_CREAT, 0666), g = open("f", O_RDWR), s;
    /* taken by a child, kept by the parent */
    if (!fork()) { SAY(own(f, F_WRLCK, 0, 10, 0)); _exit(0); }
    wait(&s); SAY(own(g, F_RDLCK, 5, 1, 0)); SAY(own(g, F_WRLCK, 10, 5, 0)); SAY(own(f, F_UNLCK, 3, 2, 0)); SAY(own(g, F_WRLCK, 3, 2, 0)); SAY(own(f, F_WRLCK, 3, 1, 0));
    /* taken by the parent, which closes; kept by the child until it ends */
    int p[2], q[2]; pipe(p); pipe(q);
    if (!fork()) { close(g); char c; read(p[0], &c, 1); write(q[1], "x", 1); read(p[0], &c, 1); _exit(0); }
    close(f); char c; write(p[1], "x", 1); read(q[0], &c, 1);
    SAY(own(g, F_WRLCK, 0, 1, 0)); write(p[1], "x", 1); wait(&s); SAY(own(g, F_WRLCK, 0, 1, 1));
    /* a daemon: the parent ends at once */
    own(g, F_UNLCK, 0, 0, 0); f = open("f", O_RDWR); SAY(flock(f, LOCK_EX)); int d = dup(f);
    if (!fork()) { if (fork()) _exit(0); close(f); read(p[0], &c, 1); close(d); write(q[1], "x", 1); _exit(0); }
    close(f); close(d); wait(&s); SAY(flock(g, LOCK_EX | LOCK_NB)); write(p[1], "x", 1); read(q[0], &c, 1); SAY(flock(g, LOCK_EX)); SAY(flock(g, LOCK_UN));
    /* a wait ends with a signal, and with the lock */
    f = open("f", O_RDWR); flock(f, LOCK_EX); struct sigaction a = {.sa_handler = caught}; sigaction(SIGALRM, &a, 0);
    alarm(1); SAY(flock(g, LOCK_EX)); own(f, F_WRLCK, 0, 10, 0); alarm(1); SAY(own(g, F_WRLCK, 0, 1, 1)); alarm(0); sleep(1); /* who waited in vain keeps its place for a moment */
    /* a handler that wants calls to go on does not end one */
    a.sa_flags = SA_RESTART; sigaction(SIGALRM, &a, 0); own(f, F_UNLCK, 0, 0, 0); flock(f, LOCK_UN); SAY(flock(g, LOCK_UN));
    if (!fork()) { int h = open("f", O_RDWR); flock(h, LOCK_EX); write(q[1], "x", 1); sleep(2); _exit(0); }
    read(q[0], &c, 1); alarm(1); SAY(flock(g, LOCK_EX)); SAY(flock(g, LOCK_UN)); wait(&s);
    flock(f, LOCK_EX); own(f, F_WRLCK, 0, 10, 0);
    /* over exec */
    dup2(f, 5); close(f); SAY(5); execl(argv[0], argv[0], "again", (char *)0); return 1;
}
"#;
    if compiled(&cluster, "locker", source).is_some() {
        same(&cluster, "$S/locker 2>&1; echo ended with $?");
    }
}

#[test]
fn locks_of_a_process_are_its_own_over_exec() {
    let cluster = TestCluster::start(2);
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
#define SAY(x) do { errno = 0; long r_ = (long)(x); printf("%s = %ld %s\n", #x, r_, r_ == -1 ? strerror(errno) : ""); fflush(stdout); } while (0)
static int own(int f, int what, int start, int length) {
    struct flock l = {.l_type = what, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(f, F_SETLK, &l);
}
/* what another process is told about a file */
static void others(const char *path) {
    fflush(stdout);
    if (!fork()) {
        int f = open(path, O_RDWR); struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        fcntl(f, F_GETLK, &l); printf("%s: ", path);
        if (l.l_type == F_UNLCK) puts("free"); else printf("%d %ld %ld %d\n", l.l_type == F_WRLCK, (long)l.l_start, (long)l.l_len, l.l_pid == getppid());
        fflush(stdout); _exit(0);
    }
    wait(0);
}
static int handed_on(void) {
    char name[60], to[60]; int count = 0;
    for (int i = 0; i < 1 << 16; i++) { sprintf(name, "/proc/self/fd/%d", i); ssize_t n = readlink(name, to, 59); if (n > 0) { to[n] = 0; count += !!strstr(to, "pvfs-locks"); } }
    return count;
}
int main(int argc, char **argv) {
    char *child[] = {argv[0], "child", 0}; int s;
    if (argc == 1) {
        int f = open("f", O_RDWR | O_CREAT, 0666), g = open("g", O_RDWR | O_CREAT | O_CLOEXEC, 0666), h = open("h", O_RDWR | O_CREAT, 0666);
        open("h", O_RDONLY | O_CLOEXEC); open("k", O_RDWR | O_CREAT, 0666);
        own(f, F_WRLCK, 0, 10); own(f, F_RDLCK, 20, 5); own(g, F_WRLCK, 0, 1); own(h, F_WRLCK, 0, 1);
        SAY(execl("nothing", "nothing", (char *)0)); others("f"); others("g"); SAY(handed_on());
        if (!vfork()) { execv(argv[0], child); _exit(1); } wait(&s);
        pid_t pid; posix_spawn(&pid, argv[0], 0, 0, child, environ); wait(&s);
        if (!fork()) { execv(argv[0], child); _exit(1); } wait(&s); others("f");
        dup2(f, 5); execl(argv[0], argv[0], "again", "1", (char *)0); return 1;
    }
    if (!strcmp(argv[1], "child")) { /* of one with locks: it has none of them, and ends nobody's */
        int f = open("f", O_RDWR); SAY(own(f, F_RDLCK, 5, 1)); SAY(own(f, F_RDLCK, 20, 1)); return 0;
    }
    /* g had one descriptor only and h two, of which exec closed one */
    int round = atoi(argv[2]); printf("round %d\n", round); others("g"); others("h");
    if (round == 1) sleep(3); /* longer than the manager waits for one that is gone */
    others("f"); SAY(handed_on()); SAY(own(5, F_UNLCK, 3, 2)); SAY(own(5, F_WRLCK, 30, 1)); others("f");
    int g = open("g", O_RDWR); SAY(own(g, F_WRLCK, round, 1)); others("g");
    if (round == 1) { if (!fork()) { execl(argv[0], argv[0], "child", (char *)0); } wait(&s); execl("/bin/sh", "sh", "-c", "exec $0 again 2", argv[0], (char *)0); }
    SAY(write(5, "x", 1)); SAY(close(open("f", O_RDONLY))); others("f"); SAY(own(5, F_WRLCK, 0, 1)); others("f");
    return 0;
}
"#;
    if compiled(&cluster, "keeper", source).is_some() {
        same(
            &cluster,
            "$S/keeper 2>&1; echo ended with $?; python3 -c 'import fcntl; f = open(\"f\", \"r+\"); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print(\"free\")'",
        );
        let said = inside(&cluster, "held", "$S/keeper");
        assert!(text(&said).contains("f: 1 0 3 1"), "{}", text(&said));
    }
}
