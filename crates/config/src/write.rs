//! A cluster as the text of its file, every key present and explained.
//!
//! What is written reads back as the same cluster; paths below the file's directory are written
//! relative to it, so that the whole directory can be moved.

use crate::amount::{ByteSize, HOUR_MS, MINUTE_MS, SECOND_MS, format_duration};
use crate::cluster::{Agent, Cluster, Defaults, Filesystem, Security, Server};
use pvfs_layout::Scheme;
use std::fmt::{self, Display, Formatter, Write};
use std::path::Path;
use std::time::Duration;

impl Cluster {
    /// The text of a file that describes this cluster.
    pub fn to_toml(&self) -> String {
        Text(self).to_string()
    }
}

struct Text<'a>(&'a Cluster);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        self.filesystem(f, self.0.filesystem())?;
        self.security(f, &self.0.security)?;
        self.defaults(f, &self.0.defaults)?;
        f.write_str("\n[log]\n")?;
        key(f, "level", &quote(self.0.log_level), "error, warn, info, debug or trace")?;
        f.write_str(MANAGER)?;
        self.0.managers.iter().try_for_each(|manager| self.server(f, "manager", manager))?;
        f.write_str(IODS)?;
        self.0.iods.iter().try_for_each(|iod| self.server(f, "iod", iod))?;
        self.agent(f, &self.0.agent)
    }
}

impl Text<'_> {
    fn filesystem(&self, f: &mut Formatter<'_>, filesystem: &Filesystem) -> fmt::Result {
        f.write_str("\n[filesystem]\n")?;
        key(f, "name", &quote(&filesystem.name), "what users call it")?;
        key(f, "id", &filesystem.id, "part of every handle: never change it")?;
        if let Some(uuid) = filesystem.uuid {
            key(f, "uuid", &quote(uuid), "tells it from others of the same id")?;
        }
        match &filesystem.prefix {
            Some(prefix) => key(f, "prefix", &quote(prefix.display()), "where pvfs run shows it"),
            None => Ok(()),
        }
    }

    fn security(&self, f: &mut Formatter<'_>, security: &Security) -> fmt::Result {
        f.write_str("\n[security]\n")?;
        key(
            f,
            "mode",
            &quote(security.mode),
            "none (tests on one machine), psk (the key below) or tls (as well)",
        )?;
        let key_file = quote(self.relative(&security.key_file));
        key(f, "key_file", &key_file, "64 hexadecimal digits, mode 0600")?;
        let files = [
            ("ca_file", &security.ca_file, "tls only, as the next four: who signs certificates"),
            ("certificate_file", &security.certificate.certificate, "what daemons show"),
            ("certificate_key_file", &security.certificate.key, "its key, mode 0600"),
            (
                "user_certificate_file",
                &security.user_certificate.certificate,
                "what programs of users show",
            ),
            ("user_certificate_key_file", &security.user_certificate.key, "its key"),
        ];
        for (name, file, about) in files {
            key(f, name, &quote(self.relative(file)), about)?;
        }
        key(f, "root_squash", &security.root_squash, "serve uid 0 of clients as nobody")?;
        let networks = list(security.networks.iter().map(quote));
        key(f, "networks", &networks, "where clients may connect from; empty: anywhere")?;
        let session = time(security.session, HOUR_MS);
        key(f, "session_hours", &session, "how long a session lives without renewal")?;
        let capability = time(security.capability, MINUTE_MS);
        key(f, "capability_minutes", &capability, "how long an open file lives without renewal")
    }

    fn defaults(&self, f: &mut Formatter<'_>, defaults: &Defaults) -> fmt::Result {
        f.write_str("\n[defaults]\n")?;
        key(
            f,
            "ssize",
            &size(defaults.ssize),
            "strip size: this much goes to one iod, then the next",
        )?;
        key(f, "pcount", &or_any(defaults.pcount), "iods per file; -1: all")?;
        key(
            f,
            "base",
            &or_any(defaults.base),
            "iod of the first strip, counted from 0; -1: by free space",
        )?;
        key(
            f,
            "distribution",
            &quote(without_ssize(&defaults.distribution)),
            "simple_stripe, basic, two_d:... or varstrip:...",
        )?;
        key(
            f,
            "durability",
            &quote(defaults.durability),
            "of metadata: local (a power loss may cost a second) or strict",
        )?;
        let seconds = |interval| time(interval, SECOND_MS);
        key(
            f,
            "commit_interval_s",
            &seconds(defaults.commit_interval),
            "data is on disk after that long, or at fsync",
        )?;
        key(
            f,
            "data_deadline_s",
            &seconds(defaults.data_deadline),
            "a read or write fails after that long",
        )?;
        key(
            f,
            "metadata_deadline_s",
            &seconds(defaults.metadata_deadline),
            "an open, stat or rename fails after that long",
        )?;
        key(
            f,
            "status_deadline_s",
            &seconds(defaults.status_deadline),
            "df, ls and status answer within",
        )?;
        key(
            f,
            "lease_s",
            &seconds(defaults.lease),
            "a silent client loses its locks and opens after",
        )?;
        key(
            f,
            "cache_lease_s",
            &seconds(defaults.cache_lease),
            "a silent mount may believe what it caches for",
        )?;
        key(f, "checksums", &defaults.checksums, "of payloads on the network")
    }

    fn server(&self, f: &mut Formatter<'_>, role: &str, server: &Server) -> fmt::Result {
        writeln!(f, "\n[[{role}]]")?;
        writeln!(f, "name = {}", quote(&server.name))?;
        writeln!(f, "listen = {}", list(server.listen.iter().map(quote)))?;
        writeln!(f, "store = {}", quote(self.relative(&server.store)))
    }

    fn agent(&self, f: &mut Formatter<'_>, agent: &Agent) -> fmt::Result {
        f.write_str("\n[agent]\n")?;
        let socket = quote(self.relative(&agent.socket));
        key(f, "socket", &socket, "where processes of a node find its agent")?;
        key(f, "uids", &list(agent.uids.iter().map(quote)), "the users it vouches for")
    }

    fn relative<'p>(&self, path: &'p Path) -> impl Display + 'p {
        let directory = self.0.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let inside = directory.and_then(|directory| path.strip_prefix(directory).ok());
        inside.filter(|inside| !inside.as_os_str().is_empty()).unwrap_or(path).display()
    }
}

