//! An agent's word on which client processes live.

use pvfs_net::service::{Request, Response};
use pvfs_wire::ops::{Done, VOUCHED_MAX, Vouch};
use pvfs_wire::token::SessionRights;
use pvfs_wire::{Errno, Wire};

use super::Manager;

impl Manager {
    /// Takes the word of whoever holds the cluster key.
    pub(super) fn vouch(&self, request: &Request<'_>) -> Response {
        match self.try_vouch(request) {
            Ok(()) => Response::done::<Vouch>(&Done {}),
            Err(status) => Response::failed(status),
        }
    }

    fn try_vouch(&self, request: &Request<'_>) -> Result<(), Errno> {
        let session = request.session.ok_or(Errno::EACCES)?;
        let word = Vouch::from_bytes(request.body).map_err(|_| Errno::EPROTO)?;
        if !session.rights.any(SessionRights::DAEMON) {
            return Err(Errno::EPERM);
        }
        if word.living.len().max(word.gone.len()) > VOUCHED_MAX {
            return Err(Errno::EINVAL);
        }
        let (connection, now_ns) = (request.peer.connection, self.clock.monotonic_ns());
        self.clients().vouched(connection, &word.living, &word.gone, now_ns);
        Ok(())
    }
}
