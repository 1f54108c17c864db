//! `pvfs genconfig`: a cluster file from host lists; as `mkmgrconf` as well.

use crate::authority::{Made, certify};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use pvfs_config::{ByteSize, Cluster, ClusterKey, IpNet, KeyError, Recipe, SecurityMode};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf, absolute};

/// Write a cluster file from host lists
///
/// The file names the manager and the iods, in the order of their ids, with every other key at its
/// default and explained. With -o it is written to a file, and a new cluster key beside it;
/// without, it is printed, and no key is made. Copy both to every node: the file readable by all,
/// the key by the daemons alone. With --mode tls, a CA, a certificate for the nodes and one for
/// users are made as well: copy all of them but the CA's key, node.key readable by the daemons
/// alone, and keep the CA's key elsewhere.
///
/// Host lists are names with commas between them; node{1-8,10} stands for node1 to node8 and
/// node10, node{01-16} keeps the zeros. Quote them: braces mean something to the shell.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The manager's host
    #[arg(long, value_name = "HOST", default_value = "localhost", help_heading = "Hosts")]
    pub manager: String,
    /// Host list of the iods
    #[arg(long, value_name = "HOSTS", default_value = "localhost", help_heading = "Hosts")]
    pub iods: String,
    /// Iods on each of these hosts; their ids go round the hosts
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "Hosts")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub iods_per_host: u32,
    /// The manager's TCP port
    #[arg(long, value_name = "PORT", default_value_t = 7000, help_heading = "Hosts")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// The iods' TCP port; several on one host take the ports that follow
    #[arg(long, value_name = "PORT", default_value_t = 7001, help_heading = "Hosts")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub iod_port: u16,
    /// Directory of the stores, on each host
    #[arg(long, value_name = "DIR", default_value = "/var/lib/pvfs", help_heading = "Hosts")]
    pub store: PathBuf,
    /// Directory of Unix sockets, the agent's too, for clients on the same node as a daemon [default: TCP only]
    #[arg(long, value_name = "DIR", help_heading = "Hosts")]
    pub sockets: Option<PathBuf>,
    /// Name of the file system
    #[arg(long, value_name = "NAME", default_value = "pvfs", help_heading = "File system")]
    pub name: String,
    /// Id of the file system, 1 or more; different for those that a node uses together [default: drawn by lot]
    #[arg(long, value_name = "NUMBER", help_heading = "File system")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub id: Option<u32>,
    /// Strip size of new files [default: 64K]
    #[arg(short, long, value_name = "SIZE", help_heading = "File system")]
    pub ssize: Option<ByteSize>,
    /// How connections are proven: psk (by the cluster key), tls (inside of TLS, too) or none (tests on one machine)
    #[arg(long, visible_alias = "security", default_value_t = SecurityMode::Psk, help_heading = "Security")]
    pub mode: SecurityMode,
    /// Networks clients may connect from, such as 10.0.0.0/8 [default: all]
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', help_heading = "Security")]
    pub networks: Vec<IpNet>,
    /// The cluster key, relative to the file
    #[arg(long, value_name = "FILE", default_value = "cluster.key", help_heading = "Security")]
    pub key_file: PathBuf,
    /// Write to this file, and a new key beside it (for tls, certificates too), instead of printing
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Replace the file if it is there; keys and certificates that are there are always kept
    #[arg(short, long, requires = "output")]
    pub force: bool,
}

const EXAMPLES: &str = "\
Examples:
  A manager and nine iods, with the key, ready to copy to all nodes:
    pvfs genconfig --manager node0 --iods 'node{1-8,10}' -o cluster.toml
  The same, with TLS on the network:
    pvfs genconfig --mode tls --manager node0 --iods 'node{1-8,10}' -o cluster.toml
  Two iods on each of four hosts, Unix sockets too, clients from one network:
    pvfs genconfig --manager n1 --iods 'n{1-4}' --iods-per-host 2 --sockets /run/pvfs \\
      --networks 10.1.0.0/16 -o /etc/pvfs/cluster.toml
  Just look:
    pvfs genconfig --iods-per-host 4";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.output {
        None => print(&args.cluster(Path::new("cluster.toml"))?, context),
        Some(output) => {
            let path = absolute(output).map_err(|error| cannot_write(output, &error))?;
            write(&args.cluster(&path)?, &path, args.force, context)
        }
    }
}

