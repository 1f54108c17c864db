//! The client processes of this node, and the agent's word for them to the manager.
//!
//! ```text
//!   process ---- socket ----> watch: the kernel closes it with the process
//!                               |
//!                             living, gone ----> tell: six times in a lease, and at once when somebody is gone
//! ```

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pvfs_client::{Blocking, User, block_on};
use pvfs_wire::ops::VOUCHED_MAX;
use rustix::event::{Timespec, epoll};

/// Who lives.
pub struct Living {
    watched: OwnedFd,
    table: Mutex<Table>,
    /// Somebody is gone.
    changed: Condvar,
    word_every: Duration,
}

#[derive(Default)]
struct Table {
    last: u64,
    /// By the number of the socket.
    sockets: HashMap<u64, Process>,
    /// How many sockets a client has: a forked child shares its parent's.
    clients: HashMap<u64, u32>,
    by_user: HashMap<u32, usize>,
    /// Ended, and not yet told.
    gone: Vec<u64>,
}

struct Process {
    client: u64,
    uid: u32,
    /// Open as long as it lives; nothing is ever read from it.
    _socket: UnixStream,
}

impl Living {
    /// Nobody yet; watches from now on. A word to the manager is good for a lease.
    pub fn watch(lease: Duration) -> io::Result<Arc<Self>> {
        let watched = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let living = Arc::new(Self {
            watched,
            table: Mutex::default(),
            changed: Condvar::new(),
            word_every: lease / 6,
        });
        let watcher = living.clone();
        std::thread::Builder::new()
            .name("agent-watch".into())
            .spawn(move || watcher.watch_all())?;
        Ok(living)
    }

    /// Tells the manager, as this user, as long as anybody holds `living`.
    pub fn tell(living: &Arc<Self>, user: User<Blocking>) -> io::Result<()> {
        let living = Arc::downgrade(living);
        let tell = move || while tell_once(&living, &user) {};
        std::thread::Builder::new().name("agent-tell".into()).spawn(tell).map(|_| ())
    }

    /// A process says that it is there.
    pub fn join(&self, socket: UnixStream, client: u64, uid: u32) -> io::Result<()> {
        let mut table = self.lock();
        let of_user = table.by_user.entry(uid).or_default();
        if *of_user >= USER_PROCESSES_MAX {
            return Err(io::Error::other(format!("uid {uid} has {of_user} processes already")));
        }
        if table.sockets.len() >= VOUCHED_MAX {
            return Err(io::Error::other("too many processes"));
        }
        table.last += 1;
        let number = table.last;
        let ends = epoll::EventFlags::IN | epoll::EventFlags::HUP;
        epoll::add(&self.watched, &socket, epoll::EventData::new_u64(number), ends)?;
        *table.by_user.entry(uid).or_default() += 1;
        *table.clients.entry(client).or_default() += 1;
        // Back again, perhaps after this agent was restarted.
        table.gone.retain(|other| *other != client);
        table.sockets.insert(number, Process { client, uid, _socket: socket });
        Ok(())
    }

    fn watch_all(&self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            let forever: Option<&Timespec> = None;
            match epoll::wait(&self.watched, rustix::buffer::spare_capacity(&mut events), forever) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::error!("cannot watch processes any more: {error}");
                    return;
                }
            }
            let numbers = events.iter().map(|event| event.data.u64());
            self.leave(numbers);
        }
    }

    /// These sockets were closed, or said more than they may.
    fn leave(&self, numbers: impl Iterator<Item = u64>) {
        let mut table = self.lock();
        for number in numbers {
            table.leave(number);
        }
        if !table.gone.is_empty() {
            self.changed.notify_all();
        }
    }

    /// Who lives and who is gone, as soon as somebody is gone, or after a time.
    fn news(&self) -> (Vec<u64>, Vec<u64>) {
        let calm = |table: &mut Table| table.gone.is_empty();
        let table = self.changed.wait_timeout_while(self.lock(), self.word_every, calm);
        let table = table.unwrap_or_else(PoisonError::into_inner).0;
        (table.clients.keys().copied().collect(), table.gone.clone())
    }

    fn told(&self, gone: &[u64]) {
        self.lock().gone.retain(|client| !gone.contains(client));
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn leave(&mut self, number: u64) {
        let Some(Process { client, uid, .. }) = self.sockets.remove(&number) else { return };
        if let Some(count) = self.by_user.get_mut(&uid) {
            *count -= 1;
        }
        self.by_user.retain(|_, count| *count > 0);
        let Some(sockets) = self.clients.get_mut(&client) else { return };
        *sockets -= 1;
        if *sockets == 0 {
            self.clients.remove(&client);
            if self.gone.len() < VOUCHED_MAX {
                self.gone.push(client);
            }
        }
    }
}

/// Gives the word once; whether to go on.
fn tell_once(living: &Weak<Living>, user: &User<Blocking>) -> bool {
    let Some(known) = living.upgrade() else { return false };
    let (lives, gone) = known.news();
    drop(known);
    let nothing_to_say = lives.is_empty() && gone.is_empty();
    if nothing_to_say {
        return true;
    }
    match block_on(user.vouch(lives, gone.clone())) {
        Ok(()) => {
            if let Some(known) = living.upgrade() {
                known.told(&gone);
            }
        }
        Err(error) => {
            tracing::warn!("cannot stand for the processes of this node: {error}");
            std::thread::sleep(PAUSE);
        }
    }
    true
}

/// After a word that was not heard.
const PAUSE: Duration = Duration::from_secs(1);
/// One user cannot take all places.
const USER_PROCESSES_MAX: usize = 8 << 10;
const EVENTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn gone_of(living: &Living) -> Vec<u64> {
        let mut table = living.lock();
        while table.gone.is_empty() {
            let waited = living.changed.wait_timeout(table, Duration::from_secs(20)).unwrap();
            assert!(!waited.1.timed_out(), "nobody noticed");
            table = waited.0;
        }
        table.gone.clone()
    }

    #[test]
    fn a_process_lives_until_its_last_socket_is_closed() {
        let living = Living::watch(Duration::from_secs(6)).unwrap();
        let sockets: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        let mut kept = Vec::new();
        for ((ours, theirs), client) in sockets.into_iter().zip([7, 7, 8]) {
            living.join(ours, client, 1000).unwrap();
            kept.push(theirs);
        }
        drop(kept.remove(0));
        drop(kept.pop());
        assert_eq!(gone_of(&living), [8]);
        living.told(&[8]);
        let (lives, gone) = living.news();
        assert_eq!((lives, gone), (vec![7], vec![]), "7 has a socket left");
        drop(kept);
        assert_eq!(gone_of(&living), [7]);
        assert!(living.lock().by_user.is_empty() && living.lock().sockets.is_empty());
    }

    #[test]
    fn who_talks_out_of_turn_is_not_listened_to_any_more() {
        let living = Living::watch(Duration::from_secs(6)).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        living.join(ours, 7, 1000).unwrap();
        std::io::Write::write_all(&mut theirs, b"hello").unwrap();
        assert_eq!(gone_of(&living), [7]);
    }
}
