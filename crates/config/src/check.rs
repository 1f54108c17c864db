//! From what the file says to what can be relied on: the checks that take more than one value.
//!
//! The first thing wrong is refused, with its line and what to write instead.

use crate::amount::{ByteSize, Time, format_duration};
use crate::certificate::CertificateFiles;
use crate::cluster::{Agent, Cluster, Defaults, Filesystem, Security, SecurityMode, Server};
use crate::endpoint::{Endpoint, UNIX_PATH_BYTES_MAX};
use crate::error::ConfigError;
use crate::explain::refusal;
use crate::file::{
    AgentTable, ClusterFile, DefaultsTable, FilesystemTable, SecurityTable, ServerTable,
};
use pvfs_layout::{FILE_SIZE_MAX, SLOTS_MAX, Scheme};
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// The cluster that `file`, read from `text` in `path`, describes.
pub(crate) fn check(file: ClusterFile, text: &str, path: &Path) -> Result<Cluster, ConfigError> {
    let checker = Checker { text, path };
    checker.version(&file.version)?;
    checker.counts(&file)?;
    checker.distinct(&file)?;
    let mode = checker.mode(&file.security.0.mode)?;
    if mode == SecurityMode::None {
        checker.all_local(&file)?;
    }
    Ok(Cluster {
        path: path.to_owned(),
        filesystems: vec![checker.filesystem(file.filesystem.0)?],
        security: checker.security(file.security.0, mode)?,
        defaults: checker.defaults(file.defaults.0, file.iod.len())?,
        log_level: file.log.0.level,
        managers: checker.servers(file.manager)?,
        iods: checker.servers(file.iod)?,
        agent: checker.agent(file.agent.0)?,
    })
}

/// The text, for lines, and its place, for relative paths.
struct Checker<'a> {
    text: &'a str,
    path: &'a Path,
}

type Checked<T> = Result<T, ConfigError>;

