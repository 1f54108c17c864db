//! The manager's background without its threads: the same purger, asking over the simulated network.
//!
//! A purger asks and waits; here nobody may wait. So what it asks for first is refused and asked over the
//! network meanwhile, and granted when the purger, which never gives up, comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use pvfs_layout::IodId;
use pvfs_mgr::iods::Iods;
use pvfs_mgr::manager::Manager;
use pvfs_mgr::purge::Purger;
use pvfs_net::call::{Caller, Patience, Principal, Server};
use pvfs_net::memory::MemoryRuntime;
use pvfs_net::runtime::{Instant, all};
use pvfs_wire::ops::{RemoveObjects, StoreStat};
use pvfs_wire::token::SessionRights;
use pvfs_wire::{Errno, Handle};

use crate::manager_host::MANAGER;
use crate::world::Ground;

/// A manager's purging.
pub struct Purging {
    purger: Purger,
    board: Arc<Board>,
    asker: Arc<Asker>,
    asking: Option<Pin<Box<dyn Future<Output = ()>>>>,
    next: Instant,
}

/// What the purger wants, and what iods have confirmed.
#[derive(Default)]
struct Board {
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    wanted: BTreeMap<u32, BTreeSet<Handle>>,
    removed: BTreeSet<(u32, Handle)>,
}

struct Asker {
    caller: Caller<MemoryRuntime>,
    principal: Arc<Principal>,
    servers: Vec<Server<MemoryRuntime>>,
}

impl Purging {
    /// Of a manager that starts now.
    pub fn new(ground: &Ground) -> Self {
        let runtime = MemoryRuntime::new(&ground.network, MANAGER);
        let iods = ground.cluster.iods.iter();
        let asker = Asker {
            caller: Caller::new(runtime, ground.cluster.filesystems[0].id, "mgr", false),
            principal: ground.principal(MANAGER, SessionRights::DAEMON),
            servers: iods.map(|iod| Server::new(iod.name.clone(), iod.listen.clone())).collect(),
        };
        Self {
            purger: Purger::default(),
            board: Arc::default(),
            asker: Arc::new(asker),
            asking: None,
            next: ground.network.now(),
        }
    }

    /// Goes on with what is asked; whether that came to an end.
    pub fn poll(&mut self) -> bool {
        let Some(asking) = &mut self.asking else { return false };
        let is_done = asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if is_done {
            self.asking = None;
        }
        is_done
    }

    /// Takes the next step when it is due.
    pub fn look_at_the_clock(&mut self, manager: &Manager, ground: &Ground) {
        let now = ground.network.now();
        if self.asking.is_some() || now < self.next {
            return;
        }
        let pause_ns = self.purger.step(manager, &*self.board, now.0);
        // It may come back at once; a simulation has to let time pass.
        self.next = now.after(Duration::from_nanos(pause_ns).max(PAUSE_MIN));
        ground.network.wake_at(self.next);
        let wanted = std::mem::take(&mut self.board.notes().wanted);
        if !wanted.is_empty() {
            self.asking = Some(Box::pin(ask(self.asker.clone(), self.board.clone(), wanted)));
        }
    }
}

async fn ask(asker: Arc<Asker>, board: Arc<Board>, wanted: BTreeMap<u32, BTreeSet<Handle>>) {
    let calls = wanted.into_iter().map(|(iod, handles)| {
        let (asker, board) = (&asker, &board);
        async move {
            let request = RemoveObjects { handles: handles.iter().copied().collect() };
            let server = &asker.servers[iod as usize];
            let asked = asker.caller.call(server, &asker.principal, &request, PATIENCE).await;
            if asked.is_ok() {
                let removed = handles.into_iter().map(|handle| (iod, handle));
                board.notes().removed.extend(removed);
            }
        }
    });
    all(calls).await;
}

impl Board {
    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().expect("no code panics holding it")
    }
}

impl Iods for Board {
    fn remove(&self, iod: IodId, handles: &[Handle]) -> Result<(), Errno> {
        let mut notes = self.notes();
        let mut missing: BTreeSet<Handle> = handles.iter().copied().collect();
        missing.retain(|handle| !notes.removed.contains(&(iod.0, *handle)));
        if missing.is_empty() {
            return Ok(());
        }
        notes.wanted.entry(iod.0).or_default().extend(missing);
        Err(Errno::EAGAIN)
    }

    fn stat_store(&self, _: IodId) -> Result<StoreStat, Errno> {
        Err(Errno::EAGAIN)
    }
}

const PATIENCE: Patience = Patience { timeout: Duration::from_secs(5), insist: false };
const PAUSE_MIN: Duration = Duration::from_millis(50);
