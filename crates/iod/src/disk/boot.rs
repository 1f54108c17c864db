//! The boot of a store: a time in which nothing that was written can have been lost unnoticed.
//!
//! ```text
//!            power lost, remount           killed, started again        stopped orderly, reboot
//!   ==================|========================================================================>
//!     boot 8f3a..     |     boot 27d1..
//! ```
//!
//! A file beside the format file keeps the boot's number and the *ground* it stands on: the kernel's boot id
//! and the mount of the store's file system. A start on the same ground goes on in the same boot, for the
//! kernel still has what the killed daemon wrote. On another ground it does so only after an orderly stop,
//! which synced everything:
//!
//! ```text
//! boot 8f3a0c6e5d410b27
//! state open | synced | lost
//! ground 47838778-da7b-4396-b2ff-f2a6fd4efcf1 254:0 4294967512
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs as sys;
use sha2::{Digest, Sha256};

/// The boot of an open store.
pub(super) struct Boot {
    root: PathBuf,
    number: u64,
    ground: String,
    was_killed: bool,
    /// What the file says now.
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// A daemon uses the store, or was killed.
    Open,
    /// Everything was synced, and nothing was done since.
    Synced,
    /// Something could not be synced.
    Lost,
}

struct Record {
    number: u64,
    state: State,
    ground: String,
}

impl Boot {
    /// The boot in which a daemon that opens the store now serves it.
    pub fn begin(root: &Path, directory: &OwnedFd) -> io::Result<Self> {
        Self::begin_on(root, ground(directory)?)
    }

    fn begin_on(root: &Path, ground: String) -> io::Result<Self> {
        let before = read(root);
        let number = match &before {
            Some(before) if before.goes_on(&ground) => before.number,
            _ => random_number()?,
        };
        let state = Mutex::new(State::Open);
        let was_killed = before.as_ref().is_some_and(|before| before.state != State::Synced);
        let mut boot = Self { root: root.to_owned(), number, ground, was_killed, state };
        let is_noted = before.is_some_and(|before| {
            before.number == number && before.state == State::Open && before.ground == boot.ground
        });
        if !is_noted && boot.record(State::Open).or_else(|_| boot.forget()).is_err() {
            // What the file says will be believed again, so nothing may be done in the boot it names.
            boot.number = random_number()?;
        }
        Ok(boot)
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the daemon before this one did not end orderly, and so took back nothing that it had lent.
    pub fn was_killed(&self) -> bool {
        self.was_killed
    }

    /// A number of the disk: machine and device, whoever's store it is.
    pub fn disk(&self) -> u64 {
        let mut words = self.ground.split(' ');
        let (Some(machine), Some(device)) = (words.next(), words.next()) else { return 0 };
        let digest = Sha256::new().chain_update(machine).chain_update(device).finalize();
        u64::from_le_bytes(digest[..8].try_into().expect("eight bytes"))
    }

    /// Something may be lost; the first time counts.
    pub fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Lost {
            return;
        }
        *state = State::Lost;
        if let Err(error) = self.record(State::Lost).or_else(|_| self.forget()) {
            let file = self.root.join(FILE);
            tracing::error!(
                "cannot note in {} that data may be lost: {error}; remove that file before the next start",
                file.display()
            );
        }
    }

    /// Everything is synced.
    pub fn keep(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Open {
            self.record(State::Synced)?;
            *state = State::Synced;
        }
        Ok(())
    }

    /// A full disk takes no record, but lets one go: the next start is another boot then.
    fn forget(&self) -> io::Result<()> {
        std::fs::remove_file(self.root.join(FILE))?;
        File::open(&self.root)?.sync_all()
    }

    fn record(&self, state: State) -> io::Result<()> {
        let Self { number, ground, .. } = self;
        let text = format!("boot {number:016x}\nstate {}\nground {ground}\n", state.word());
        let new = self.root.join(FILE_NEW);
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, self.root.join(FILE))?;
        File::open(&self.root)?.sync_all()
    }
}

impl Record {
    /// Whether everything that was done in this boot is still there, on the ground of today.
    fn goes_on(&self, ground: &str) -> bool {
        match self.state {
            State::Synced => true,
            State::Lost => false,
            State::Open => !ground.is_empty() && self.ground == ground,
        }
    }
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Synced => "synced",
            Self::Lost => "lost",
        }
    }
}

