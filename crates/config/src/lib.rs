//! The one TOML file that describes a cluster.
//!
//! ```text
//! cluster.toml --[file]--> ClusterFile --[check]--> Cluster --> daemons, clients, commands
//!                (serde: keys, types)   (sense, across keys)
//!                                         |   ^
//!                                  [write]+   +--[recipe] <-- host lists (genconfig, up)
//! ```
//!
//! Whoever holds a [`Cluster`] may rely on it: names are unique, addresses parse and can be reached
//! from elsewhere, the striping fits the iods. Every refusal is one [`ConfigError`], whose text is
//! one sentence that says what to write instead. Keys and units: docs/configuration.md.
//!
//! ```
//! use pvfs_config::{Cluster, Recipe};
//! use std::path::Path;
//!
//! let path = Path::new("/etc/pvfs/cluster.toml");
//! let iods = "node{1-8,10}".into();
//! let recipe = Recipe { manager: "node0".into(), iods, iods_per_host: 1, ..Recipe::default() };
//! let cluster = recipe.cluster(path)?;
//! let (id, iod) = cluster.iod("io8")?;
//! assert_eq!((id, iod.listen[0].to_string()), (8, "tcp://node10:7001".to_owned()));
//! assert_eq!(Cluster::parse(&cluster.to_toml(), path)?, cluster);
//! # Ok::<(), pvfs_config::ConfigError>(())
//! ```

#![forbid(unsafe_code)]

mod amount;
mod certificate;
mod check;
mod cluster;
#[cfg(test)]
mod documented;
mod endpoint;
mod error;
mod explain;
mod file;
mod find;
mod hosts;
mod key;
mod recipe;
mod reload;
mod uids;
mod write;

pub use amount::{AmountError, ByteSize, format_duration, parse_duration};
pub use certificate::{CertificateError, CertificateFiles, CertificateMarks, Certificates, Pem};
pub use cluster::{
    Agent, Cluster, Defaults, Durability, Filesystem, LogLevel, Security, SecurityMode, Server,
};
pub use endpoint::{Endpoint, EndpointError, UNIX_PATH_BYTES_MAX};
pub use error::ConfigError;
pub use find::{CONFIG_VARIABLE, find, named};
pub use hosts::{HOSTS_MAX, HostListError, compact, expand};
pub use ipnet::IpNet;
pub use key::{ClusterKey, KeyError, write_new};
pub use recipe::{Recipe, id_of, random_uuid};
pub use reload::{Change, Effect, Reload};
pub use uids::{UidRange, UidRangeError};
pub use uuid::Uuid;
