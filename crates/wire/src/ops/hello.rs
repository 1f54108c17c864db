//! The first words on a connection: versions, limits, then who is asking.
//!
//! ```text
//! client                                   daemon
//!   Hello {versions, client, nonce} ---------->
//!   <------------- Welcome {version, limits, nonce}
//!   Auth {token, proof} ---------------------->   once per session used on this connection
//!   <------------- Authed {session, proof}
//! ```

use crate::codec::Bytes;
use crate::record;

record! {
    /// Opens a connection. Sent in version 1's frame whatever the version, so it is always understood.
    pub struct Hello {
        /// Lowest wire version the client speaks.
        pub version_min: u8,
        /// Highest wire version the client speaks.
        pub version_max: u8,
        /// Random identity of the client process; opens, locks and reply records belong to it.
        pub client: u64,
        /// Which of the client's connections to this daemon.
        pub lane: u32,
        /// Grows each time this lane connects; requests of older incarnations are refused (F4).
        pub incarnation: u64,
        /// The file system wanted, 0 for any.
        pub fsid: u32,
        /// Makes the proofs good for this connection only.
        pub nonce: [u8; 32],
        /// For logs: program, version and host.
        pub software: String,
    }
}

record! {
    /// The daemon's side of the agreement.
    pub struct Welcome {
        /// The wire version both will speak.
        pub version: u8,
        /// The daemon's name in the cluster file.
        pub name: String,
        /// Changes when something done and not synced may be gone: from a loss of power at an iod's
        /// store to the next. An iod whose process was merely killed comes back with the same.
        pub boot: u64,
        /// Makes the proofs good for this connection only.
        pub nonce: [u8; 32],
        /// Whether the daemon still holds this client's opens and locks (true for a new client).
        pub lease_kept: bool,
        /// How long they are kept after the connections break.
        pub lease_ms: u32,
        /// Requests this connection may have outstanding.
        pub requests_max: u16,
        /// Body and data bytes that may be outstanding on this connection.
        pub outstanding_bytes_max: u32,
        /// Data bytes in one message.
        pub data_bytes_max: u32,
        /// The cluster map the daemon goes by.
        pub map_version: u32,
        /// The file system's generation, part of every handle (managers; 0 from iods).
        pub generation: u32,
    }
}

record! {
    /// Shows a session token and proves to own it.
    pub struct Auth {
        /// A [`crate::token::Session`], signed.
        pub token: Bytes,
        /// [`crate::token::client_proof`].
        pub proof: [u8; 32],
    }
}

record! {
    /// The session is believed.
    pub struct Authed {
        /// Its number on this connection, for the headers of requests.
        pub session: u32,
        /// [`crate::token::server_proof`]: the daemon is no impostor.
        pub proof: [u8; 32],
    }
}
