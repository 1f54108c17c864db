//! The CA of a cluster in mode `tls`: made once, then signs what nodes and users show.
//!
//! ```text
//!   cluster.ca.key   signs          stays where it was made, off the nodes
//!   cluster.ca.pem   is believed    copied to every node
//!   node.pem, .key   daemons        names every host of the cluster, so that all nodes may show the same one
//!   user.pem, .key   clients        names nobody, and cannot stand for a daemon
//! ```

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pvfs_config::{CertificateFiles, Cluster, Endpoint, write_new};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::Serialize;

use crate::cli::exit::{Exit, Failure};

/// A file that a cluster in mode `tls` needs.
#[derive(Clone, Debug, Serialize)]
pub struct Made {
    /// Where it lies.
    pub path: PathBuf,
    /// Whether it was written just now; one that is there is in use somewhere and stays.
    pub is_new: bool,
}

/// Makes what is missing of a cluster's certificates and keys.
pub fn certify(cluster: &Cluster) -> Result<Vec<Made>, Failure> {
    let security = &cluster.security;
    let (ca, key) = (&security.ca_file, security.ca_file.with_extension("key"));
    let node = is_there(&security.certificate)?;
    let user = is_there(&security.user_certificate)?;
    let mut made = Vec::new();
    let issuer = match (ca.exists(), key.exists()) {
        (false, false) if node || user => return Err(without_ca(ca)),
        (false, false) => Some(found(cluster, ca, &key)?),
        (false, true) => return Err(half(ca, &key)),
        (true, false) if node && user => None,
        (true, false) => return Err(without_key(ca, &key)),
        (true, true) => Some(take_up(ca, &key)?),
    };
    let is_new = issuer.as_ref().is_some_and(|issuer| issuer.is_new);
    made.push(Made { path: ca.clone(), is_new });
    made.push(Made { path: key, is_new });
    let server = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let pairs = [
        (&security.certificate, node, names(cluster), "pvfs node", &server[..], 0o600),
        (&security.user_certificate, user, Vec::new(), "pvfs user", &server[1..], 0o644),
    ];
    for (files, is_there, names, title, purposes, key_mode) in pairs {
        if let (false, Some(issuer)) = (is_there, &issuer) {
            let mut params = named(names, title)?;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = purposes.to_vec();
            params.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate().map_err(failed)?;
            let certificate = params.signed_by(&key, &issuer.issuer).map_err(failed)?;
            write(&files.key, &key.serialize_pem(), key_mode)?;
            write(&files.certificate, &certificate.pem(), 0o644)?;
        }
        for path in [&files.certificate, &files.key] {
            made.push(Made { path: path.clone(), is_new: !is_there });
        }
    }
    Ok(made)
}

/// Who signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    is_new: bool,
}

/// A new CA.
fn found(cluster: &Cluster, ca: &Path, key: &Path) -> Result<Authority, Failure> {
    let mut params = named(Vec::new(), &format!("pvfs {}", cluster.filesystem().name))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let pair = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&pair).map_err(failed)?;
    write(key, &format!("{CA_KEY_HEAD}{}", pair.serialize_pem()), 0o600)?;
    write(ca, &certificate.pem(), 0o644)?;
    Ok(Authority { issuer: Issuer::new(params, pair), is_new: true })
}

/// The CA that is there.
fn take_up(ca: &Path, key: &Path) -> Result<Authority, Failure> {
    let read = |path: &Path| {
        let cannot =
            |error: io::Error| Failure::io(&format!("cannot read {}", path.display()), &error);
        std::fs::read_to_string(path).map_err(cannot)
    };
    let of = |error: rcgen::Error| {
        let (ca, key) = (ca.display(), key.display());
        Failure::new(Exit::Usage, format!("{ca} and {key} cannot sign certificates: {error}"))
    };
    let pair = KeyPair::from_pem(&read(key)?).map_err(of)?;
    let issuer = Issuer::from_ca_cert_pem(&read(ca)?, pair).map_err(of)?;
    Ok(Authority { issuer, is_new: false })
}

fn named(names: Vec<String>, title: &str) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, title);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begin = date_time_ymd(1970, 1, 1);
    params.not_before = begin + now.saturating_sub(CLOCK_SKEW);
    params.not_after = begin + now + LIFETIME;
    Ok(params)
}

/// By whatever daemons are reached: their hosts, and this one's name for itself.
fn names(cluster: &Cluster) -> Vec<String> {
    let servers = cluster.managers.iter().chain(&cluster.iods);
    let hosts = servers.flat_map(|server| &server.listen).filter_map(Endpoint::host);
    let names: BTreeSet<&str> = hosts.chain(["localhost"]).collect();
    names.into_iter().map(str::to_owned).collect()
}

fn is_there(files: &CertificateFiles) -> Result<bool, Failure> {
    match (files.certificate.exists(), files.key.exists()) {
        (true, false) => Err(half(&files.key, &files.certificate)),
        (false, true) => Err(half(&files.certificate, &files.key)),
        (both, _) => Ok(both),
    }
}

fn half(missing: &Path, there: &Path) -> Failure {
    let (missing, there) = (missing.display(), there.display());
    let sentence = format!("{there} is there, but {missing} is not; restore it, or move both away");
    Failure::new(Exit::Usage, sentence)
}

fn without_ca(ca: &Path) -> Failure {
    let sentence = format!(
        "there are certificates, but not {}, whose key has signed them; restore it, or move them away",
        ca.display()
    );
    Failure::new(Exit::Usage, sentence)
}

fn without_key(ca: &Path, key: &Path) -> Failure {
    let sentence = format!(
        "{} is there, but not its key {}, so that nothing can be signed; run this where the key is kept",
        ca.display(),
        key.display()
    );
    Failure::new(Exit::Usage, sentence)
}

fn failed(error: rcgen::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot make a certificate: {error}"))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    write_new(path, text, mode).map_err(|error| match error.kind() {
        // Somebody else makes them, too.
        ErrorKind::AlreadyExists => {
            Failure::new(Exit::Usage, format!("{} is there already; keep it", path.display()))
        }
        _ => Failure::io(&format!("cannot write {}", path.display()), &error),
    })
}

/// Ten years.
const LIFETIME: Duration = Duration::from_secs(3653 * 24 * 3600);

/// Nodes whose clocks are late take a new certificate all the same.
const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

const CA_KEY_HEAD: &str = "\
Signs the certificates of the cluster. Keep it off the nodes: whoever has it can be any of them.
";
