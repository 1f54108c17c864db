//! Shared libraries, and interpreters of scripts, that lie in the file system.

use std::process::Command;

use super::{compiled, same};
use crate::support::{TestCluster, text};

/// Compiles a library in the scratch directory; false where there is no compiler.
fn library(cluster: &TestCluster, file: &str, source: &str, options: &[&str]) -> bool {
    let scratch = cluster.scratch();
    let (from, to) = (scratch.join(format!("{file}.c")), scratch.join(file));
    std::fs::write(&from, source).unwrap();
    let mut command = Command::new("gcc");
    command.args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"]).args([&to, &from]);
    let Ok(output) = command.args(options).current_dir(scratch).output() else {
        eprintln!("skipped: gcc is not installed");
        return false;
    };
    assert!(output.status.success(), "{}", text(&output));
    true
}

const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *load(const char *name, int flags) {
    void *handle = dlopen(name, flags);
    if (!handle) { printf("%s: %s\n", name, flags & RTLD_NOLOAD ? "is not loaded" : dlerror()); return 0; }
    int (*answer)(void) = (int (*)(void))dlsym(handle, "answer");
    Dl_info about = {0};
    printf("%s: %d, known as %s\n", name, answer ? answer() : -1, answer && dladdr((void *)answer, &about) ? about.dli_fname : "nothing");
    return handle;
}
int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc > 1) { load(argv[1], RTLD_NOW); return 0; }
    char path[4096], *here = getcwd(0, 0);
    snprintf(path, sizeof path, "%s/liba.so", here);
    load("./liba.so", RTLD_NOW | RTLD_NOLOAD);
    void *first = load("./liba.so", RTLD_NOW), *second = load(path, RTLD_LAZY), *third = load("link.so", RTLD_NOW), *fourth = load("./link.so", RTLD_NOW);
    printf("one library: %d %d %d\n", first == second, third == 0, fourth == first);
    printf("%d\n", load(path, RTLD_NOW | RTLD_NOLOAD) == first);
    load("libb.so.1", RTLD_NOW | RTLD_NOLOAD);
    load("./librpath.so", RTLD_NOW);
    load("./none.so", RTLD_NOW); load("/none/none.so", RTLD_NOW); load("libnone.so", RTLD_NOW); load("", RTLD_NOW);
    printf("itself: %d\n", dlopen(0, RTLD_NOW) != 0);
    printf("no library: %d\n", dlopen("./text.so", RTLD_NOW) == 0 && strstr(dlerror(), "invalid ELF header"));
    /* Another file in its place, when nobody has it any more. */
    load("./liby.so", RTLD_NOW); first = dlopen("./liby.so", RTLD_NOW); dlclose(first); dlclose(first);
    printf("gone: %d\n", dlopen("./liby.so", RTLD_NOW | RTLD_NOLOAD) == 0);
    rename("libz.so", "liby.so"); load("./liby.so", RTLD_NOW);
    return 0;
}
"#;

#[test]
fn libraries_are_loaded_with_what_they_need() {
    let cluster = TestCluster::start(2);
    let b = "#include <stdio.h>\nint b(void) { return 40; }\n\
             static __attribute__((constructor)) void begin(void) { FILE *note = fopen(\"note\", \"a\"); fputs(\"b\\n\", note); fclose(note); }\n";
    let answers = |number: u32| format!("int answer(void) {{ return {number}; }}\n");
    let needs =
        |other: &str| format!("int {other}(void); int answer(void) {{ return {other}() + 2; }}\n");
    let all = library(&cluster, "libb.so.1", b, &["-Wl,-soname,libb.so.1"])
        && library(
            &cluster,
            "liba.so",
            &needs("b"),
            &["-l:libb.so.1", "-L.", "-Wl,-rpath,$ORIGIN/deps"],
        )
        && library(&cluster, "libd.so", "int d(void) { return 5; }\n", &["-Wl,-soname,libd.so"])
        && library(
            &cluster,
            "libc1.so",
            "int d(void); int c(void) { return d(); }\n",
            &["-ld", "-L.", "-Wl,-soname,libc1.so"],
        )
        && library(
            &cluster,
            "librpath.so",
            &needs("c"),
            &["-lc1", "-L.", "-Wl,-rpath-link,.", "-Wl,--disable-new-dtags,-rpath,${ORIGIN}/deps"],
        )
        && library(&cluster, "liby.so", &answers(7), &[])
        && library(&cluster, "libz.so", &answers(8), &[])
        && compiled(&cluster, "loader", PROGRAM).is_some();
    if !all {
        return;
    }
    let lay = "mkdir deps; cp $S/liba.so $S/librpath.so $S/liby.so $S/libz.so .; \
               cp $S/libb.so.1 $S/libc1.so $S/libd.so deps; ln -s liba.so link.so; echo text > text.so";
    same(&cluster, &format!("{lay}; $S/loader; cat note; ls"));
    // By links that lead in and out, and by the list of directories.
    let rest = "ln -sfn $PWD/liby.so $S/in.so; $S/loader $S/in.so | cut -d, -f1; \
                cp $S/liby.so $S/outside.so; ln -s $S/outside.so out.so; $S/loader ./out.so | cut -d, -f1; \
                LD_LIBRARY_PATH=/none:$PWD/deps:$PWD $S/loader liba.so | cut -d, -f1; LD_LIBRARY_PATH=$PWD/deps $S/loader libd.so; \
                cd deps; $S/loader ../liba.so; $S/loader libb.so.1";
    same(&cluster, &format!("{lay}; {rest}"));
}

