//! Certificates made ready for connections, and looked at before anybody else refuses them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pvfs_config::{CertificateError, Certificates, Pem};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
};

use super::fault::Defect;
use super::{Session, TlsFault};

/// Begins TLS as who connects.
#[derive(Clone, Debug)]
pub struct Connector(pub(super) Arc<ClientConfig>);

/// Begins TLS as who accepts.
#[derive(Clone, Debug)]
pub struct Acceptor(pub(super) Arc<ServerConfig>);

/// Why TLS cannot be spoken with these certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsSetupError {
    /// A file cannot be read, or may be read by too many.
    #[error(transparent)]
    Files(#[from] CertificateError),
    /// It is not what it should be.
    #[error("{} holds no {what} in PEM form; copy it from where pvfs genconfig --mode tls wrote it", path.display())]
    NotPem {
        /// What was looked for.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A certificate and its key are of different pairs.
    #[error("the key {} is not that of the certificate {}; copy both again", key.display(), certificate.display())]
    Mismatch {
        /// The key.
        key: PathBuf,
        /// The certificate.
        certificate: PathBuf,
    },
    /// Nobody would take it.
    #[error("the certificate {} {defect}", path.display())]
    Defective {
        /// The certificate.
        path: PathBuf,
        /// What is wrong with it.
        defect: Defect,
    },
    /// The daemon could not be reached by one of its addresses.
    #[error("the certificate {} does not name {host}, where this daemon listens; make one that does \
             (pvfs genconfig --mode tls)", path.display())]
    Nameless {
        /// The certificate.
        path: PathBuf,
        /// The host.
        host: String,
    },
}

impl Connector {
    /// With what a client shows.
    pub fn new(certificates: &Certificates) -> Result<Self, TlsSetupError> {
        let trust = Trust::new(certificates)?;
        trust.look_at_own(certificates)?;
        Self::unchecked(certificates, &trust)
    }

    pub(super) fn unchecked(
        certificates: &Certificates,
        trust: &Trust,
    ) -> Result<Self, TlsSetupError> {
        let config = ClientConfig::builder_with_provider(trust.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has suites of TLS 1.3")
            .with_webpki_verifier(trust.servers.clone())
            .with_client_auth_cert(trust.chain.clone(), key(&certificates.key)?);
        let mut config = config.map_err(|error| unusable(certificates, &error))?;
        // A connection is made seldom, and then both certificates are to be looked at.
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// The beginning of a connection to the daemon on `host`, a name or an address.
    pub fn begin(&self, host: &str) -> io::Result<Session> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| TlsFault::Theirs(Defect::Name))?;
        let connection = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        Ok(Session::new(connection.into()))
    }
}

impl Acceptor {
    /// With what a daemon shows that clients reach by `hosts`.
    pub fn new<'a>(
        certificates: &Certificates,
        hosts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TlsSetupError> {
        let trust = Trust::new(certificates)?;
        trust.look_at_own(certificates)?;
        hosts.into_iter().try_for_each(|host| trust.look_for(host, certificates))?;
        Self::unchecked(certificates, &trust)
    }

    pub(super) fn unchecked(
        certificates: &Certificates,
        trust: &Trust,
    ) -> Result<Self, TlsSetupError> {
        let config = ServerConfig::builder_with_provider(trust.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has suites of TLS 1.3")
            .with_client_cert_verifier(trust.clients.clone())
            .with_single_cert(trust.chain.clone(), key(&certificates.key)?);
        let mut config = config.map_err(|error| unusable(certificates, &error))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    /// The beginning of a connection that was accepted.
    pub fn begin(&self) -> io::Result<Session> {
        let connection = ServerConnection::new(self.0.clone()).map_err(io::Error::other)?;
        Ok(Session::new(connection.into()))
    }
}

/// Whom both ends believe, and what this one shows.
pub(super) struct Trust {
    pub(super) provider: Arc<CryptoProvider>,
    clients: Arc<dyn ClientCertVerifier>,
    pub(super) servers: Arc<WebPkiServerVerifier>,
    chain: Vec<CertificateDer<'static>>,
}

impl Trust {
    pub(super) fn new(certificates: &Certificates) -> Result<Self, TlsSetupError> {
        let Certificates { ca, certificate, .. } = certificates;
        let mut roots = RootCertStore::empty();
        for root in chain(ca)? {
            let added = roots.add(root);
            added.map_err(|_| not_pem("certificate of a CA", ca))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(provider()));
        let clients =
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
        Ok(Self {
            clients: clients.expect("there are roots"),
            servers: servers.expect("there are roots"),
            chain: chain(certificate)?,
            provider,
        })
    }

    /// What every other end will find wrong, found here where it can be put right.
    fn look_at_own(&self, certificates: &Certificates) -> Result<(), TlsSetupError> {
        let (own, between) = self.chain.split_first().expect("it was not empty");
        let looked = self.clients.verify_client_cert(own, between, UnixTime::now());
        looked.map(drop).map_err(|error| defective(certificates, &error))
    }

    fn look_for(&self, host: &str, certificates: &Certificates) -> Result<(), TlsSetupError> {
        let path = &certificates.certificate.path;
        let nameless = || TlsSetupError::Nameless { path: path.clone(), host: host.to_owned() };
        let (own, between) = self.chain.split_first().expect("it was not empty");
        let name = ServerName::try_from(host).map_err(|_| nameless())?;
        let looked = self.servers.verify_server_cert(own, between, &name, &[], UnixTime::now());
        looked.map(drop).map_err(|error| match defective(certificates, &error) {
            TlsSetupError::Defective { defect: Defect::Name, .. } => nameless(),
            other => other,
        })
    }
}

/// The ring of ciphers, the cheapest first: processors compute all of them, and none was broken.
fn provider() -> CryptoProvider {
    let cipher_suites = vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    CryptoProvider { cipher_suites, ..default_provider() }
}

fn chain(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, TlsSetupError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.text).collect();
    read.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| not_pem("certificate", pem))
}

fn key(pem: &Pem) -> Result<PrivateKeyDer<'static>, TlsSetupError> {
    PrivateKeyDer::from_pem_slice(&pem.text).map_err(|_| not_pem("private key", pem))
}

fn not_pem(what: &'static str, pem: &Pem) -> TlsSetupError {
    TlsSetupError::NotPem { what, path: pem.path.clone() }
}

/// Why certificate and key make no pair.
fn unusable(certificates: &Certificates, error: &Error) -> TlsSetupError {
    match error {
        Error::InconsistentKeys(_) => TlsSetupError::Mismatch {
            key: certificates.key.path.clone(),
            certificate: certificates.certificate.path.clone(),
        },
        Error::InvalidCertificate(_) => defective(certificates, error),
        _ => not_pem("private key that signs", &certificates.key),
    }
}

fn defective(certificates: &Certificates, error: &Error) -> TlsSetupError {
    let defect = match error {
        Error::InvalidCertificate(error) => error.into(),
        _ => Defect::Unusable,
    };
    TlsSetupError::Defective { path: certificates.certificate.path.clone(), defect }
}
