//! What may be said after `-o`, and what it means.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a file system is mounted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MountOptions {
    /// Nothing may be changed through this mount.
    pub read_only: bool,
    /// Whether other users may use the mount; unsaid, root's mounts are for all.
    pub allow_other: Option<bool>,
    /// Operations are repeated for ever (but can be killed) instead of failing at their deadline.
    pub hard: bool,
    /// What the kernel may remember of names and attributes.
    pub cache: Cache,
    /// Which opens bypass the kernel's page cache.
    pub direct: Direct,
    /// Threads that read requests from the kernel.
    pub threads: usize,
    /// Every request is logged.
    pub debug: bool,
    /// Flags for the kernel.
    pub flags: KernelFlags,
    /// What `mount` and `df` show as the device.
    pub source: String,
}

/// What the kernel may remember of names and attributes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Cache {
    /// Nothing: every question goes to the manager.
    None,
    /// Everything, until the manager recalls it: what is changed elsewhere is seen at once.
    #[default]
    Lease,
    /// Everything, for this long: changes made elsewhere are seen that late.
    Timeout(Duration),
}

/// Which opens bypass the kernel's page cache.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Direct {
    /// Those that only write, those that append, and those with O_DIRECT.
    #[default]
    Auto,
    /// All.
    On,
    /// Only those with O_APPEND or O_DIRECT.
    Off,
}

/// Flags that the kernel itself goes by. Device files and setuid programs are off unless asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KernelFlags {
    /// Setuid bits count.
    pub suid: bool,
    /// Device files work.
    pub dev: bool,
    /// Programs cannot be executed.
    pub noexec: bool,
    /// Reading does not change access times.
    pub noatime: bool,
    /// All writes are synchronous.
    pub sync: bool,
    /// All changes of directories are synchronous.
    pub dirsync: bool,
}

/// Options that are not understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OptionError {
    /// No such option.
    #[error("unknown mount option \"{0}\"; known are {known}", known = KNOWN)]
    Unknown(String),
    /// The option exists, the value makes no sense.
    #[error("mount option \"{option}\" has a meaningless value; write {example}")]
    Value {
        /// The option as given.
        option: String,
        /// How to write it.
        example: &'static str,
    },
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            allow_other: None,
            hard: false,
            cache: Cache::Lease,
            direct: Direct::Auto,
            threads: THREADS,
            debug: false,
            flags: KernelFlags::default(),
            source: "pvfs".into(),
        }
    }
}

impl MountOptions {
    /// Takes one more option into account; a later one overrides an earlier one.
    pub fn set(&mut self, option: &str) -> Result<(), OptionError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match (name, value) {
            ("cache", value) => self.cache = value.parse().map_err(|()| cache_error(option))?,
            ("direct", value) => self.direct = value.parse().map_err(|()| direct_error(option))?,
            ("threads", value) => self.threads = threads(value).ok_or(threads_error(option))?,
            ("fsname", value) if !value.is_empty() => self.source = value.into(),
            (_, "") if option == name => self.set_flag(name)?,
            _ if is_for_others(name) => {}
            _ => return Err(OptionError::Unknown(option.into())),
        }
        Ok(())
    }

    fn set_flag(&mut self, name: &str) -> Result<(), OptionError> {
        let flags = &mut self.flags;
        match name {
            "ro" | "rw" => self.read_only = name == "ro",
            "allow_other" | "noallow_other" => self.allow_other = Some(name == "allow_other"),
            "hard" | "soft" => self.hard = name == "hard",
            "debug" => self.debug = true,
            "suid" | "nosuid" => flags.suid = name == "suid",
            "dev" | "nodev" => flags.dev = name == "dev",
            "exec" | "noexec" => flags.noexec = name == "noexec",
            "atime" | "noatime" => flags.noatime = name == "noatime",
            "sync" | "async" => flags.sync = name == "sync",
            "dirsync" => flags.dirsync = true,
            name if is_for_others(name) => {}
            name => return Err(OptionError::Unknown(name.into())),
        }
        Ok(())
    }
}

/// Several options with commas between them, as in /etc/fstab.
impl FromStr for MountOptions {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let mut options = Self::default();
        let given = text.split(',').filter(|option| !option.is_empty());
        given.into_iter().try_for_each(|option| options.set(option))?;
        Ok(options)
    }
}

impl FromStr for Cache {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "none" {
            return Ok(Self::None);
        }
        if text == "lease" {
            return Ok(Self::Lease);
        }
        let seconds: f64 = text.strip_prefix("timeout=").ok_or(())?.parse().map_err(|_| ())?;
        let timeout = Duration::try_from_secs_f64(seconds).map_err(|_| ())?;
        Ok(if timeout.is_zero() { Self::None } else { Self::Timeout(timeout) })
    }
}

