//! Where a daemon listens and is reached: `tcp://host:port` or `unix:///path`.

use serde::de::{self, Deserialize, Deserializer};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One address of one daemon.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Endpoint {
    /// A host name or address (IPv6 without its brackets) and a port.
    Tcp {
        /// A name to resolve, or an address.
        host: String,
        /// The port; 0 only where the kernel is to choose one.
        port: u16,
    },
    /// A socket in the file system, for processes on the same node.
    Unix {
        /// An absolute path.
        path: PathBuf,
    },
}

/// The kernel's `sun_path` holds 108 bytes with the closing zero.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// Why an address was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EndpointError {
    /// Neither `tcp://` nor `unix://`.
    #[error("\"{0}\" is not an address; write tcp://HOST:PORT or unix:///PATH")]
    NoScheme(String),
    /// A TCP address without a port from 0 to 65535.
    #[error("\"{0}\" names no port; write tcp://HOST:PORT, such as tcp://node1:7000")]
    NoPort(String),
    /// Not a host name, IPv4 address or bracketed IPv6 address.
    #[error("\"{0}\" names no valid host; write a host name, an IPv4 address or [IPv6]")]
    BadHost(String),
    /// A Unix path that depends on the working directory.
    #[error(
        "\"{0}\" is relative; write unix:// and an absolute path, such as unix:///run/pvfs/io0.sock"
    )]
    Relative(String),
    /// A Unix path that does not fit into the kernel's address.
    #[error(
        "the socket path \"{0}\" is longer than {UNIX_PATH_BYTES_MAX} bytes; choose a shorter directory"
    )]
    TooLong(String),
}

impl Endpoint {
    /// A TCP address.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }

    /// A Unix socket address; the path should be absolute.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::Unix { path: path.into() }
    }

    /// The host of a TCP address.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Tcp { host, .. } => Some(host),
            Self::Unix { .. } => None,
        }
    }

    /// Whether only processes of the same node can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix { .. } => true,
            Self::Tcp { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("unix://") {
            parse_unix(text, Path::new(path))
        } else if let Some(rest) = text.strip_prefix("tcp://") {
            parse_tcp(text, rest)
        } else {
            Err(EndpointError::NoScheme(text.to_owned()))
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { path } => write!(f, "unix://{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
        }
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

fn parse_unix(text: &str, path: &Path) -> Result<Endpoint, EndpointError> {
    if !path.is_absolute() || text.contains('\0') {
        Err(EndpointError::Relative(text.to_owned()))
    } else if path.as_os_str().len() > UNIX_PATH_BYTES_MAX {
        Err(EndpointError::TooLong(text.to_owned()))
    } else {
        Ok(Endpoint::unix(path))
    }
}

fn parse_tcp(text: &str, rest: &str) -> Result<Endpoint, EndpointError> {
    let no_port = || EndpointError::NoPort(text.to_owned());
    let (host, port) = rest.rsplit_once(':').ok_or_else(no_port)?;
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(no_port());
    }
    let port = port.parse().map_err(|_| no_port())?;
    let host = unbracket(host).ok_or_else(|| EndpointError::BadHost(text.to_owned()))?;
    Ok(Endpoint::tcp(host, port))
}

fn unbracket(host: &str) -> Option<&str> {
    match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').filter(|inner| inner.parse::<Ipv6Addr>().is_ok()),
        None => is_host_name(host).then_some(host),
    }
}

/// Letters, digits, `-`, `.` and `_`: what resolvers take, and nothing a shell or URL would.
pub(crate) fn is_host_name(host: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    (1..=253).contains(&host.len()) && !host.starts_with('-') && host.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_address_survives_being_written(
            host in "[a-z0-9][a-z0-9_.-]{0,20}", port: u16, ip: u128, path in "/[a-z/._-]{0,50}",
        ) {
            for endpoint in [
                Endpoint::tcp(host, port),
                Endpoint::tcp(Ipv6Addr::from(ip).to_string(), port),
                Endpoint::unix(path),
            ] {
                prop_assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
            }
        }

        #[test]
        fn no_text_panics(text in "(tcp://|unix://)?.*") {
            let _ = text.parse::<Endpoint>();
        }
    }

    #[test]
    fn refusals_say_what_to_write() {
        let long = format!("unix:///{}", "x".repeat(UNIX_PATH_BYTES_MAX));
        for (text, sentence) in [
            ("node1:7000", "is not an address; write tcp://HOST:PORT"),
            ("tcp://node1", "names no port"),
            ("tcp://node1:", "names no port"),
            ("tcp://node1:70000", "names no port"),
            ("tcp://node1:+70", "names no port"),
            ("tcp://:7000", "names no valid host"),
            ("tcp://::1:7000", "names no valid host"),
            ("tcp://[node1]:7000", "names no valid host"),
            ("unix://run/x.sock", "is relative"),
            (&long, "is longer than 107 bytes"),
        ] {
            let said = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(said.contains(sentence), "{text}: {said}");
        }
    }

    #[test]
    fn only_loopback_and_unix_are_local() {
        for (text, local) in [
            ("unix:///run/x", true),
            ("tcp://localhost:1", true),
            ("tcp://127.9.9.9:1", true),
            ("tcp://[::1]:1", true),
            ("tcp://10.0.0.1:1", false),
            ("tcp://localhost.example.org:1", false),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().is_local(), local, "{text}");
        }
    }
}
