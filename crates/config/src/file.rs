//! The file as it is written: one type per table, one field per key, nothing checked across keys.
//!
//! What a single value can get wrong is refused while it is read, so that the error carries its
//! line; what takes two keys to see is the matter of [`crate::check`]. Every key is described in
//! docs/configuration.md, and a test holds the two together.

use crate::amount::{ByteSize, Hours, Minutes, Seconds};
use crate::cluster::{Durability, LogLevel};
use crate::endpoint::Endpoint;
use crate::uids::UidRange;
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use uuid::Uuid;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClusterFile {
    pub version: Spanned<u32>,
    pub filesystem: OneTable<FilesystemTable>,
    #[serde(default)]
    pub security: OneTable<SecurityTable>,
    #[serde(default)]
    pub defaults: OneTable<DefaultsTable>,
    #[serde(default)]
    pub log: OneTable<LogTable>,
    #[serde(default)]
    pub manager: Vec<ServerTable>,
    #[serde(default)]
    pub iod: Vec<ServerTable>,
    #[serde(default)]
    pub agent: OneTable<AgentTable>,
}

/// `[filesystem]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilesystemTable {
    pub name: Spanned<String>,
    pub id: Spanned<u32>,
    pub uuid: Option<FileUuid>,
    pub prefix: Option<Spanned<PathBuf>>,
}

/// `[security]`
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SecurityTable {
    pub mode: Spanned<String>,
    pub key_file: PathBuf,
    pub ca_file: PathBuf,
    pub certificate_file: PathBuf,
    pub certificate_key_file: PathBuf,
    pub user_certificate_file: PathBuf,
    pub user_certificate_key_file: PathBuf,
    pub root_squash: bool,
    pub networks: Vec<Network>,
    pub session_hours: Spanned<Hours>,
    pub capability_minutes: Spanned<Minutes>,
}

/// `[defaults]`
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DefaultsTable {
    pub ssize: Spanned<ByteSize>,
    pub pcount: Spanned<i64>,
    pub base: Spanned<i64>,
    pub distribution: Spanned<String>,
    pub durability: Durability,
    pub commit_interval_s: Spanned<Seconds>,
    pub data_deadline_s: Spanned<Seconds>,
    pub metadata_deadline_s: Spanned<Seconds>,
    pub status_deadline_s: Spanned<Seconds>,
    pub lease_s: Spanned<Seconds>,
    pub cache_lease_s: Spanned<Seconds>,
    pub checksums: bool,
}

/// `[log]`
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogTable {
    pub level: LogLevel,
}

/// `[[manager]]` and `[[iod]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerTable {
    pub name: Spanned<String>,
    pub listen: Spanned<Vec<Spanned<Endpoint>>>,
    pub store: Spanned<PathBuf>,
}

/// `[agent]`
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AgentTable {
    pub socket: Spanned<PathBuf>,
    pub uids: Vec<UidRange>,
}

impl Default for SecurityTable {
    fn default() -> Self {
        Self {
            mode: absent("psk".to_owned()),
            key_file: "cluster.key".into(),
            ca_file: "cluster.ca.pem".into(),
            certificate_file: "node.pem".into(),
            certificate_key_file: "node.key".into(),
            user_certificate_file: "user.pem".into(),
            user_certificate_key_file: "user.key".into(),
            root_squash: false,
            networks: Vec::new(),
            session_hours: seconds(12 * 3600),
            capability_minutes: seconds(10 * 60),
        }
    }
}

impl Default for DefaultsTable {
    fn default() -> Self {
        Self {
            ssize: absent(ByteSize(64 << 10)),
            pcount: absent(-1),
            base: absent(-1),
            distribution: absent("simple_stripe".to_owned()),
            durability: Durability::Local,
            commit_interval_s: seconds(5),
            data_deadline_s: seconds(30),
            metadata_deadline_s: seconds(10),
            status_deadline_s: seconds(3),
            lease_s: seconds(30),
            cache_lease_s: seconds(5),
            checksums: true,
        }
    }
}

impl Default for LogTable {
    fn default() -> Self {
        Self { level: LogLevel::Info }
    }
}

impl Default for AgentTable {
    fn default() -> Self {
        let uids = vec!["1000-60000".parse().expect("a range")];
        Self { socket: absent("/run/pvfs/agent.sock".into()), uids }
    }
}

/// A value the file does not mention; it stands on no line.
fn absent<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

fn seconds<const UNIT_MS: u64>(seconds: u64) -> Spanned<crate::amount::Time<UNIT_MS>> {
    absent(crate::amount::Time(Duration::from_secs(seconds)))
}

/// A table that is written once, with single brackets.
///
/// Derived structures also take sequences, so that `[[security]]` would be read by position.
#[derive(Default)]
pub(crate) struct OneTable<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneTable<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(OneTableVisitor(PhantomData))
    }
}

/// What is said of a repeated table where its name is not known.
pub(crate) const WRITTEN_ONCE: &str = "this table is written once; write it in single brackets";

struct OneTableVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneTableVisitor<T> {
    type Value = OneTable<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneTable<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(OneTable)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<OneTable<T>, A::Error> {
        Err(de::Error::custom(WRITTEN_ONCE))
    }
}

/// A network such as `10.0.0.0/8`; a single address stands for itself.
pub(crate) struct Network(pub IpNet);

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let network = text.parse().or_else(|_| text.parse().map(|address: IpAddr| address.into()));
        network.map(|network: IpNet| Self(network.trunc())).map_err(|_| {
            let reason = "is not a network; write ADDRESS/BITS, such as \"10.0.0.0/8\"";
            de::Error::custom(format!("\"{text}\" {reason}"))
        })
    }
}

/// A uuid as uuidgen prints it.
pub(crate) struct FileUuid(pub Uuid);

impl<'de> Deserialize<'de> for FileUuid {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Uuid::parse_str(&text).map(Self).map_err(|_| {
            de::Error::custom(format!("\"{text}\" is not a uuid; write what uuidgen prints"))
        })
    }
}
