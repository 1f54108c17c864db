//! What is open lives on over fork, exec and the death of whoever opened it.

use super::{compiled, inside, same};
use crate::support::{TestCluster, text};

#[test]
fn an_unlinked_file_stays_for_those_who_inherited_it() {
    let cluster = TestCluster::start(3);
    // The shell that opened it is gone for three seconds, longer than the manager waits, when it is read.
    same(
        &cluster,
        "echo secret > f; (exec 3<> f; rm f; (sleep 3; cat <&3; echo more >&3) > out & ); sleep 5; cat out; ls",
    );
    same(&cluster, "echo a > f; exec 3< f; rm f; bash -c 'exec bash -c \"cat <&3\"'; exec cat <&3");
}

#[test]
fn a_closed_file_has_its_size_at_once_whoever_wrote_it() {
    let cluster = TestCluster::start(3);
    same(
        &cluster,
        "bash -c 'head -c 100000 /dev/zero' > f; stat -c %s f; echo x >> f; stat -c %s f",
    );
    let output = inside(&cluster, "d", "seq 1000 > f");
    assert!(output.status.success(), "{}", text(&output));
    let listed = cluster.run(&["stat", "pvfs:/d/f", "--json"]);
    assert!(listed.contains("3893"), "{listed}");
}

#[test]
fn the_environment_may_be_cleared_on_the_way() {
    let cluster = TestCluster::start(2);
    // What env -i starts is an ordinary program: it sees an empty file where ours was, and no more.
    let output = inside(
        &cluster,
        "d",
        "echo content > f; env -i /bin/cat < f; echo $?; env -i /bin/echo lost > f; echo $?; cat f",
    );
    let said = text(&output);
    assert!(said.starts_with("0\n") && said.contains("Operation not permitted"), "{said}");
}

#[test]
fn a_spawned_child_writes_where_its_parent_says() {
    let cluster = TestCluster::start(2);
    let source = r#"
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(void) {
    int f = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0666), status; pid_t pid; char b[100];
    posix_spawn_file_actions_t a; posix_spawn_file_actions_init(&a); posix_spawn_file_actions_adddup2(&a, f, 1);
    char *argv[] = {"sh", "-c", "echo spawned; ls", 0};
    printf("%d\n", posix_spawnp(&pid, "sh", &a, 0, argv, environ)); waitpid(pid, &status, 0);
    long n = pread(f, b, 100, 0); printf("%d %ld %.*s", status, n, (int)n, b);
    if (!vfork()) { dup2(f, 1); execlp("echo", "echo", "vforked", (char *)0); _exit(1); }
    wait(0); n = pread(f, b, 100, 0); printf("%ld %.*s", n, (int)n, b); printf("%ld\n", (long)write(f, "x", 1));
    return 0;
}
"#;
    if compiled(&cluster, "spawner", source).is_some() {
        same(&cluster, "$S/spawner");
    }
}
