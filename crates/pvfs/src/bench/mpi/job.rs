//! A job of some ranks: started by mpirun, told what to do on its standard input, heard on its output.

use super::tools::{Tools, first_line};
use crate::bench::error::{Doing, Error, Result};
use crate::bench::testbed::Testbed;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Starts jobs on a testbed.
pub struct Launch<'a> {
    /// Where they run.
    pub testbed: &'a Testbed,
    tools: &'a Tools,
    directory: PathBuf,
}

/// One job.
pub struct Job {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

/// What one order took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// The rank that took longest.
    pub took: Duration,
    /// Processor time of all ranks.
    pub processor: Duration,
}

impl<'a> Launch<'a> {
    /// Programs and logs go into a directory of their own.
    pub fn new(testbed: &'a Testbed, tools: &'a Tools) -> Result<Self> {
        let directory = testbed.place().directory().join("mpi");
        fs::create_dir_all(&directory).doing("make a directory for programs")?;
        Ok(Self { testbed, tools, directory })
    }

    /// A program that knows MPI only.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        self.tools.compile(name, &self.directory, false)
    }

    /// A program that calls the client library as well.
    pub fn program_with_library(&self, name: &str) -> Result<PathBuf> {
        self.tools.compile(name, &self.directory, true)
    }

    /// A file of ours as it is named to the driver.
    pub fn driven_name(&self, file: &str) -> String {
        format!("pvfs:/{}/{file}", self.testbed.home())
    }

    /// The same file for the client library.
    pub fn library_path(&self, file: &str) -> String {
        format!("{PREFIX}/{}/{file}", self.testbed.home())
    }

    /// A job whose MPI-IO is our driver's.
    pub fn driven(&self, ranks: u32, program: &Path, arguments: &[&str]) -> Result<Job> {
        let config = self.testbed.cluster().path.as_os_str();
        let mut command = Command::new(&self.tools.mpirun);
        command.arg("-genv").arg("LD_PRELOAD").arg(&self.tools.preloads);
        command.arg("-genv").arg(pvfs_config::CONFIG_VARIABLE).arg(config);
        // Without one the library would take a mount of the same file system for it.
        command.args(["-genv", pvfs_posix::PREFIX_VARIABLE, PREFIX]);
        self.start(command, "driver", ranks, program, arguments)
    }

    /// A job whose MPI-IO is its MPI's.
    pub fn plain(&self, ranks: u32, program: &Path, arguments: &[&str]) -> Result<Job> {
        self.start(Command::new(&self.tools.mpirun), "mpi", ranks, program, arguments)
    }

    fn start(
        &self,
        mut command: Command,
        kind: &str,
        ranks: u32,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Job> {
        let own = program.file_name().unwrap_or_default().to_string_lossy();
        let log = self.directory.join(format!("{own}-{kind}.log"));
        let errors = File::create(&log).doing("make a log")?;
        // A batch system may offer other nodes, where nobody reaches a file system of this one's loopback.
        command.args(["-host", "localhost", "-n", &ranks.to_string()]).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        // A group of its own: an interrupt from the terminal is for us, and we end it in order.
        let mut child = command.process_group(0).spawn().doing("start mpirun")?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (told, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(|line| line.ok()).try_for_each(|line| told.send(line))
        });
        Ok(Job { name: format!("mpirun -n {ranks} {own}"), child, input, lines, log })
    }
}

impl Job {
    /// Waits until it has said that it is ready, by doing what nobody ordered.
    pub fn ready(self) -> Result<Self> {
        self.hear().map(|_| self)
    }

    /// Has something done by all ranks.
    pub fn order(&mut self, order: &str) -> Result<Pass> {
        if let Some(input) = &mut self.input {
            writeln!(input, "{order}").doing("tell a job what to do")?;
        }
        self.hear()
    }

    /// Lets it end: after the last order there is no other. Fails if it does.
    pub fn end(mut self) -> Result<()> {
        self.input = None;
        match self.wait(ANSWER_TIME_MAX) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failed(&status.to_string())),
            None => Err(self.failed(&format!("no end within {ANSWER_TIME_MAX:?}"))),
        }
    }

    fn hear(&self) -> Result<Pass> {
        let line = self.lines.recv_timeout(ANSWER_TIME_MAX);
        let line =
            line.map_err(|_| self.failed(&format!("no answer within {ANSWER_TIME_MAX:?}")))?;
        parse(&line).ok_or_else(|| self.failed(&format!("\"{line}\" is no answer")))
    }

    /// What went wrong, as the job said it, else as we see it.
    fn failed(&self, seen: &str) -> Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let said = first_line(&log).unwrap_or(seen);
        Error::Program { program: self.name.clone(), reason: said.to_owned() }
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.input = None;
        let group = Pid::from_raw(self.child.id() as i32).expect("no process has the number 0");
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let Some(signal) = signal {
                // It may have ended meanwhile.
                let _ = kill_process_group(group, signal);
            }
            if self.wait(END_TIME).is_some() {
                return;
            }
        }
    }
}

fn parse(line: &str) -> Option<Pass> {
    let (took, processor) = line.split_once(' ')?;
    let seconds = |text: &str| Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let pass = Pass { took: seconds(took)?, processor: seconds(processor)? };
    (!pass.took.is_zero()).then_some(pass)
}

/// Under which the library has the file system.
const PREFIX: &str = "/pvfs";

/// No order takes longer, nor the start of 64 ranks on two processors.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);

/// How long a job has to end by itself, and once more when it is told to.
const END_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_two_times_and_nothing_else_is_one() {
        let pass = Pass { took: Duration::from_millis(250), processor: Duration::from_secs(1) };
        assert_eq!(parse("0.250000000 1.000000000"), Some(pass));
        for line in ["", "0.25", "0.25 x", "-1.0 1.0", "0.0 1.0", "Abort(1) on node 0"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