impl Args {
    fn cluster(&self, path: &Path) -> Result<Cluster, Failure> {
        let uuid = pvfs_config::random_uuid()?;
        let recipe = Recipe {
            filesystem: self.name.clone(),
            id: self.id.unwrap_or_else(|| pvfs_config::id_of(&uuid)),
            uuid: Some(uuid),
            mode: self.mode,
            key_file: self.key_file.clone(),
            networks: self.networks.clone(),
            ssize: self.ssize,
            manager: self.manager.clone(),
            iods: self.iods.clone(),
            iods_per_host: self.iods_per_host,
            manager_port: self.port,
            iod_port: self.iod_port,
            store: self.store.clone(),
            sockets: self.sockets.clone(),
            agent_socket: self.sockets.as_ref().map(|dir| dir.join("agent.sock")),
        };
        recipe.cluster(path).map_err(|error| Failure::new(Exit::Usage, said_of_flags(&error)))
    }
}

/// What the check of the file says, without a line of a file that is not there yet.
fn said_of_flags(error: &pvfs_config::ConfigError) -> String {
    match error {
        pvfs_config::ConfigError::Invalid { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

fn print(cluster: &Cluster, context: &Context) -> Result<(), Failure> {
    let text = cluster.to_toml();
    context.report(&json!({ "text": text }), text.trim_end())
}

fn write(cluster: &Cluster, path: &Path, force: bool, context: &Context) -> Result<(), Failure> {
    write_file(path, &cluster.to_toml(), force)?;
    let key_file =
        (cluster.security.mode != SecurityMode::None).then_some(&cluster.security.key_file);
    let key_is_new = key_file.map(|path| write_key(path)).transpose()?;
    let certificates = match cluster.security.mode {
        SecurityMode::Tls => certify(cluster)?,
        SecurityMode::Psk | SecurityMode::None => Vec::new(),
    };
    if context.json() {
        return context.value(&json!({
            "config": path,
            "key_file": key_file,
            "key_is_new": key_is_new,
            "certificates": certificates,
            "iods": cluster.iods.len(),
            "map_version": cluster.map_version(),
        }));
    }
    context.note(format!("wrote {}", path.display()));
    match (key_file, key_is_new) {
        (Some(key), Some(true)) => context.note(format!("wrote {}", key.display())),
        (Some(key), _) => context.note(format!("kept the key {}", key.display())),
        (None, _) => {}
    }
    for Made { path, is_new } in certificates {
        context.note(format!("{} {}", if is_new { "wrote" } else { "kept" }, path.display()));
    }
    Ok(())
}

fn write_file(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(!force);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let sentence = format!("{} is there already; replace it with --force", path.display());
            Failure::new(Exit::Usage, sentence)
        }
        _ => cannot_write(path, &error),
    })
}