/// A line with its explanation behind, in one column where it fits.
fn key(f: &mut Formatter<'_>, name: &str, value: &dyn Display, about: &str) -> fmt::Result {
    let line = format!("{name} = {value}");
    writeln!(f, "{line:34} # {about}")
}

pub(crate) fn quote(value: impl Display) -> String {
    toml::Value::String(value.to_string()).to_string()
}

pub(crate) fn list(values: impl Iterator<Item = String>) -> String {
    let mut text = String::from("[");
    for (index, value) in values.enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{value}");
    }
    text + "]"
}

fn size(size: ByteSize) -> String {
    quote(size)
}

/// A plain number of the key's unit where that says it exactly.
fn time(time: Duration, unit_ms: u64) -> String {
    let ms = time.as_millis() as u64;
    match ms.is_multiple_of(unit_ms) {
        true => (ms / unit_ms).to_string(),
        false => quote(format_duration(time)),
    }
}

/// The strip size is written as a key of its own.
fn without_ssize(scheme: &Scheme) -> String {
    match scheme {
        Scheme::SimpleStripe { .. } => "simple_stripe".to_owned(),
        Scheme::TwoD { groups, factor, .. } => format!("two_d:groups={groups},factor={factor}"),
        Scheme::Varstrip { .. } | Scheme::Basic => scheme.to_string(),
    }
}

fn or_any(value: Option<u32>) -> i64 {
    value.map_or(-1, i64::from)
}

const HEAD: &str = "\
# The whole cluster. Every node has the same file; daemons take it and their own name:
#   pvfs mgr --config cluster.toml --name mgr0
# Keys, units and defaults: docs/configuration.md. After a change: kill -HUP, or
# systemctl reload; the daemon's log says what took effect and what needs a restart.
version = 1
";

const MANAGER: &str = "\n# The manager keeps names and attributes, never data.\n";

const IODS: &str = "
# The I/O daemons. An iod is known by its position, counted from 0, and files remember it:
# never reorder or remove them; append new ones at the end.
";
