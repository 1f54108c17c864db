//! Whether a waiting program has been sent a signal.
//!
//! The kernel's interrupt requests come for every signal and do not say which it is, so they are not wanted: a program
//! that waits for a lock, or for an iod under the option `hard`, is looked at instead: its pending
//! signals are in /proc. The kernel waits for our answer in any case; saying EINTR is all it takes.

use std::fs;

/// Signals that a thread has been sent and not yet taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pending {
    /// Some signal that is not blocked.
    pub any: bool,
    /// SIGKILL, or the thread is gone.
    pub kill: bool,
}

/// The pending signals of a thread.
pub fn pending(thread: u32) -> Pending {
    match fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(status) => parsed(&status),
        // A request may come from the kernel itself (0) or from a namespace we cannot see into.
        Err(_) => Pending::default(),
    }
}

fn parsed(status: &str) -> Pending {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
    };
    let arrived = mask("SigPnd:") | mask("ShdPnd:");
    let taken = arrived & !mask("SigBlk:");
    Pending { any: taken != 0, kill: arrived & SIGKILL != 0 }
}

/// Bit of signal 9 in the masks, which count from 1.
const SIGKILL: u64 = 1 << 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn status(thread: u64, process: u64, blocked: u64) -> String {
        format!(
            "Name:\tcat\nSigQ:\t0/95905\nSigPnd:\t{thread:016x}\nShdPnd:\t{process:016x}\nSigBlk:\t{blocked:016x}\n\
             SigIgn:\t0000000000000000\n"
        )
    }

    #[test]
    fn a_signal_counts_unless_it_is_blocked() {
        let interrupt = 1 << 1;
        assert_eq!(parsed(&status(0, 0, 0)), Pending { any: false, kill: false });
        assert_eq!(parsed(&status(interrupt, 0, 0)), Pending { any: true, kill: false });
        assert_eq!(parsed(&status(0, interrupt, 0)), Pending { any: true, kill: false });
        assert_eq!(parsed(&status(interrupt, interrupt, interrupt)), Pending::default());
        assert_eq!(parsed(&status(0, SIGKILL, 0)), Pending { any: true, kill: true });
    }

    #[test]
    fn this_thread_has_no_signal_pending() {
        assert!(!pending(rustix::thread::gettid().as_raw_nonzero().get() as u32).kill);
        assert_eq!(pending(0), Pending::default());
    }
}
