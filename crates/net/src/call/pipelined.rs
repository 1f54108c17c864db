//! Small transfers of many at once: over pipes, where they do not wait for one another.
//!
//! A pipe takes the place of a lane, so what holds of lanes holds of it: when it breaks with a write unanswered, its
//! place is connected again with the next incarnation before anything else goes to that daemon.

use std::future::poll_fn;
use std::sync::Arc;

use pvfs_wire::token::Credential;
use pvfs_wire::{Bytes, DecodeError, Errno};

use super::pool::Way;
use super::{Call, Caller, Data, SentUnder, Server, Trouble};
use crate::lane::{Incoming, LaneError};
use crate::pipe::{Answer, MESSAGE_BYTES_MAX, Opened, Owner, Pipe, Together};
use crate::runtime::{Instant, Runtime};

impl Data<'_, '_> {
    /// Whether both ways are short enough for a pipe.
    pub(super) fn fits_a_pipe(&self) -> bool {
        let out: usize = self.out.iter().map(|piece| piece.len()).sum();
        let into: usize = self.into.iter().map(|piece| piece.len()).sum();
        out.max(into) <= MESSAGE_BYTES_MAX
    }
}

impl<R: Runtime> Server<R> {
    /// Closes the pipes of these operations, which have ended for good.
    pub fn part(&self, together: Together) {
        self.lock().part(together);
    }
}

impl<R: Runtime> Caller<R> {
    /// One exchange over a pipe; `None` when it has to go over a lane.
    pub(super) async fn attempt_pipelined(
        &self,
        call: &Call<'_, R>,
        deadline: Instant,
        sent: &mut SentUnder,
        together: Together,
        make: impl FnOnce(Option<Bytes>) -> Vec<u8>,
        data: &mut Data<'_, '_>,
    ) -> Result<Option<Incoming>, Trouble> {
        let credential = call.principal.credential(self.runtime.wall_s());
        let credential = credential.map_err(|errno| Trouble::Final(errno.into()))?;
        let (principal, expiry) = (call.principal.key, credential.expiry);
        let owner = Owner { principal, expiry, together };
        let (pipe, place) = loop {
            let Some(pipe) = self.pipe(call, owner, &credential).await? else { return Ok(None) };
            match pipe.place(call.changes) {
                Some(place) => break (pipe, place),
                None => pipe.room(&self.runtime).await,
            }
        };
        self.note_sent(call, sent)?;
        let header = self.header(call, pipe.session, deadline);
        let out = (data.out, self.data_checksum);
        let exchange = place.exchange(&self.runtime, header, call.shown, make, out);
        let answer = exchange.await.map_err(Trouble::Lane)?;
        if answer.header.status == Errno::ENOKEY {
            pipe.forget_shown();
        }
        if answer.header.status == Errno::EKEYREVOKED {
            pipe.break_off();
            let _ = call.principal.instead_of(&credential);
            return Err(Trouble::Lane(LaneError::Refused(Errno::EKEYREVOKED)));
        }
        deliver(&answer, data).map_err(|error| {
            pipe.break_off();
            Trouble::Lane(LaneError::from(error))
        })?;
        let Answer { header, body, .. } = answer;
        Ok(Some(Incoming { header, body, boot: pipe.boot, files: Vec::new() }))
    }

    /// The pipe of these exchanges. Whatever is broken is connected again first, as for a lane.
    async fn pipe(
        &self,
        call: &Call<'_, R>,
        owner: Owner,
        credential: &Arc<Credential>,
    ) -> Result<Option<Arc<Pipe<R::Stream>>>, Trouble> {
        loop {
            let way = poll_fn(|cx| call.server.lock().way(owner, cx.waker(), &self.runtime));
            match way.await {
                Way::Pipe(pipe) => return Ok(Some(pipe)),
                Way::Open => Box::pin(self.open_pipe(call, owner, credential)).await?,
                Way::Mend => self.lane(call.server, call.mover).await?.healthy = true,
                Way::Lane => return Ok(None),
            }
        }
    }

    /// Turns a lane into a pipe.
    async fn open_pipe(
        &self,
        call: &Call<'_, R>,
        owner: Owner,
        credential: &Arc<Credential>,
    ) -> Result<(), Trouble> {
        let _opening = Opening(call.server);
        let mut lease = self.lane(call.server, call.mover).await?;
        let lane = lease.lane.as_mut().expect("a lease holds a lane until it is dropped");
        let session = self.introduce(call, lane, credential).await?;
        let welcome = lane.welcome();
        let (boot, exchanges_max) = (welcome.boot, welcome.requests_max);
        let Some((id, lane)) = lease.keep() else { return Ok(()) };
        let (stream, tag) = lane.into_stream();
        let opened = Opened { id, owner, session, boot, exchanges_max, stream, tag };
        let pipe = Pipe::new(opened);
        call.server.lock().pipes.push(Arc::new(pipe));
        Ok(())
    }
}

/// While it lives nobody else opens a pipe to the same daemon.
struct Opening<'a, R: Runtime>(&'a Server<R>);

impl<R: Runtime> Drop for Opening<'_, R> {
    fn drop(&mut self) {
        self.0.lock().opened();
    }
}

/// Puts the data where it belongs.
fn deliver(answer: &Answer, data: &mut Data<'_, '_>) -> Result<(), DecodeError> {
    let room: usize = data.into.iter().map(|piece| piece.len()).sum();
    if answer.data.len() > room {
        return Err(DecodeError::TooLong);
    }
    let mut rest = &answer.data[..];
    for piece in data.into.iter_mut() {
        let (bytes, others) = rest.split_at(rest.len().min(piece.len()));
        piece[..bytes.len()].copy_from_slice(bytes);
        rest = others;
    }
    Ok(())
}
