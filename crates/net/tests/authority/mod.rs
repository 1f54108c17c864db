//! Certificates for tests: a CA, and what it signs for daemons and users, in time and out of it.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::time::Duration;

use pvfs_config::{Certificates, Pem};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};

/// Who signs.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What a certificate is for.
#[derive(Clone, Copy, Eq, PartialEq)]
pub enum Purpose {
    /// A node with daemons.
    Node,
    /// Programs of users.
    User,
}

impl Authority {
    /// Another one than all before, of the same name.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// What a node with these names shows.
    pub fn node(&self, names: &[&str]) -> Certificates {
        self.issue(names, Purpose::Node, 2100)
    }

    /// What a program of a user shows.
    pub fn user(&self) -> Certificates {
        self.issue(&[], Purpose::User, 2100)
    }

    /// A certificate that is good until the beginning of a year.
    pub fn issue(&self, names: &[&str], purpose: Purpose, until: i32) -> Certificates {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        params.extended_key_usages = match purpose {
            Purpose::Node => {
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
            }
            Purpose::User => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certificates {
            ca: pem("ca.pem", self.0.pem()),
            certificate: pem("node.pem", certificate.pem()),
            key: pem("node.key", key.serialize_pem()),
        }
    }
}

/// A file that was never written.
pub fn pem(name: &str, text: String) -> Pem {
    Pem { path: name.into(), text: text.into_bytes() }
}

/// Longer than anything in these tests takes that does not wait for a limit.
pub const AT_ONCE: Duration = Duration::from_secs(3);
