//! Processor time and memory of processes, as `/proc` tells them.
//!
//! `/proc/PID/stat` counts in hundredths of a second, too coarse for turns of a tenth; `schedstat` of each
//! thread counts nanoseconds. It forgets threads that have ended, so turns are measured while all live.

use std::fs;
use std::time::Duration;

/// Some processes of this machine.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    pids: Vec<u32>,
}

impl Processes {
    /// This process and others.
    pub fn with_this(others: &[u32]) -> Self {
        let mut pids = others.to_vec();
        pids.push(std::process::id());
        Self { pids }
    }

    /// What all their living threads have used so far.
    pub fn cpu(&self) -> Duration {
        self.pids.iter().map(|pid| cpu_of(*pid)).sum()
    }
}

/// What the living threads of a process have used so far; zero when it is gone.
pub fn cpu_of(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Duration::ZERO };
    let used =
        threads.flatten().filter_map(|thread| first_number(&thread.path().join("schedstat")));
    Duration::from_nanos(used.sum())
}

/// The resident memory of a process in bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

fn first_number(path: &std::path::Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_shows_in_the_processor_time() {
        let own = Processes::with_this(&[]);
        let before = own.cpu();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
        // Sleeping makes the kernel book the time that was used.
        std::thread::sleep(Duration::from_millis(5));
        let used = own.cpu().saturating_sub(before);
        assert!(used > Duration::from_millis(5), "{used:?}");
    }

    #[test]
    fn memory_of_this_process_is_known() {
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000);
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
