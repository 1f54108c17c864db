//! `ls -l` of 5,000 files on a mount: the program itself, as a user waits for it.

use super::MountProcess;
use crate::bench::Effort;
use crate::bench::compare::{Contender, Subject, Turn, compare};
use crate::bench::error::{Doing, Error, Result};
use crate::bench::row::{Bar, Row};
use crate::bench::testbed::Testbed;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Measures it, on a mount of its own.
pub fn measure(testbed: &Testbed, effort: &Effort) -> Result<Row> {
    let product = MountProcess::start(testbed, Some(testbed.cluster()))?;
    let memory = MountProcess::start(testbed, None)?;
    let mut own = Listed::prepare(&product.home(testbed)?)?;
    let mut bare = Listed::prepare(&memory.home(testbed)?)?;
    let subject = Subject { name: ROW.into(), unit: "s", is_time: true, bar: Bar::Below(0.15) };
    compare(subject, effort, &mut own, Some(&mut bare))
}

struct Listed {
    directory: PathBuf,
}

impl Listed {
    fn prepare(home: &Path) -> Result<Self> {
        let directory = home.join("mounted-listing");
        std::fs::create_dir_all(&directory).doing("make a directory on a mount")?;
        for number in 0..FILES {
            File::create(directory.join(format!("file{number}")))
                .doing("make a file on a mount")?;
        }
        Ok(Self { directory })
    }
}

impl Contender for Listed {
    fn turn(&mut self) -> Result<Turn> {
        let start = Instant::now();
        let output = Command::new("ls").arg("-l").arg(&self.directory).output().doing("run ls")?;
        let value = start.elapsed().as_secs_f64();
        // One line more says the total.
        match output.stdout.split(|byte| *byte == b'\n').count() {
            lines if lines > FILES => Ok(Turn { value, operations: 0, ..Turn::default() }),
            lines => Err(Error::Wrong(format!("ls -l listed {lines} lines for {FILES} files"))),
        }
    }
}

/// The row's name.
pub const ROW: &str = "mount ls -l 5,000 files";

const FILES: usize = 5000;
