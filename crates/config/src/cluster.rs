//! A checked cluster: what daemons, clients and commands hold.
//!
//! Only [`Cluster::parse`] makes one, so whoever has one need not doubt it.

use crate::amount::ByteSize;
use crate::certificate::CertificateFiles;
use crate::check::check;
use crate::endpoint::Endpoint;
use crate::error::ConfigError;
use crate::explain::explain;
use crate::key::{ClusterKey, KeyError};
use crate::uids::UidRange;
use ipnet::IpNet;
use pvfs_layout::{Placement, Scheme};
use serde::de::{self, Deserialize, Deserializer};
use siphasher::sip::SipHasher13;
use std::fmt;
use std::fs;
use std::hash::Hasher;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use uuid::Uuid;

/// Everything one file says, with every relative path made absolute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cluster {
    /// The file it was read from.
    pub path: PathBuf,
    /// The file systems; exactly one for now.
    pub filesystems: Vec<Filesystem>,
    /// Who may connect, and how it is proven.
    pub security: Security,
    /// What applies where a file, directory or mount says nothing else.
    pub defaults: Defaults,
    /// How much daemons log.
    pub log_level: LogLevel,
    /// The managers; exactly one for now.
    pub managers: Vec<Server>,
    /// The I/O daemons. The position of one is its id, for ever.
    pub iods: Vec<Server>,
    /// The node-local helper that vouches for users.
    pub agent: Agent,
}

/// A file system.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Filesystem {
    /// What users call it.
    pub name: String,
    /// What every handle carries; never 0.
    pub id: u32,
    /// Tells it from others of the same name and id.
    pub uuid: Option<Uuid>,
    /// Below which path programs see it without a mount, where neither they nor their node say otherwise.
    pub prefix: Option<PathBuf>,
}

/// `[security]`
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Security {
    /// How connections are authenticated.
    pub mode: SecurityMode,
    /// Where the cluster key lies.
    pub key_file: PathBuf,
    /// The certificates of those whose signatures are believed; of use in mode `tls`, as are the next two.
    pub ca_file: PathBuf,
    /// What daemons and agents of this node show, and other programs that may read its key.
    pub certificate: CertificateFiles,
    /// What all other programs of this node show.
    pub user_certificate: CertificateFiles,
    /// Whether uid 0 of clients is served as nobody.
    pub root_squash: bool,
    /// The networks clients may connect from; none listed means all.
    pub networks: Vec<IpNet>,
    /// How long a session lives without renewal.
    pub session: Duration,
    /// How long a capability lives without renewal.
    pub capability: Duration,
}

/// `[defaults]`
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Defaults {
    /// Strip size in bytes.
    pub ssize: ByteSize,
    /// How many iods hold a file; `None` means all.
    pub pcount: Option<u32>,
    /// The iod of the first strip; `None` means chosen by space.
    pub base: Option<u32>,
    /// How strips are dealt; strips of `ssize` bytes where they have one size.
    pub distribution: Scheme,
    /// What of metadata survives a power loss.
    pub durability: Durability,
    /// The longest time data waits before it is synced.
    pub commit_interval: Duration,
    /// The longest time one data operation may take.
    pub data_deadline: Duration,
    /// The longest time one metadata operation may take.
    pub metadata_deadline: Duration,
    /// The longest time a status query may take.
    pub status_deadline: Duration,
    /// How long a silent client keeps its locks and opens.
    pub lease: Duration,
    /// How long a client that caches may believe what it was told without being heard of.
    pub cache_lease: Duration,
    /// Whether payloads carry checksums.
    pub checksums: bool,
}

/// A manager or an I/O daemon.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Server {
    /// Unique in the cluster.
    pub name: String,
    /// Where it listens and is reached; at least one.
    pub listen: Vec<Endpoint>,
    /// The directory of its state.
    pub store: PathBuf,
}

/// `[agent]`
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Agent {
    /// Where processes of the node find it.
    pub socket: PathBuf,
    /// The users it vouches for.
    pub uids: Vec<UidRange>,
}

