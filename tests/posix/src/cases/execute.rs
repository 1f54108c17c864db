//! Programs that live on the file system.

use std::os::unix::process::CommandExt;

use crate::sys::*;
use crate::wants::*;

cases! { "execute"
    any [
        a_script_runs,
        a_binary_runs,
        without_an_execute_bit_it_does_not,
        a_running_program_can_be_removed_and_replaced,
        a_program_open_for_writing_is_busy,
    ]
    root [
        a_program_that_may_be_executed_need_not_be_readable,
        others_need_the_bit,
    ]
}

fn copy_of(path: &str, name: &str) {
    let data = std::fs::read(path).unwrap();
    let made = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0o755).unwrap();
    assert_eq!(write(&made, &data), Ok(data.len()));
}

fn says(path: &str, arguments: &[&str]) -> String {
    let output = program(path).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn errno_of(path: &str) -> i32 {
    program(path).output().map(drop).unwrap_err().raw_os_error().unwrap()
}

fn a_script_runs() {
    drop(file("script", b"#!/bin/sh\necho \"it runs with $1\"\n"));
    chmod("script", 0o755).unwrap();
    assert_eq!(says("./script", &["this"]), "it runs with this");
}

fn a_binary_runs() {
    copy_of("/bin/echo", "program");
    assert_eq!(says("./program", &["it", "runs"]), "it runs");
    rename("program", "moved").unwrap();
    assert_eq!(says("./moved", &["still"]), "still");
}

fn without_an_execute_bit_it_does_not() {
    drop(file("script", b"#!/bin/sh\n"));
    assert_eq!(errno_of("./script"), libc::EACCES);
    mkdir("d", 0o755).unwrap();
    assert_eq!(errno_of("./d"), libc::EACCES);
}

fn a_running_program_can_be_removed_and_replaced() {
    copy_of("/bin/sleep", "program");
    let mut running = program("./program").arg("5").spawn().unwrap();
    copy_of("/bin/echo", "new");
    rename("new", "program").unwrap();
    assert_eq!(says("./program", &["replaced"]), "replaced");
    unlink("program").unwrap();
    assert!(running.try_wait().unwrap().is_none(), "it runs on");
    running.kill().unwrap();
    running.wait().unwrap();
}

fn a_program_open_for_writing_is_busy() {
    copy_of("/bin/echo", "program");
    let writer = open("program", O_WRONLY, 0).unwrap();
    assert_eq!(errno_of("./program"), libc::ETXTBSY);
    drop(writer);
    assert_eq!(says("./program", &["free"]), "free");
    // And the other way round.
    copy_of("/bin/sleep", "sleeper");
    let mut running = program("./sleeper").arg("5").spawn().unwrap();
    let refused = open("sleeper", O_WRONLY, 0);
    running.kill().unwrap();
    running.wait().unwrap();
    fails(refused, Errno::ETXTBSY);
}

fn a_program_that_may_be_executed_need_not_be_readable() {
    copy_of("/bin/echo", "program");
    chmod("program", 0o711).unwrap();
    as_nobody(|| {
        fails(open("program", O_RDONLY, 0), Errno::EACCES);
        assert_eq!(says("./program", &["secret"]), "secret");
    });
}

fn others_need_the_bit() {
    copy_of("/bin/echo", "program");
    chmod("program", 0o754).unwrap();
    as_nobody(|| {
        let error = program("./program").exec();
        assert_eq!(error.raw_os_error(), Some(libc::EACCES));
    });
}