/// Whether a new key was written; one that is there is in use somewhere and stays.
fn write_key(path: &Path) -> Result<bool, Failure> {
    match ClusterKey::generate()?.write_new(path) {
        Ok(()) => Ok(true),
        Err(KeyError::Exists { .. }) => Ok(ClusterKey::read(path).map(|_| false)?),
        Err(error) => Err(error.into()),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::io(&format!("cannot write {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use pvfs_net::tls::{Acceptor, Connector};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn genconfig(flags: &[&str], output: &Path) -> Result<(), Failure> {
        let output = output.to_str().unwrap();
        let line =
            ["pvfs", "genconfig", "--quiet", "-o", output].into_iter().chain(flags.iter().copied());
        let cli = Cli::try_parse_from(line).unwrap();
        match cli.command {
            Command::Genconfig(args) => run(&args, &Context::new(&cli.global)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_file_and_the_key_it_writes_can_be_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.toml");
        genconfig(&["--manager", "node0", "--iods", "node{1-8,10}", "-s", "1M"], &path).unwrap();
        let cluster = Cluster::load(&path).unwrap();
        assert_eq!(cluster.iods.len(), 9);
        assert_eq!(cluster.iods[8].listen[0].to_string(), "tcp://node10:7001");
        assert_eq!(cluster.defaults.ssize, ByteSize(1 << 20));
        assert!(cluster.filesystem().uuid.is_some());
        assert!(!cluster.security.read_keys().unwrap().is_empty());
    }

    #[test]
    fn nothing_is_replaced_unasked_and_the_key_never() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.toml");
        genconfig(&[], &path).unwrap();
        let key = fs::read_to_string(directory.path().join("cluster.key")).unwrap();
        let said = genconfig(&["--id", "2"], &path).unwrap_err();
        assert!(said.sentence().ends_with("is there already; replace it with --force"));
        genconfig(&["--id", "2", "--force"], &path).unwrap();
        assert_eq!(Cluster::load(&path).unwrap().filesystem().id, 2);
        assert_eq!(fs::read_to_string(directory.path().join("cluster.key")).unwrap(), key);
    }

    const CERTIFICATES: [(&str, u32); 6] = [
        ("cluster.ca.pem", 0o644),
        ("cluster.ca.key", 0o600),
        ("node.pem", 0o644),
        ("node.key", 0o600),
        ("user.pem", 0o644),
        ("user.key", 0o644),
    ];

    fn read_all(directory: &Path) -> Vec<Vec<u8>> {
        CERTIFICATES.map(|(name, _)| fs::read(directory.join(name)).unwrap()).into()
    }

    #[test]
    fn the_certificates_it_writes_are_what_daemons_and_clients_take() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.toml");
        let hosts = ["--security", "tls", "--manager", "fd00::1", "--iods", "n{1-2},10.0.0.1"];
        genconfig(&hosts, &path).unwrap();
        for (name, mode) in CERTIFICATES {
            let made = fs::metadata(directory.path().join(name)).unwrap();
            assert_eq!(made.permissions().mode() & 0o777 & !mode, 0, "{name} is open to others");
        }
        let security = Cluster::load(&path).unwrap().security;
        let node = security.read_node_certificates().unwrap();
        for host in ["10.0.0.1", "n1", "n2", "fd00::1", "localhost"] {
            Acceptor::new(&node, [host]).unwrap_or_else(|error| panic!("{error}"));
        }
        let said = Acceptor::new(&node, ["n3"]).unwrap_err().to_string();
        assert!(said.contains("does not name n3"), "{said}");
        fs::remove_file(&security.certificate.key).unwrap();
        let user = security.read_certificates().unwrap();
        Connector::new(&user).unwrap();
        let said = Acceptor::new(&user, ["n1"]).unwrap_err().to_string();
        assert!(said.contains("is one of users, and cannot stand for a daemon"), "{said}");
        let key = fs::read_to_string(directory.path().join("cluster.ca.key")).unwrap();
        assert!(key.contains("Keep it off the nodes"));
    }

    #[test]
    fn certificates_are_never_replaced_and_new_ones_are_of_the_same_ca() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.toml");
        genconfig(&["--mode", "tls"], &path).unwrap();
        let before = read_all(directory.path());
        genconfig(&["--mode", "tls", "--force"], &path).unwrap();
        assert_eq!(read_all(directory.path()), before);
        for name in ["node.pem", "node.key"] {
            fs::remove_file(directory.path().join(name)).unwrap();
        }
        genconfig(&["--mode", "tls", "--force", "--iods", "n1"], &path).unwrap();
        let after = read_all(directory.path());
        assert_eq!((&after[..2], &after[4..]), (&before[..2], &before[4..]));
        let node = Cluster::load(&path).unwrap().security.read_node_certificates().unwrap();
        Acceptor::new(&node, ["n1"]).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn what_is_there_by_halves_is_not_built_on() {
        for (missing, sentence) in [
            (&["cluster.ca.key", "node.pem", "node.key"][..], "so that nothing can be signed"),
            (&["cluster.ca.pem"], "cluster.ca.key is there, but"),
            (&["cluster.ca.pem", "cluster.ca.key"], "there are certificates, but not"),
            (&["node.key"], "node.pem is there, but"),
            (&["user.pem"], "user.key is there, but"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("cluster.toml");
            genconfig(&["--mode", "tls"], &path).unwrap();
            missing.iter().for_each(|name| fs::remove_file(directory.path().join(name)).unwrap());
            let said = genconfig(&["--mode", "tls", "--force"], &path).unwrap_err();
            assert!(said.sentence().contains(sentence), "{}", said.sentence());
            assert_eq!(said.exit(), Exit::Usage);
            assert!(missing.iter().all(|name| !directory.path().join(name).exists()));
        }
        // The key of the CA is kept elsewhere, and nothing is to be signed.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.toml");
        genconfig(&["--mode", "tls"], &path).unwrap();
        fs::remove_file(directory.path().join("cluster.ca.key")).unwrap();
        genconfig(&["--mode", "tls", "--force"], &path).unwrap();
    }

    #[test]
    fn wrong_flags_are_refused_before_anything_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster.toml");
        for (flags, sentence) in [
            (["--iods", "n{1-"], "is not closed"),
            (["--iods", "n{2-1}"], "is not a range"),
            (["--manager", "a,b"], "stands for 2 manager hosts"),
            (["--mode", "none"], "mode = \"none\" trusts everybody"),
            (["--name", "a b"], "is not a name"),
        ] {
            let hosts = ["--iods", "n1"].iter().filter(|_| flags[0] != "--iods");
            let flags: Vec<&str> = flags.iter().chain(hosts).copied().collect();
            let said = genconfig(&flags, &path).unwrap_err();
            assert!(said.sentence().contains(sentence), "{}", said.sentence());
            assert_eq!(said.exit(), Exit::Usage);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let said = genconfig(&[], Path::new("/nowhere/cluster.toml")).unwrap_err();
        assert!(said.sentence().starts_with("cannot write /nowhere/cluster.toml: "));
    }
}