/// A file that is not there or makes no sense vouches for nothing.
fn read(root: &Path) -> Option<Record> {
    let text = std::fs::read_to_string(root.join(FILE)).ok()?;
    let mut lines = text.lines();
    let mut field = |name| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let number = u64::from_str_radix(field("boot")?, 16).ok()?;
    let word = field("state")?;
    let state = [State::Open, State::Synced, State::Lost].into_iter().find(|s| s.word() == word)?;
    Some(Record { number, state, ground: field("ground")?.to_owned() })
}

/// What the store stands on: this start of the machine, the device, this mount of it. Empty, which equals
/// nothing, when the kernel does not tell.
fn ground(directory: &OwnedFd) -> io::Result<String> {
    let Ok(machine) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else {
        return Ok(String::new());
    };
    let device = sys::fstat(directory.as_fd())?.st_dev;
    let (major, minor) = (sys::major(device), sys::minor(device));
    let mount = mount_number(major, minor).unwrap_or(0);
    Ok(format!("{} {major}:{minor} {mount}", machine.trim()))
}

/// Numbers the mounts of a device: ext4, xfs and f2fs make a directory of the device's name in /sys/fs when
/// they mount it, and the kernel never gives an inode number there twice. (A number of the mount itself
/// would not do: the service manager gives each start of a daemon mounts of its own.)
fn mount_number(major: u32, minor: u32) -> Option<u64> {
    let device = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let device = device.file_name()?;
    let kinds = std::fs::read_dir("/sys/fs").ok()?;
    let mut found = kinds.flatten().filter_map(|kind| kind.path().join(device).metadata().ok());
    found.next().map(|directory| directory.ino())
}

fn random_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}

const FILE: &str = "pvfs-iod.boot";
const FILE_NEW: &str = "pvfs-iod.boot.new";

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(dir: &tempfile::TempDir, ground: &str) -> Boot {
        Boot::begin_on(dir.path(), ground.to_owned()).unwrap()
    }

    #[test]
    fn a_killed_daemon_goes_on_in_its_boot_and_a_lost_power_begins_another() {
        let dir = tempfile::tempdir().unwrap();
        let first = begin(&dir, "monday").number();
        assert_eq!(begin(&dir, "monday").number(), first);
        let second = begin(&dir, "tuesday").number();
        assert_ne!(second, first);
        assert_eq!(begin(&dir, "tuesday").number(), second);
        assert_ne!(begin(&dir, "monday").number(), first);
    }

    #[test]
    fn an_orderly_stop_outlives_the_machine_once() {
        let dir = tempfile::tempdir().unwrap();
        let boot = begin(&dir, "monday");
        boot.keep().unwrap();
        let again = begin(&dir, "tuesday");
        assert_eq!(again.number(), boot.number());
        assert_ne!(begin(&dir, "wednesday").number(), boot.number());
    }

    #[test]
    fn what_could_not_be_synced_ends_the_boot_even_if_the_stop_is_orderly() {
        let dir = tempfile::tempdir().unwrap();
        let boot = begin(&dir, "monday");
        boot.end();
        boot.keep().unwrap();
        assert_ne!(begin(&dir, "monday").number(), boot.number());
    }

    #[test]
    fn a_missing_or_damaged_file_and_an_unknown_ground_vouch_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut last = begin(&dir, "monday").number();
        for text in ["", "boot", "boot 12\nstate open\n", "boot 12\nstate fine\nground monday\n"] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            let next = begin(&dir, "monday").number();
            assert_ne!(next, last);
            assert_ne!(next, 0x12);
            last = next;
        }
        let unknown = begin(&dir, "").number();
        assert_ne!(begin(&dir, "").number(), unknown);
    }

    #[test]
    fn the_ground_under_one_machine_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let open = || sys::open(dir.path(), sys::OFlags::RDONLY, sys::Mode::empty()).unwrap();
        let found = ground(&open()).unwrap();
        assert_eq!(found, ground(&open()).unwrap());
        assert!(found.split(' ').count() == 3, "{found}");
        let disk = |ground: &str| begin(&dir, ground).disk();
        assert_eq!(disk("m 8:1 5"), disk("m 8:1 6"));
        assert_ne!(disk("m 8:1 5"), disk("m 8:2 5"));
        assert_ne!(disk("m 8:1 5"), disk("n 8:1 5"));
        assert_eq!(disk(""), 0);
    }
}