/// An enum whose values are words in the file; a refused word is answered with the others.
macro_rules! words {
    ($(#[$about:meta])* $name:ident, $what:literal { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of its documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The word of the file.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().find(|value| value.as_str() == text);
                found.copied().ok_or_else(|| unknown_word($what, text, &[$($word,)+]))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

words! {
    /// How connections are authenticated.
    SecurityMode, "a security mode" {
        /// Not at all: for tests on one machine.
        None = "none",
        /// By the cluster key.
        Psk = "psk",
        /// By the cluster key, inside TLS.
        Tls = "tls",
    }
}

words! {
    /// What of metadata survives a power loss.
    Durability, "a durability" {
        /// All but the last second.
        Local = "local",
        /// All that was answered.
        Strict = "strict",
    }
}

words! {
    /// How much daemons log.
    LogLevel, "a log level" {
        /// What needs somebody's attention.
        Error = "error",
        /// What may need it soon.
        Warn = "warn",
        /// Starts, stops, connections lost and found.
        Info = "info",
        /// Each connection and its end.
        Debug = "debug",
        /// Each request.
        Trace = "trace",
    }
}

fn unknown_word(what: &str, text: &str, words: &[&str]) -> String {
    format!("\"{text}\" is not {what}; write {}", words.join(" or "))
}

impl Cluster {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(unreadable)?;
        let text = fs::read_to_string(&path).map_err(unreadable)?;
        Self::parse(&text, &path)
    }

    /// Checks a text that stands, or will stand, in the file `path`. Relative paths in the text
    /// start from the directory of that file.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let file = toml::from_str(text).map_err(|error| explain(text, path, &error))?;
        check(file, text, path)
    }

    /// The file system; with several, the first.
    pub fn filesystem(&self) -> &Filesystem {
        &self.filesystems[0]
    }

    /// The manager of that name.
    pub fn manager(&self, name: &str) -> Result<&Server, ConfigError> {
        let found = self.managers.iter().find(|manager| manager.name == name);
        found.ok_or_else(|| self.no_such_server("manager", &self.managers, name))
    }

    /// The I/O daemon of that name, and its id.
    pub fn iod(&self, name: &str) -> Result<(u32, &Server), ConfigError> {
        let found = (0..).zip(&self.iods).find(|(_, iod)| iod.name == name);
        found.ok_or_else(|| self.no_such_server("iod", &self.iods, name))
    }

    /// A number that changes when iods or their order or addresses do; never 0. Clients and daemons
    /// compare it, so that nobody places bytes by an outdated list.
    ///
    /// Every program must compute the same one: the hash, its key (zeros) and what is fed to it
    /// are part of the protocol.
    pub fn map_version(&self) -> u32 {
        let mut hasher = SipHasher13::new();
        for iod in &self.iods {
            feed(&mut hasher, &iod.name);
            hasher.write(&(iod.listen.len() as u32).to_le_bytes());
            iod.listen.iter().for_each(|endpoint| feed(&mut hasher, &endpoint.to_string()));
        }
        let hash = hasher.finish();
        ((hash >> 32) as u32 ^ hash as u32).max(1)
    }

    fn no_such_server(&self, role: &'static str, servers: &[Server], name: &str) -> ConfigError {
        let known = servers.iter().map(|server| server.name.clone()).collect();
        ConfigError::NoSuchServer { role, name: name.to_owned(), known, path: self.path.clone() }
    }
}

impl Security {
    /// Reads the cluster keys, the one that signs first; none where connections are not authenticated.
    pub fn read_keys(&self) -> Result<Vec<ClusterKey>, KeyError> {
        match self.mode {
            SecurityMode::None => Ok(Vec::new()),
            SecurityMode::Psk | SecurityMode::Tls => ClusterKey::read(&self.key_file),
        }
    }

    /// Whether a client may connect from there. IPv4 addresses inside of IPv6 count as IPv4.
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.is_empty() || self.networks.iter().any(|network| network.contains(&address))
    }
}

impl Defaults {
    /// Where files lie that are created without a wish. The strip size is in the distribution.
    pub fn placement(&self) -> Placement {
        Placement { base: self.base, pcount: self.pcount, ssize: None }
    }
}

impl Agent {
    /// Whether it vouches for that user.
    pub fn vouches_for(&self, uid: u32) -> bool {
        self.uids.iter().any(|range| range.contains(uid))
    }
}

/// A length before each text, so that texts cannot run into one another.
fn feed(hasher: &mut SipHasher13, text: &str) {
    hasher.write(&(text.len() as u32).to_le_bytes());
    hasher.write(text.as_bytes());
}
