//! Processor time and memory of processes, as `/proc` tells them.
//!
//! `/proc/PID/stat` counts in hundredths of a second, too coarse for turns of a tenth; `schedstat` of each
//! thread counts nanoseconds. It forgets threads that have ended, so turns are measured while all live.

use std::fs;
use std::time::Duration;

/// This process, where the clients are, and those at the other end.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    servers: Vec<u32>,
}

/// What clients and servers have used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// This process.
    pub clients: Duration,
    /// The others.
    pub servers: Duration,
}

impl Processes {
    /// This process and others.
    pub fn with_this(others: &[u32]) -> Self {
        Self { servers: others.to_vec() }
    }

    /// What all their living threads have used so far.
    pub fn used(&self) -> Used {
        let servers = self.servers.iter().map(|pid| cpu_of(*pid)).sum();
        Used { clients: cpu_of(std::process::id()), servers }
    }
}

impl Used {
    /// What was used after `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            clients: self.clients.saturating_sub(before.clients),
            servers: self.servers.saturating_sub(before.servers),
        }
    }

    /// Of both ends.
    pub fn total(self) -> Duration {
        self.clients + self.servers
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
        let before = own.used();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
        // Sleeping makes the kernel book the time that was used.
        std::thread::sleep(Duration::from_millis(5));
        let used = own.used().since(before);
        assert!(used.total() > Duration::from_millis(5), "{used:?}");
    }

    #[test]
    fn memory_of_this_process_is_known() {
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000);
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
