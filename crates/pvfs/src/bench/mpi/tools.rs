//! What of an MPI is needed, and the programs that are compiled with it.

use crate::bench::error::{Doing, Error, Result};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An MPI with ROMIO, and our driver for it.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The compiler.
    pub mpicc: PathBuf,
    /// The launcher.
    pub mpirun: PathBuf,
    /// What a rank is to load before its MPI.
    pub preloads: OsString,
    /// The client library that the driver uses.
    pub library: PathBuf,
}

impl Tools {
    /// Compiles one of the programs into a directory; where it is.
    pub fn compile(&self, name: &str, directory: &Path, with_library: bool) -> Result<PathBuf> {
        for (file, text) in SOURCES {
            fs::write(directory.join(file), text).doing("write a program to compile")?;
        }
        let program = directory.join(name);
        let mut command = Command::new(&self.mpicc);
        command.arg("-O2").arg("-I").arg(directory).arg("-o").arg(&program);
        command.arg(directory.join(format!("{name}.c")));
        if with_library {
            // The loader looks for what the program needs before it looks for what the driver does.
            let place = self.library.parent().unwrap_or(Path::new("/")).display();
            command.arg(&self.library).arg(format!("-Wl,-rpath,{place}"));
        }
        let output = command.stdin(Stdio::null()).output().doing("run mpicc")?;
        match output.status.success() {
            true => Ok(program),
            false => Err(Error::Program {
                program: format!("{} {name}.c", self.mpicc.display()),
                reason: first_line(&String::from_utf8_lossy(&output.stderr))
                    .unwrap_or("it says no more")
                    .to_owned(),
            }),
        }
    }
}

/// What a program says first is what went wrong; the rest follows from that.
pub fn first_line(said: &str) -> Option<&str> {
    said.lines().map(str::trim).find(|line| !line.is_empty())
}

macro_rules! source {
    ($file:literal) => {
        ($file, include_str!(concat!("../../../../../bindings/mpiio/bars/", $file)))
    };
}

const SOURCES: [(&str, &str); 6] = [
    source!("contiguous.c"),
    source!("nested.c"),
    source!("open.c"),
    source!("must.h"),
    source!("orders.h"),
    ("pvfs.h", include_str!("../../../../capi/include/pvfs.h")),
];