impl Checker<'_> {
    fn refuse<T, V>(&self, at: &Spanned<V>, reason: impl Into<String>) -> Checked<T> {
        Err(refusal(self.text, self.path, at.span().start, reason.into()))
    }

    fn refuse_at_end<T>(&self, reason: impl Into<String>) -> Checked<T> {
        Err(refusal(self.text, self.path, self.text.trim_end().len(), reason.into()))
    }

    fn version(&self, version: &Spanned<u32>) -> Checked<()> {
        match version.get_ref() {
            1 => Ok(()),
            other => self.refuse(
                version,
                format!("version {other} is unknown here; write version = 1 or update pvfs"),
            ),
        }
    }

    fn counts(&self, file: &ClusterFile) -> Checked<()> {
        if file.manager.is_empty() {
            return self.refuse_at_end("there is no manager; add one [[manager]]");
        }
        if let Some(second) = file.manager.get(1) {
            let reason = "several managers are not built yet; keep one [[manager]]";
            return self.refuse(&second.name, reason);
        }
        if file.iod.is_empty() {
            return self.refuse_at_end("there is no I/O daemon; add at least one [[iod]]");
        }
        match file.iod.get(IODS_MAX) {
            Some(iod) => {
                self.refuse(&iod.name, format!("there are more than {IODS_MAX} iods; remove some"))
            }
            None => Ok(()),
        }
    }

    /// No two daemons may share a name, an address or a store.
    fn distinct(&self, file: &ClusterFile) -> Checked<()> {
        let servers = || file.manager.iter().chain(&file.iod);
        let names = servers().map(|server| claim("name", &server.name, String::clone));
        let listens = servers().flat_map(|server| server.listen.get_ref());
        let addresses = listens.map(|address| claim("address", address, Endpoint::to_string));
        let absolute = |store: &PathBuf| self.absolute(store).display().to_string();
        let stores = servers().map(|server| claim("store", &server.store, absolute));
        let mut claims = HashSet::new();
        for (at, what, value) in names.chain(addresses).chain(stores) {
            if !claims.insert((what, value.clone())) {
                let reason = format!("the {what} {value} is used twice; give each daemon its own");
                return Err(refusal(self.text, self.path, at, reason));
            }
        }
        Ok(())
    }

    fn all_local(&self, file: &ClusterFile) -> Checked<()> {
        let servers = file.manager.iter().chain(&file.iod);
        let mut addresses = servers.flat_map(|server| server.listen.get_ref());
        match addresses.find(|address| !address.get_ref().is_local()) {
            Some(address) => self.refuse(
                address,
                format!(
                    "mode = \"none\" trusts everybody who can reach {}; write mode = \"psk\" or \
                     \"tls\", or addresses of this machine only",
                    address.get_ref()
                ),
            ),
            None => Ok(()),
        }
    }

    fn filesystem(&self, table: FilesystemTable) -> Checked<Filesystem> {
        self.name(&table.name)?;
        if *table.id.get_ref() == 0 {
            return self.refuse(
                &table.id,
                "id = 0 means no file system; write a number from 1 to 4294967295",
            );
        }
        let uuid = table.uuid.map(|uuid| uuid.0);
        let prefix = table.prefix.map(|prefix| self.prefix(prefix)).transpose()?;
        Ok(Filesystem { name: table.name.into_inner(), id: table.id.into_inner(), uuid, prefix })
    }

    /// An absolute path, not the root of all, with nothing in it that leads elsewhere.
    fn prefix(&self, prefix: Spanned<PathBuf>) -> Checked<PathBuf> {
        let path = prefix.get_ref();
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if path.is_absolute() && path.parent().is_some() && path.components().all(is_plain) {
            return Ok(prefix.into_inner());
        }
        let shown = path.display();
        let sentence =
            format!("\"{shown}\" cannot be the prefix; write an absolute path such as \"/pvfs\"");
        self.refuse(&prefix, sentence)
    }

    fn mode(&self, mode: &Spanned<String>) -> Checked<SecurityMode> {
        mode.get_ref().parse().or_else(|reason: String| self.refuse(mode, reason))
    }

    fn security(&self, table: SecurityTable, mode: SecurityMode) -> Checked<Security> {
        let session = self.within(&table.session_hours, SESSION)?;
        let capability = self.within(&table.capability_minutes, (SECOND, session))?;
        let networks = table.networks.into_iter().map(|network| network.0).collect();
        Ok(Security {
            mode,
            key_file: self.absolute(&table.key_file),
            ca_file: self.absolute(&table.ca_file),
            certificate: CertificateFiles {
                certificate: self.absolute(&table.certificate_file),
                key: self.absolute(&table.certificate_key_file),
            },
            user_certificate: CertificateFiles {
                certificate: self.absolute(&table.user_certificate_file),
                key: self.absolute(&table.user_certificate_key_file),
            },
            root_squash: table.root_squash,
            networks,
            session,
            capability,
        })
    }

    fn defaults(&self, table: DefaultsTable, iods: usize) -> Checked<Defaults> {
        let ssize = self.strip_size(&table.ssize, iods)?;
        let pcount = self.index_or_any(&table.pcount, 1, iods as i64)?;
        let slots = pcount.unwrap_or(iods as u32);
        Ok(Defaults {
            ssize,
            pcount,
            base: self.index_or_any(&table.base, 0, iods as i64 - 1)?,
            distribution: self.distribution(&table.distribution, ssize, slots)?,
            durability: table.durability,
            commit_interval: self.within(&table.commit_interval_s, DEADLINE)?,
            data_deadline: self.within(&table.data_deadline_s, DEADLINE)?,
            metadata_deadline: self.within(&table.metadata_deadline_s, DEADLINE)?,
            status_deadline: self.within(&table.status_deadline_s, DEADLINE)?,
            lease: self.within(&table.lease_s, DEADLINE)?,
            cache_lease: self.cache_lease(&table)?,
            checksums: table.checksums,
        })
    }

    /// Whoever changes something waits for the lease of a mount that does not answer, and must not give up first:
    /// a shorter deadline makes the lease shorter, too.
    fn cache_lease(&self, table: &DefaultsTable) -> Checked<Duration> {
        let lease = self.within(&table.cache_lease_s, DEADLINE)?;
        Ok(lease.min(table.metadata_deadline_s.get_ref().0 / 2))
    }

    fn strip_size(&self, ssize: &Spanned<ByteSize>, iods: usize) -> Checked<ByteSize> {
        let stripe = ssize.get_ref().0.checked_mul(iods as u64);
        match stripe {
            Some(0) => self.refuse(ssize, "ssize = 0 holds no byte; write a size such as \"64K\""),
            Some(bytes) if bytes <= FILE_SIZE_MAX => Ok(*ssize.get_ref()),
            _ => self.refuse(
                ssize,
                format!(
                    "a stripe of {iods} strips of {} is longer than a file can be; \
                write a smaller ssize",
                    ssize.get_ref()
                ),
            ),
        }
    }

    /// The strip size is a key of its own, so that there is one place to look it up and change it.
    fn distribution(&self, text: &Spanned<String>, ssize: ByteSize, slots: u32) -> Checked<Scheme> {
        if text.get_ref().contains("ssize") {
            let reason = "the distribution names a strip size; write it once, in the key ssize";
            return self.refuse(text, reason);
        }
        let scheme: Scheme = match text.get_ref().parse() {
            Ok(scheme) => scheme,
            Err(error) => return self.refuse(text, format!("{error}; {DISTRIBUTIONS}")),
        };
        let scheme = scheme.with_ssize(ssize.0);
        match scheme.over(slots) {
            Ok(_) => Ok(scheme),
            Err(error) => self.refuse(text, format!("{error}; {DISTRIBUTIONS}")),
        }
    }

    /// -1, as in PVFS 1, leaves the choice to the system.
    fn index_or_any(&self, value: &Spanned<i64>, least: i64, most: i64) -> Checked<Option<u32>> {
        match *value.get_ref() {
            -1 => Ok(None),
            given if (least..=most).contains(&given) => Ok(Some(given as u32)),
            given => self.refuse(
                value,
                format!(
                    "{given} does not fit this cluster; write {least} to {most}, \
                or -1 to leave the choice to pvfs"
                ),
            ),
        }
    }

    fn within<const UNIT_MS: u64>(
        &self,
        time: &Spanned<Time<UNIT_MS>>,
        limits: (Duration, Duration),
    ) -> Checked<Duration> {
        let (least, most) = limits;
        let given = time.get_ref().0;
        if (least..=most).contains(&given) {
            return Ok(given);
        }
        let [given, least, most] = [given, least, most].map(format_duration);
        self.refuse(time, format!("{given} is out of range; write {least} to {most}"))
    }

    fn servers(&self, tables: Vec<ServerTable>) -> Checked<Vec<Server>> {
        tables.into_iter().map(|table| self.server(table)).collect()
    }

    fn server(&self, table: ServerTable) -> Checked<Server> {
        self.name(&table.name)?;
        let name = table.name.into_inner();
        if table.listen.get_ref().is_empty() {
            return self.refuse(
                &table.listen,
                format!("{name} listens nowhere; write listen = [\"tcp://HOST:PORT\"]"),
            );
        }
        for address in table.listen.get_ref() {
            self.reachable(address)?;
        }
        if table.store.get_ref().as_os_str().is_empty() {
            return self
                .refuse(&table.store, format!("{name} has an empty store; name a directory"));
        }
        let listen = table.listen.into_inner().into_iter().map(Spanned::into_inner).collect();
        Ok(Server { name, listen, store: self.absolute(table.store.get_ref()) })
    }

    /// Clients connect to what daemons listen on, so neither "any address" nor "any port" will do.
    fn reachable(&self, address: &Spanned<Endpoint>) -> Checked<()> {
        match address.get_ref() {
            Endpoint::Tcp { port: 0, .. } => self.refuse(
                address,
                "port 0 is no address to connect to; write the port clients will use",
            ),
            Endpoint::Tcp { host, .. }
                if host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified()) =>
            {
                self.refuse(
                    address,
                    format!(
                        "{host} is no address to connect to; \
                write the name or address clients reach this host by"
                    ),
                )
            }
            _ => Ok(()),
        }
    }

    fn agent(&self, table: AgentTable) -> Checked<Agent> {
        let socket = self.absolute(table.socket.get_ref());
        if socket.as_os_str().len() > UNIX_PATH_BYTES_MAX {
            return self.refuse(
                &table.socket,
                format!(
                    "the socket path {} is longer than {UNIX_PATH_BYTES_MAX} bytes; \
                choose a shorter directory",
                    socket.display()
                ),
            );
        }
        Ok(Agent { socket, uids: table.uids })
    }

    /// Names end up in unit names, file names and tables.
    fn name(&self, name: &Spanned<String>) -> Checked<()> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let text = name.get_ref();
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if starts_well && text.len() <= NAME_BYTES_MAX && text.bytes().all(allowed) {
            return Ok(());
        }
        self.refuse(
            name,
            format!(
                "\"{text}\" is not a name; use up to {NAME_BYTES_MAX} letters, digits, dots, \
                dashes and underscores, a letter or digit first"
            ),
        )
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }
}

/// What a daemon wants for itself: where the text says so, what kind of thing, and which.
fn claim<T>(
    what: &'static str,
    value: &Spanned<T>,
    text: impl Fn(&T) -> String,
) -> (usize, &'static str, String) {
    (value.span().start, what, text(value.get_ref()))
}

/// As many as one file can have.
const IODS_MAX: usize = SLOTS_MAX as usize;
const DISTRIBUTIONS: &str =
    "write simple_stripe, basic, two_d:groups=2,factor=256 or varstrip:0=32K,1=64K";
const NAME_BYTES_MAX: usize = 64;
const SECOND: Duration = Duration::from_secs(1);
/// Shorter ones fail on a busy machine by themselves; longer ones are no promise to anybody.
const DEADLINE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));
/// A stolen token is of use for that long.
const SESSION: (Duration, Duration) =
    (Duration::from_secs(60), Duration::from_secs(30 * 24 * 3600));
