//! The files of mode `tls`: certificates of the CA, of a node and of its users, with their keys.
//!
//! They are read here and understood where TLS is spoken. A node's key is refused when group or others could read
//! or change it: whoever holds it can stand for a daemon. A user's key only says that its owner is on a machine of
//! the cluster, and may be readable by all.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cluster::Security;

/// A certificate and its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateFiles {
    /// The certificate, and those between it and the CA's, if any.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What one end of a TLS connection shows, and whom it believes.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The CA's certificates.
    pub ca: Pem,
    /// Its own certificate.
    pub certificate: Pem,
    /// Its own key.
    pub key: Pem,
}

/// A file that was read.
#[derive(Clone)]
pub struct Pem {
    /// Where it lies.
    pub path: PathBuf,
    /// What it says.
    pub text: Vec<u8>,
}

/// Which files were there, and as of when: whoever has read them looks whether they are others by now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CertificateMarks([Option<Mark>; 5]);

/// Device, inode, size, and when the inode was changed last. Not the time of the text, which `cp -p` brings along, and
/// which a `chmod` that lets us read it leaves as it was.
type Mark = (u64, u64, u64, i64, i64);

/// Why a file of mode `tls` was refused.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Not there, or not readable by this user.
    #[error("cannot read the {what} {}: {source}; copy it here from where pvfs genconfig --mode tls wrote it", path.display())]
    Unreadable {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Group or others may read or change the key of a node.
    #[error("the key {0} has mode {mode:04o}, open to others than its owner; run chmod 600 {0}", path.display())]
    Exposed {
        /// The key.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

impl Security {
    /// What a daemon shows.
    pub fn read_node_certificates(&self) -> Result<Certificates, CertificateError> {
        let files = &self.certificate;
        let (key, mode) = read("key of this node's certificate", &files.key)?;
        if mode & 0o077 != 0 {
            return Err(CertificateError::Exposed { path: files.key.clone(), mode });
        }
        self.certificates("certificate of this node", files, key)
    }

    /// What a client shows: the node's certificate where its key is there and may be read, else the users'.
    pub fn read_certificates(&self) -> Result<Certificates, CertificateError> {
        match self.read_node_certificates() {
            Err(CertificateError::Unreadable { path, source, .. })
                if path == self.certificate.key && is_not_ours(&source) =>
            {
                let files = &self.user_certificate;
                let (key, _) = read("key of the users' certificate", &files.key)?;
                self.certificates("certificate of users", files, key)
            }
            read => read,
        }
    }

    /// What there is to read. To be asked before it is read, so that what is written meanwhile is found out next time.
    pub fn mark_certificates(&self) -> CertificateMarks {
        let pairs = [&self.certificate, &self.user_certificate];
        let [(node, node_key), (user, user_key)] = pairs.map(|pair| (&pair.certificate, &pair.key));
        CertificateMarks([&self.ca_file, node, node_key, user, user_key].map(|path| mark(path)))
    }

    fn certificates(
        &self,
        what: &'static str,
        files: &CertificateFiles,
        key: Pem,
    ) -> Result<Certificates, CertificateError> {
        let (certificate, _) = read(what, &files.certificate)?;
        let (ca, _) = read("certificate of the cluster's CA", &self.ca_file)?;
        Ok(Certificates { ca, certificate, key })
    }
}

impl std::fmt::Debug for Pem {
    /// Without the text, which may be a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.fmt(f)
    }
}

fn mark(path: &Path) -> Option<Mark> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.ctime(), file.ctime_nsec()))
}

fn is_not_ours(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

/// The text and the permission bits, both of the open file, so that it cannot be exchanged in between.
fn read(what: &'static str, path: &Path) -> Result<(Pem, u32), CertificateError> {
    let unreadable = |source| CertificateError::Unreadable { what, path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o7777;
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(unreadable)?;
    Ok((Pem { path: path.to_owned(), text }, mode))
}

/// Room for a hundred certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, SecurityMode};
    use crate::recipe::Recipe;
    use std::os::unix::fs::PermissionsExt;

    fn security(directory: &Path) -> Security {
        let recipe = Recipe { mode: SecurityMode::Tls, ..Recipe::default() };
        let cluster: Cluster = recipe.cluster(&directory.join("cluster.toml")).unwrap();
        cluster.security
    }

    fn write(directory: &Path, name: &str, mode: u32) {
        let path = directory.join(name);
        std::fs::write(&path, name).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_node_shows_its_own_certificate_and_others_the_users() {
        let directory = tempfile::tempdir().unwrap();
        let security = security(directory.path());
        for name in ["cluster.ca.pem", "user.pem", "user.key", "node.pem"] {
            write(directory.path(), name, 0o644);
        }
        let shown = security.read_certificates().unwrap();
        assert_eq!(
            (&shown.certificate.text[..], &shown.key.text[..]),
            (&b"user.pem"[..], &b"user.key"[..])
        );
        write(directory.path(), "node.key", 0o600);
        let shown = security.read_certificates().unwrap();
        assert_eq!(
            (&shown.certificate.text[..], &shown.key.text[..]),
            (&b"node.pem"[..], &b"node.key"[..])
        );
        assert_eq!(shown.ca.text, b"cluster.ca.pem");
        assert!(!format!("{shown:?}").contains("user.key"), "a key is printed");
    }

    #[test]
    fn a_nodes_key_that_others_may_read_is_refused_and_never_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let security = security(directory.path());
        for name in ["cluster.ca.pem", "user.pem", "user.key", "node.pem", "node.key"] {
            write(directory.path(), name, 0o640);
        }
        let key = directory.path().join("node.key").display().to_string();
        let sentence = format!(
            "the key {key} has mode 0640, open to others than its owner; run chmod 600 {key}"
        );
        assert_eq!(security.read_certificates().unwrap_err().to_string(), sentence);
        assert_eq!(security.read_node_certificates().unwrap_err().to_string(), sentence);
    }

    #[test]
    fn every_change_of_a_file_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let security = security(directory.path());
        let names = ["cluster.ca.pem", "node.pem", "node.key", "user.pem", "user.key"];
        for name in names {
            let absent = security.mark_certificates();
            write(directory.path(), name, 0o600);
            let there = security.mark_certificates();
            assert_ne!(absent, there, "{name} has come");
            assert_eq!(security.mark_certificates(), there, "{name} is as it was");
            let path = directory.path().join(name);
            let modified = path.metadata().unwrap().modified().unwrap();
            let other = directory.path().join("other");
            std::fs::write(&other, name).unwrap();
            std::fs::File::open(&other).unwrap().set_modified(modified).unwrap();
            std::fs::rename(&other, &path).unwrap();
            assert_ne!(security.mark_certificates(), there, "{name} is another, of the same time");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let security = security(directory.path());
        let said = |sentence: String, name: &str| {
            assert!(
                sentence.contains(&directory.path().join(name).display().to_string()),
                "{sentence}"
            );
            assert!(
                sentence.ends_with("; copy it here from where pvfs genconfig --mode tls wrote it")
            );
        };
        said(security.read_node_certificates().unwrap_err().to_string(), "node.key");
        said(security.read_certificates().unwrap_err().to_string(), "user.key");
        write(directory.path(), "user.key", 0o644);
        said(security.read_certificates().unwrap_err().to_string(), "user.pem");
        write(directory.path(), "user.pem", 0o644);
        said(security.read_certificates().unwrap_err().to_string(), "cluster.ca.pem");
    }
}