/// Built there, as any build of shared libraries does, and run from there.
#[test]
fn programs_find_the_libraries_that_they_are_linked_with() {
    let cluster = TestCluster::start(2);
    let spawn = "#include <spawn.h>\n#include <sys/wait.h>\nextern char **environ;\n\
                 int main(int n, char **v) { pid_t child; int status = -1; if (!posix_spawn(&child, v[1], 0, 0, v + 1, environ)) waitpid(child, &status, 0); return status; }\n";
    if compiled(&cluster, "spawns", spawn).is_none() {
        return;
    }
    let sources = "printf 'int two(void) { return 2; }' > two.c; printf 'int two(void); int one(void) { return two() - 1; }' > one.c; \
                   printf '#include <stdio.h>\\n#include <stdlib.h>\\n#include <dlfcn.h>\\n#include <unistd.h>\\nint one(void); int main(void) \
                   { int own = dup(0); printf(\"%%d, descriptor %%d, preloaded %%d, itself %%d\\\\n\", one(), own, getenv(\"LD_PRELOAD\") ? getenv(\"LD_PRELOAD\")[0] == 0 : 0, \
                   dlopen(\"libone.so.1\", RTLD_NOW | RTLD_NOLOAD) != 0); fflush(stdout); return system(\"echo and on\"); }' > main.c";
    let build = "mkdir lib; gcc -shared -fPIC -Wl,-soname,libtwo.so -o lib/libtwo.so two.c; \
                 gcc -shared -fPIC -Wl,-soname,libone.so.1 -o lib/libone.so.1 one.c -Llib -ltwo -Wl,-rpath,'$ORIGIN'; ln -s libone.so.1 lib/libone.so; \
                 gcc -o relative main.c -Llib -lone -Wl,-rpath-link,lib -Wl,-rpath,'$ORIGIN/lib'; gcc -o whole main.c -Llib -lone -Wl,-rpath-link,lib -Wl,-rpath,$PWD/lib; \
                 gcc -o none main.c -Llib -lone -Wl,-rpath-link,lib";
    let run = "./relative; ./whole; LD_LIBRARY_PATH=/none:$PWD/lib ./none; ./none > /dev/null; echo $?; $S/spawns ./whole; env $PWD/relative; \
               cd lib; ../relative; sh -c 'exec ../whole'; find .. -name relative -exec {} \\;; \
               cp ../none $S/elsewhere; LD_LIBRARY_PATH=$PWD $S/elsewhere; sh -c \"LD_LIBRARY_PATH=$PWD exec ../none\"; env LD_LIBRARY_PATH=$PWD $S/spawns $S/elsewhere; \
               env LD_LIBRARY_PATH=$PWD $S/spawns ../none";
    same(&cluster, &format!("({sources}; {build}; {run}) 2>&1 | sed 's/^.*relative:/relative:/'"));
}

#[test]
fn scripts_run_by_interpreters_that_lie_there_too() {
    let cluster = TestCluster::start(2);
    let spawn = "#include <spawn.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/wait.h>\nextern char **environ;\n\
                 int main(int n, char **v) { pid_t child; int status = 0, failed = posix_spawn(&child, v[1], 0, 0, v + 1, environ);\n\
                 if (!failed) waitpid(child, &status, 0); printf(\"%s %d\\n\", strerror(failed), status); return 0; }\n";
    if compiled(&cluster, "spawns", spawn).is_none() {
        return;
    }
    let scripts = "printf '#!/bin/sh -e\\necho \"$0: $*\"\\n' > inner; printf \"#!$PWD/inner two words\\n\" > outer; \
                   ln -s /bin/sh shell; printf \"#!$PWD/shell\\necho linked \\$#\\n\" > linked; printf \"#!$PWD/loop\\n\" > loop; \
                   printf \"#!$PWD/nothing\\n\" > nowhere; cp /bin/sh copied; printf \"#!$PWD/copied\\necho copied \\$1\\n\" > by_copy; \
                   chmod +x inner outer linked loop nowhere by_copy; mkdir d; cd d";
    let each = "for name in outer linked by_copy nowhere; do ../$name a 'b c'; echo $?; $PWD/../$name; env ../$name x; $S/spawns ../$name y; done; \
                ../loop; echo $?; $S/spawns ../loop";
    same(&cluster, &format!("({scripts}; {each}) 2>&1"));
}

