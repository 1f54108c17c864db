//! Why two ends do not talk to one another over TLS, in words for people.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Why a TLS connection never came to be, or ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TlsFault {
    /// What came is nothing that TLS begins with, or so says the other end.
    #[error(
        "it does not speak TLS; is [security] mode the same in the cluster file of every node?"
    )]
    Unspoken,
    /// TLS came where it is not spoken.
    #[error("it speaks TLS; is [security] mode the same in the cluster file of every node?")]
    Unwanted,
    /// The other end's certificate is not taken here.
    #[error("its certificate {0}")]
    Theirs(Defect),
    /// The certificate shown here is not taken by the other end.
    #[error("it does not take the certificate of this node, which {0}")]
    Ours(Defect),
    /// No version of TLS, cipher or signature is known to both.
    #[error("it does not speak TLS 1.3 as pvfs does; install matching versions")]
    Foreign,
    /// The other end gave up for another reason.
    #[error("it gave up: TLS alert {0:?}")]
    GivenUp(AlertDescription),
    /// Records that mean nothing, or were changed on their way.
    #[error("malformed TLS record")]
    Malformed,
}

/// What is wrong with a certificate, as the end of a sentence that begins with it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Defect {
    /// There is none.
    Missing,
    /// No CA that is known here has signed it.
    UnknownCa,
    /// It names others.
    Name,
    /// Its time is over, or has not come.
    Expired,
    /// It is one of users, and a daemon shows it.
    Purpose,
    /// Anything else.
    Unusable,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "was not shown; only programs of this cluster may connect",
            Self::UnknownCa => {
                "was not signed by this cluster's CA; is ca_file the same on every node?"
            }
            Self::Name => {
                "does not name the host by which it was reached; make one that does (pvfs genconfig \
                 --mode tls), or write the name it has into the cluster file"
            }
            Self::Expired => "has expired or is not valid yet; renew it, and check the clocks",
            Self::Purpose => "is one of users, and cannot stand for a daemon; copy node.pem there",
            Self::Unusable => "cannot be used; make another one (pvfs genconfig --mode tls)",
        })
    }
}

impl TlsFault {
    /// The fault that an error of a stream is about, if it is about one.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<&Error> for TlsFault {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => Self::Unspoken,
            Error::NoCertificatesPresented => Self::Theirs(Defect::Missing),
            Error::InvalidCertificate(error) => Self::Theirs(error.into()),
            Error::PeerIncompatible(_) => Self::Foreign,
            Error::AlertReceived(alert) => (*alert).into(),
            _ => Self::Malformed,
        }
    }
}

impl From<AlertDescription> for TlsFault {
    /// What the other end says of us.
    fn from(alert: AlertDescription) -> Self {
        match alert {
            AlertDescription::ProtocolVersion => Self::Unspoken,
            AlertDescription::HandshakeFailure => Self::Foreign,
            AlertDescription::CertificateRequired => Self::Ours(Defect::Missing),
            // One that another CA of the same name has signed shows in its signature only.
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                Self::Ours(Defect::UnknownCa)
            }
            AlertDescription::CertificateExpired => Self::Ours(Defect::Expired),
            AlertDescription::UnsupportedCertificate => Self::Ours(Defect::Purpose),
            AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
                Self::Ours(Defect::Unusable)
            }
            alert => Self::GivenUp(alert),
        }
    }
}

impl From<&CertificateError> for Defect {
    fn from(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownCa,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::Expired,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::Name
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::Purpose
            }
            _ => Self::Unusable,
        }
    }
}

impl From<TlsFault> for io::Error {
    fn from(fault: TlsFault) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault)
    }
}