impl Cache {
    /// How long names and attributes may be believed without asking anybody.
    pub fn timeout(self) -> Duration {
        match self {
            Self::None | Self::Lease => Duration::ZERO,
            Self::Timeout(timeout) => timeout,
        }
    }
}

impl FromStr for Direct {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

fn threads(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| (THREADS_MIN..=THREADS_MAX).contains(count))
}

fn cache_error(option: &str) -> OptionError {
    OptionError::Value {
        option: option.into(),
        example: "cache=lease, cache=none or cache=timeout=SECONDS",
    }
}

fn direct_error(option: &str) -> OptionError {
    OptionError::Value { option: option.into(), example: "direct=auto, direct=on or direct=off" }
}

fn threads_error(option: &str) -> OptionError {
    OptionError::Value { option: option.into(), example: "threads=COUNT, between 2 and 64" }
}

/// Whether only mount(8), systemd or readers of /etc/fstab look at it.
fn is_for_others(name: &str) -> bool {
    name.starts_with("x-") || FOR_OTHERS.contains(&name) || SHOWN.contains(&name)
}

/// What the kernel shows of a mount, and mount(8) says again when it is to be remounted.
const SHOWN: [&str; 3] = ["user_id", "group_id", "default_permissions"];

const FOR_OTHERS: [&str; 15] = [
    "defaults",
    "_netdev",
    "auto",
    "noauto",
    "nofail",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "relatime",
    "norelatime",
    "strictatime",
    "lazytime",
    "comment",
];

const KNOWN: &str = "ro, rw, allow_other, noallow_other, hard, soft, cache=lease, cache=none, \
    cache=timeout=SECONDS, \
    direct=auto, direct=on, direct=off, threads=COUNT, fsname=NAME, debug, suid, nosuid, dev, nodev, exec, \
    noexec, atime, noatime, sync, async, dirsync";

/// Enough that some are free for metadata while others wait for data.
const THREADS: usize = 8;

/// One for data, one that never waits for data.
const THREADS_MIN: usize = 2;
const THREADS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> MountOptions {
        text.parse().unwrap()
    }

    #[test]
    fn nothing_said_means_the_defaults() {
        for text in ["", ",", "defaults", "defaults,_netdev,x-systemd.requires=pvfs.service,nofail"]
        {
            assert_eq!(parsed(text), MountOptions::default(), "{text:?}");
        }
    }

    #[test]
    fn each_option_means_what_it_says() {
        assert!(parsed("ro").read_only);
        assert_eq!(parsed("allow_other").allow_other, Some(true));
        assert!(parsed("hard").hard);
        assert_eq!(parsed("cache=timeout=1.5").cache.timeout(), Duration::from_millis(1500));
        assert_eq!(parsed("cache=timeout=0").cache, Cache::None);
        assert_eq!(parsed("direct=on").direct, Direct::On);
        assert_eq!(parsed("threads=3").threads, 3);
        assert_eq!(parsed("fsname=scratch").source, "scratch");
        assert!(parsed("suid,dev").flags.suid);
    }

    #[test]
    fn a_later_option_overrides_an_earlier_one() {
        let options = parsed(
            "ro,rw,hard,soft,cache=timeout=5,cache=lease,suid,nosuid,allow_other,noallow_other",
        );
        let expected = MountOptions { allow_other: Some(false), ..MountOptions::default() };
        assert_eq!(options, expected);
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_list_of_known_ones() {
        for text in ["fast", "ro=1", "cached", "debug=yes", "fsname="] {
            let error = text.parse::<MountOptions>().unwrap_err();
            assert_eq!(error, OptionError::Unknown(text.into()));
            assert!(error.to_string().contains("cache=timeout=SECONDS"), "{error}");
        }
    }

    #[test]
    fn a_meaningless_value_is_refused_with_an_example() {
        for text in [
            "cache=",
            "cache=lots",
            "cache=timeout=-1",
            "cache=timeout=x",
            "direct=maybe",
            "threads=1",
        ] {
            let error = text.parse::<MountOptions>().unwrap_err();
            assert!(matches!(error, OptionError::Value { .. }), "{text}: {error}");
        }
    }

    /// The list that users are shown is the list that is understood.
    #[test]
    fn every_known_option_is_understood() {
        for option in KNOWN.split(", ") {
            let example = option.replace("SECONDS", "1").replace("COUNT", "4").replace("NAME", "x");
            parsed(&example);
        }
    }
}
