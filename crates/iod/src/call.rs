//! A request on its way through the daemon: at once on the reactor, or later on a worker.

use std::sync::Arc;
use std::time::Duration;

use pvfs_net::service::{KeptData, Request, Response, Ticket};
use pvfs_wire::Errno;
use pvfs_wire::token::Session;

use crate::clock::Clock;
use crate::connection::Connection;

/// A request that is being looked at for the first time.
pub struct Call<'a> {
    request: Request<'a>,
    connection: Arc<Connection>,
}

/// What is needed to answer a request later.
pub struct Pending {
    /// The session, for its share of the workers; the client process where there is none. A user's processes
    /// and mounts have sessions of their own, and a mount has one for each of its users.
    pub client: u64,
    /// Where it came from.
    pub connection: Arc<Connection>,
    ticket: Ticket,
    /// When its sender stops waiting, by the monotonic clock.
    expires: Option<Duration>,
}

impl<'a> Call<'a> {
    /// A request that came over this connection.
    pub fn new(request: Request<'a>, connection: Arc<Connection>) -> Self {
        Self { request, connection }
    }

    /// Which operation it asks for.
    pub fn operation(&self) -> u16 {
        self.request.header.operation
    }

    /// The operation's record.
    pub fn body(&self) -> &'a [u8] {
        self.request.body
    }

    /// File data that came with it.
    pub fn data(&self) -> &'a [u8] {
        self.request.data
    }

    /// The data, for after the round.
    pub fn keep_data(&self) -> KeptData {
        self.request.keep_data()
    }

    /// Whether it came from a process of this node that can be handed descriptors.
    pub fn shares_node(&self) -> bool {
        self.request.peer.shares_node()
    }

    /// On whose behalf; every operation on objects needs one.
    pub fn session(&self) -> Result<&'a Session, Errno> {
        self.request.session.map(|session| &**session).ok_or(Errno::EACCES)
    }

    /// Where it came from.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What is needed to answer later; the request came at `now`.
    pub fn into_pending(self, now: Duration) -> Pending {
        let timeout_ms = self.request.header.timeout_ms;
        let timeout = Duration::from_millis(u64::from(timeout_ms));
        Pending {
            client: self.request.session.map_or(self.request.peer.client, |session| session.id),
            connection: self.connection,
            ticket: self.request.ticket,
            expires: (timeout_ms > 0).then(|| now + timeout),
        }
    }
}

impl Pending {
    /// Refuses to begin what nobody waits for any more.
    pub fn check_wanted(&self, clock: &dyn Clock) -> Result<(), Errno> {
        self.connection.check_present()?;
        match self.expires {
            Some(expires) if clock.monotonic() > expires => Err(Errno::ETIMEDOUT),
            _ => Ok(()),
        }
    }

    /// Answers.
    pub fn reply(self, response: Response) {
        self.ticket.reply(response);
    }
}
