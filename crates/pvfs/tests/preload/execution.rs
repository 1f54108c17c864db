//! How programs are found, spawned and executed.

use super::{compiled, same};
use crate::support::TestCluster;

#[test]
fn a_spawned_child_has_the_files_that_its_actions_open() {
    let cluster = TestCluster::start(2);
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static posix_spawn_file_actions_t a;
static void run(char *line) {
    char *argv[] = {"sh", "-c", line, 0}; pid_t pid; int status = -1;
    int failed = posix_spawn(&pid, "/bin/sh", &a, 0, argv, environ);
    if (!failed) waitpid(pid, &status, 0);
    printf("%s: %s %d\n", line, strerror(failed), status); fflush(stdout);
    posix_spawn_file_actions_destroy(&a); posix_spawn_file_actions_init(&a);
}
int main(void) {
    posix_spawn_file_actions_init(&a); mkdir("d", 0755); mkdir("d/e", 0755);
    posix_spawn_file_actions_addopen(&a, 1, "out", O_WRONLY | O_CREAT | O_TRUNC, 0640); posix_spawn_file_actions_adddup2(&a, 1, 2); run("echo said; echo wrong >&2");
    posix_spawn_file_actions_addopen(&a, 0, "out", O_RDONLY, 0); run("cat");
    posix_spawn_file_actions_addopen(&a, 1, "out", O_WRONLY | O_APPEND, 0); run("echo more"); posix_spawn_file_actions_addopen(&a, 3, "out", O_RDONLY, 0); posix_spawn_file_actions_addclose(&a, 4); run("cat <&3");
    posix_spawn_file_actions_addopen(&a, 1, "nothing/out", O_WRONLY | O_CREAT, 0600); run("echo never");
    posix_spawn_file_actions_addopen(&a, 0, "/dev/null", O_RDONLY, 0); posix_spawn_file_actions_addopen(&a, 1, "out", O_WRONLY | O_APPEND, 0); run("wc -c");
    posix_spawn_file_actions_addchdir_np(&a, "d"); posix_spawn_file_actions_addopen(&a, 1, "in_d", O_WRONLY | O_CREAT, 0600); posix_spawn_file_actions_addchdir_np(&a, "e"); run("pwd; ls ..");
    int f = open("d", O_RDONLY | O_DIRECTORY); posix_spawn_file_actions_addfchdir_np(&a, f); posix_spawn_file_actions_addopen(&a, 0, "in_d", O_RDONLY, 0); run("cat; pwd");
    posix_spawn_file_actions_addchdir_np(&a, "/"); posix_spawn_file_actions_addopen(&a, 0, "etc/hostname", O_RDONLY, 0); run("wc -l; pwd");
    posix_spawn_file_actions_addclosefrom_np(&a, 3); run("(: <&3) 2>&1 | grep -c descriptor");
    return 0;
}
"#;
    if compiled(&cluster, "spawner", source).is_some() {
        same(&cluster, "$S/spawner; cat out; stat -c '%a %s' out; ls -R");
    }
}

#[test]
fn programs_are_found_by_path() {
    let cluster = TestCluster::start(2);
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
#define CHILD(x) do { fflush(stdout); if (!fork()) { x; printf("%s: %s\n", #x, strerror(errno)); fflush(stdout); _exit(9); } int s; wait(&s); printf("%d\n", WEXITSTATUS(s)); fflush(stdout); } while (0)
int main(void) {
    char *argv[] = {"prog", "one", "two", 0}, *small[] = {"A=b", "PATH=/bin", 0}; pid_t pid; int status;
    CHILD(execvp("prog", argv)); CHILD(execvpe("prog", argv, environ)); CHILD(execlp("prog", "prog", "1", "2", "3", "4", "5", "6", "7", "8", (char *)0));
    CHILD(execl("p/prog", "prog", "listed", (char *)0)); CHILD(execle("p/elf", "elf", "listed", (char *)0, small)); CHILD(execv("p/elf", argv));
    CHILD(execvp("plain", argv)); CHILD(execvp("p/plain", argv)); CHILD(execv("p/plain", argv)); CHILD(execvp("closed", argv)); CHILD(execvp("nothing", argv)); CHILD(execlp("", "", (char *)0)); CHILD(execvp("echo", argv));
    CHILD(fexecve(open("p/elf", O_RDONLY | O_CLOEXEC), argv, environ)); CHILD(fexecve(open("p/prog", O_RDONLY), argv, environ)); CHILD(execveat(open("p", O_PATH), "elf", argv, environ, 0)); CHILD(execveat(open("p/elf", O_PATH), "", argv, environ, AT_EMPTY_PATH)); CHILD(execveat(AT_FDCWD, "p/elf", argv, environ, 0));
    int failed = posix_spawnp(&pid, "prog", 0, 0, argv, environ); if (!failed) waitpid(pid, &status, 0); printf("%d %d\n", failed, status);
    printf("%d %d\n", posix_spawnp(&pid, "nothing", 0, 0, argv, environ), posix_spawnp(&pid, "closed", 0, 0, argv, environ));
    return 0;
}
"#;
    if compiled(&cluster, "finder", source).is_none() {
        return;
    }
    let elf = "#include <stdio.h>\n#include <stdlib.h>\nint main(int c, char **v) { printf(\"%d %s %s\\n\", c, v[c - 1], getenv(\"A\")); return 4; }\n";
    if compiled(&cluster, "elf", elf).is_some() {
        let made = "mkdir p q; cp $S/elf p; printf '#!/bin/sh\\necho $# $1 $8; exit 3\\n' > p/prog; echo 'echo plain $*' > p/plain; touch q/closed p/closed; \
                    chmod +x p/prog p/plain; mkdir q/prog";
        same(
            &cluster,
            &format!(
                "{made}; PATH=$PWD/q:nothing:$PWD/p:/usr/bin:/bin $S/finder; PATH=/usr/bin:/bin:p $S/finder | md5sum; \
                 PATH=$PWD/p:$PATH; env prog 2; nice prog 3; echo 4 | xargs prog; find p -name elf -exec prog {{}} \\;; timeout 9 prog 5"
            ),
        );
    }
}
