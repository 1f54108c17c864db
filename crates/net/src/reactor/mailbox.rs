//! Letters to a reactor: replies given by its tickets, and word from other reactors.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pvfs_wire::Header;

use crate::connection::Connection;
use crate::gate::Origin;
use crate::service::{ConnectionId, Desk, Response};

/// What a letter says.
pub enum Letter<S> {
    /// The reply to a request of a connection.
    Reply(ConnectionId, Header, Response),
    /// A connection that another reactor accepted.
    Adopt(S, Origin),
    /// A connection that another reactor served until now, and how many emergency stops that one has heeded.
    Take(Box<Connection<S>>, usize),
    /// A connection of this home was sent on to that reactor.
    Moved(ConnectionId, u8),
    /// A connection of this home has ended elsewhere.
    Gone(ConnectionId),
    /// A newer incarnation took this connection's lane.
    Replaced(ConnectionId),
    /// Nothing older on this connection's lane is left.
    LaneFree(ConnectionId),
}

/// One reactor's letters, posted by any thread.
///
/// Ringing costs a system call, so it is done only while the reactor sleeps: a reply given by the
/// reactor's own thread, or while it is busy, is just put into the box.
pub struct Mailbox<S> {
    letters: Mutex<Vec<Letter<S>>>,
    sleeping: AtomicBool,
    bell: Option<OwnedFd>,
}

/// The mailboxes of all reactors of a daemon.
pub type Mailroom<S> = Arc<[Arc<Mailbox<S>>]>;

impl<S> Mailbox<S> {
    /// An empty box. The bell is an eventfd, where somebody sleeps.
    pub fn new(bell: Option<OwnedFd>) -> Self {
        Self { letters: Mutex::new(Vec::new()), sleeping: AtomicBool::new(false), bell }
    }

    /// Puts a letter in, and wakes the reactor if it sleeps.
    pub fn post(&self, letter: Letter<S>) {
        self.lock().push(letter);
        if self.sleeping.swap(false, Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Wakes the reactor, or keeps it from falling asleep.
    pub fn ring(&self) {
        if let Some(bell) = &self.bell {
            // It fails only when the counter is full, and then the bell rings already.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// The bell's descriptor.
    pub fn bell(&self) -> Option<&OwnedFd> {
        self.bell.as_ref()
    }

    /// Takes all letters, leaving the empty vector `into` in their place.
    pub fn collect(&self, into: &mut Vec<Letter<S>>) {
        std::mem::swap(&mut *self.lock(), into);
    }

    /// Whether no letter waits.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Says that the reactor is about to sleep; false if there is a letter after all.
    pub fn fall_asleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        // Whoever posts after this look sees the flag, since both happen under the lock.
        let may_sleep = self.lock().is_empty();
        if !may_sleep {
            self.wake_up();
        }
        may_sleep
    }

    /// Says that the reactor is awake.
    pub fn wake_up(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Letter<S>>> {
        self.letters.lock().expect("no code panics holding it")
    }
}

impl<S: Send> Desk for Mailbox<S> {
    fn reply(&self, connection: ConnectionId, request: &Header, response: Response) {
        self.post(Letter::Reply(connection, *request, response));
    }
}