#[test]
fn scripts_elsewhere_run_by_interpreters_that_lie_there() {
    let cluster = TestCluster::start(2);
    let spawn = "#define _GNU_SOURCE\n#include <spawn.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/wait.h>\nextern char **environ;\n\
                 int main(int n, char **v) { pid_t child; posix_spawn_file_actions_t a; posix_spawn_file_actions_init(&a);\n\
                 if (strcmp(v[1], \".\")) posix_spawn_file_actions_addchdir_np(&a, v[1]);\n\
                 int status = 0, failed = posix_spawnp(&child, v[2], &a, 0, v + 2, environ);\n\
                 if (!failed) waitpid(child, &status, 0); printf(\"%s %d\\n\", strerror(failed), status); return 0; }\n";
    if compiled(&cluster, "spawns", spawn).is_none() {
        return;
    }
    let scripts = "printf '#!/bin/sh -e\\necho \"$0: $*\"\\n' > inner; cp /bin/sh copied; rm -rf $S/bin; mkdir $S/bin; ln -s $PWD/copied $S/bin/link; \
                   printf \"#! $PWD/inner two words\\n\" > $S/bin/outer; printf \"#!$PWD/copied\\necho copied \\$1; exit 3\\n\" > $S/bin/by_copy; \
                   printf \"#!$S/bin/link\\necho linked \\$1\\n\" > $S/bin/by_link; printf \"#!$PWD/nothing\\n\" > $S/bin/nowhere; printf \"#!$PWD/copied\\n\" > $S/bin/closed; \
                   printf '#!/none/at/all\\n' > $S/bin/none; \
                   chmod +x inner $S/bin/*; chmod -x $S/bin/closed; export PATH=$S/bin:$PATH; S=$S/bin/..";
    let each = "for name in outer by_copy by_link nowhere closed none; do $S/bin/$name a 'b c'; echo $?; env $name x; echo $?; $S/spawns . $name y; done; \
                cd $S/bin; ./by_copy here; sh -c 'exec ./by_copy there'; ../spawns . ./by_copy z; ../spawns / ./by_copy z; ../spawns / $PWD/by_copy z; \
                echo 1 | xargs by_copy; python3 -c 'import subprocess; print(subprocess.call([\"by_copy\", \"q\"]), flush=True); subprocess.call([\"./by_link\", \"r\"])'";
    same(&cluster, &format!("({scripts}; {each}) 2>&1"));
}

#[test]
fn a_python_environment_may_lie_there() {
    let cluster = TestCluster::start(2);
    // A module in C, where Python looks first.
    let module = "cp $(python3 -c 'import _ctypes; print(_ctypes.__file__)') . && PYTHONPATH=$PWD python3 -c \
                  'import ctypes, _ctypes; print(_ctypes.__file__, ctypes.sizeof(ctypes.c_long), ctypes.CDLL(_ctypes.__file__)._name)'";
    let environment = "python3 -m venv --without-pip env && env/bin/python -c 'import sys; print(sys.prefix, sys.executable)'; \
                       printf \"#!$PWD/env/bin/python\\nimport sys; print(sys.argv, sys.prefix)\\n\" > env/bin/tool; chmod +x env/bin/tool; \
                       env/bin/tool x; PATH=$PWD/env/bin:$PATH; tool y; . env/bin/activate; python -c 'import sys; print(sys.prefix)'";
    same(&cluster, &format!("({module}; {environment}) 2>&1"));
}

/// The command itself does not see the file system.
#[test]
fn run_takes_programs_that_lie_there() {
    let cluster = TestCluster::start(1);
    let made = "printf '#!/bin/sh\\necho \"$0: $*\"\\n' > /pvfs/tool; chmod +x /pvfs/tool; cp /bin/echo /pvfs/copy";
    cluster.shell(&format!("pvfs run sh -c '{}'", made.replace('\'', "'\\''"))).succeeds();
    cluster.shell("pvfs run /pvfs/tool a 'b  c'").succeeds().prints("/pvfs/tool: a b  c\n");
    cluster.shell("pvfs run /pvfs/copy = --x").succeeds().prints("= --x\n");
    cluster.shell("PATH=$PATH:/pvfs pvfs run tool d").succeeds().prints("/pvfs/tool: d\n");
    cluster
        .shell("pvfs run --prefix /elsewhere /elsewhere/tool e")
        .succeeds()
        .prints("/elsewhere/tool: e");
    let elsewhere = "printf '#!/pvfs/tool\\n' > script; chmod +x script; pvfs run ./script f";
    cluster.shell(elsewhere).succeeds().prints("/pvfs/tool: ./script f\n");
    cluster.shell("pvfs run /pvfs/nothing").ends_with(127).says("pvfs:");
    cluster.shell("pvfs run /nowhere/nothing").fails(1).in_one_sentence();
}
