//! The world: everything that runs, and the one loop that runs it.
//!
//! At each instant everybody does what they can until nobody can do more; then machines look at their clocks,
//! trouble strikes, and time jumps to the next event. All in one thread, all from one seed.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use pvfs_config::{Cluster, Recipe};
use pvfs_iod::MemoryDisk;
use pvfs_net::call::Principal;
use pvfs_net::gate::{Doorman, Limits, Rules, Security};
use pvfs_net::memory::{Chance, Crash, MemoryNetwork};
use pvfs_net::runtime::Instant;
use pvfs_wire::Handle;
use pvfs_wire::token::{Credential, KeyRing, Session, SessionRights};

use crate::agent::Agent;
use crate::client::{Client, Patience};
use crate::disk_host::DiskHost;
use crate::manager_host::{Durability, ManagerHost};
use crate::trouble::Trouble;

/// How a world is to be.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// I/O daemons.
    pub iods: u32,
    /// Strip size of files.
    pub ssize: u64,
    /// What a loss of power at the manager may take.
    pub durability: Durability,
}

impl Default for Settings {
    /// Three iods, small strips so that most writes cross them, a strict manager.
    fn default() -> Self {
        Self { iods: 3, ssize: 1024, durability: Durability::Strict }
    }
}

/// How a daemon ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// Its process is killed.
    Process,
    /// Its machine loses power, and with it what was not synced.
    Power,
}

/// Something done to the world, by a scenario or by trouble.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Command {
    /// The manager ends.
    StopManager(Loss),
    /// The manager starts again.
    StartManager,
    /// An iod ends.
    StopIod(u32, Loss),
    /// An iod starts again.
    StartIod(u32),
    /// A daemon does nothing any more (SIGSTOP), though its machine still takes connections and bytes.
    Freeze(Victim),
    /// A frozen daemon goes on where it was.
    Thaw(Victim),
    /// A client process ends, as its host's kernel, or nobody, tells.
    KillProcess(ProcessId, Crash),
    /// Everything runs again and nothing is held; trouble ends.
    Mend,
}

/// A process of the world.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProcessId(usize);

/// A process's way to do something to the world: it happens at once when the process waits next.
#[derive(Clone, Default)]
pub struct Remote(Rc<RefCell<VecDeque<Command>>>);

impl Remote {
    /// Does it.
    pub fn send(&self, command: Command) {
        self.0.borrow_mut().push_back(command);
    }
}

/// When daemons lost their power, for those who check what may be lost.
#[derive(Clone, Default)]
pub struct Losses(Rc<RefCell<Vec<(Instant, Victim)>>>);

/// A daemon that something happens to.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub enum Victim {
    /// The manager.
    Manager,
    /// That iod.
    Iod(u32),
}

impl Losses {
    /// The times at which this one lost its power.
    pub fn of(&self, victim: Victim) -> Vec<Instant> {
        let losses = self.0.borrow();
        losses.iter().filter(|(_, who)| *who == victim).map(|(at, _)| *at).collect()
    }

    fn note(&self, at: Instant, victim: Victim) {
        self.0.borrow_mut().push((at, victim));
    }
}

/// What everything stands on.
pub struct Ground {
    /// The network, with the time.
    pub network: MemoryNetwork,
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// Its keys.
    pub ring: KeyRing,
}

/// A cluster and its clients.
pub struct World {
    ground: Ground,
    chance: Chance,
    manager: ManagerHost,
    iods: Vec<DiskHost>,
    processes: Vec<Process>,
    agents: Vec<Agent>,
    trouble: Option<Trouble>,
    remote: Remote,
    losses: Losses,
    frozen: BTreeSet<Victim>,
    /// What happened, as one number: the same for the same seed.
    trace: u64,
}

struct Process {
    host: String,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl World {
    /// A new file system, all daemons running, quiet weather.
    pub fn new(seed: u64, settings: Settings) -> Self {
        let mut chance = Chance::new(seed ^ WORLD_SALT);
        let ground = Ground::new(chance.any(), settings.iods);
        let manager = ManagerHost::new(&ground, &mut chance, settings.durability, settings.ssize);
        let names = (0..settings.iods).map(|iod| format!("io{iod}"));
        let iods = names.map(|name| DiskHost::new(&ground, &mut chance, name)).collect();
        Self {
            ground,
            chance,
            manager,
            iods,
            processes: Vec::new(),
            agents: Vec::new(),
            trouble: None,
            remote: Remote::default(),
            losses: Losses::default(),
            frozen: BTreeSet::new(),
            trace: 0,
        }
    }

    /// The network.
    pub fn network(&self) -> &MemoryNetwork {
        &self.ground.network
    }

    /// For processes to do something to the world.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// The losses of power, as they happen.
    pub fn losses(&self) -> Losses {
        self.losses.clone()
    }

    /// Chances from the seed.
    pub fn chance(&mut self) -> Chance {
        Chance::new(self.chance.any())
    }

    /// A client process on this host, with the usual deadlines.
    pub fn client(&self, host: &str) -> Client {
        self.patient_client(host, Patience::default())
    }

    /// A client process on this host.
    pub fn patient_client(&self, host: &str, patience: Patience) -> Client {
        Client::new(&self.ground, host, patience)
    }

    /// Runs an agent on this host from now on. Before the clients that it is to stand for.
    pub fn start_agent(&mut self, host: &str) {
        let rights = SessionRights::DAEMON;
        let client = Client::with_rights(&self.ground, host, Patience::default(), rights);
        self.agents.push(Agent::new(client));
    }

    /// Runs a process on this host from now on.
    pub fn spawn(&mut self, host: &str, future: impl Future<Output = ()> + 'static) -> ProcessId {
        let future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(future);
        self.processes.push(Process { host: host.to_owned(), future: Some(future) });
        ProcessId(self.processes.len() - 1)
    }

    /// Lets trouble into the world, until it is mended.
    pub fn set_trouble(&mut self, trouble: Trouble) {
        self.trouble = Some(trouble);
    }

    /// Runs until all processes have ended, which must be within this virtual time.
    pub fn run(&mut self, patience: Duration) {
        let deadline = self.now().after(patience);
        while self.processes.iter().any(|process| process.future.is_some()) {
            self.settle();
            if self.processes.iter().all(|process| process.future.is_none()) {
                return;
            }
            assert!(self.now() <= deadline, "some process did not end within {patience:?}");
            self.pass();
        }
    }

    /// Runs for this virtual time.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.now().after(time);
        self.ground.network.wake_at(until);
        while self.now() < until {
            self.settle();
            self.pass();
        }
        self.settle();
    }

    /// Does something to the world, now.
    pub fn command(&mut self, command: Command) {
        self.note(&format!("{command:?}"));
        self.note_loss(command);
        self.thaw_stopped(command);
        let (ground, chance) = (&self.ground, &mut self.chance);
        match command {
            Command::StopManager(loss) => self.manager.stop(ground, chance, loss),
            Command::StartManager => self.manager.start(ground, chance),
            Command::StopIod(iod, loss) => self.iods[iod as usize].stop(ground, loss),
            Command::StartIod(iod) => self.iods[iod as usize].start(ground, chance),
            Command::Freeze(victim) => {
                self.frozen.insert(victim);
            }
            Command::Thaw(victim) => {
                self.frozen.remove(&victim);
            }
            Command::KillProcess(process, how) => self.kill(process, how),
            Command::Mend => self.mend(),
        }
    }

    /// Everything that lies on the iods' disks.
    pub fn objects(&self) -> BTreeSet<Handle> {
        let fsid = self.ground.cluster.filesystems[0].id;
        self.iods.iter().flat_map(|iod| iod.objects(fsid)).collect()
    }

    /// Panics when the name space in the manager's store is not sound.
    pub fn check_names(&self) {
        let violations = self.manager.violations();
        assert!(violations.is_empty(), "the name space is damaged: {violations:?}");
    }

    /// An iod's disk, to make it fail.
    pub fn disk(&self, iod: u32) -> &MemoryDisk {
        self.iods[iod as usize].disk()
    }

    /// Requests that a daemon has served since it started; greetings are not counted.
    pub fn requests(&self, daemon: Victim) -> u64 {
        match daemon {
            Victim::Manager => self.manager.requests(),
            Victim::Iod(iod) => self.iods[iod as usize].requests(),
        }
    }

    /// What happened so far, as one number.
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.ground.network.now()
    }

    fn settle(&mut self) {
        loop {
            let mut is_busy = self.poll_processes();
            is_busy |= self.run_daemons();
            is_busy |= self.obey_remotes();
            if !is_busy {
                return;
            }
        }
    }

    fn poll_processes(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut ended = false;
        self.agents.iter_mut().for_each(|agent| agent.poll(&mut context));
        for process in &mut self.processes {
            let Some(future) = &mut process.future else { continue };
            if future.as_mut().poll(&mut context).is_ready() {
                process.future = None;
                ended = true;
            }
        }
        ended
    }

    fn run_daemons(&mut self) -> bool {
        let frozen = &self.frozen;
        let mut is_busy = !frozen.contains(&Victim::Manager) && self.manager.run_ready();
        for (iod, number) in self.iods.iter_mut().zip(0..) {
            is_busy |= !frozen.contains(&Victim::Iod(number)) && iod.run_ready();
        }
        is_busy
    }

    fn obey_remotes(&mut self) -> bool {
        let commands = std::mem::take(&mut *self.remote.0.borrow_mut());
        let is_busy = !commands.is_empty();
        commands.into_iter().for_each(|command| self.command(command));
        is_busy
    }

    /// Nothing more happens at this instant.
    fn pass(&mut self) {
        if !self.frozen.contains(&Victim::Manager) {
            self.manager.look_at_the_clock(&self.ground);
        }
        if let Some(trouble) = &mut self.trouble {
            for command in trouble.strike(&self.ground.network) {
                self.command(command);
            }
        }
        let next = self.ground.network.next_event().expect("machines look at their clocks");
        self.ground.network.advance_to(next);
        self.note("");
    }

    fn note(&mut self, event: &str) {
        for byte in self.now().0.to_le_bytes().iter().chain(event.as_bytes()) {
            self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Ends the daemon's stillness with its process.
    fn thaw_stopped(&mut self, command: Command) {
        match command {
            Command::StopManager(_) => self.frozen.remove(&Victim::Manager),
            Command::StopIod(iod, _) => self.frozen.remove(&Victim::Iod(iod)),
            _ => false,
        };
    }

    fn note_loss(&self, command: Command) {
        match command {
            Command::StopManager(Loss::Power) => self.losses.note(self.now(), Victim::Manager),
            Command::StopIod(iod, Loss::Power) => self.losses.note(self.now(), Victim::Iod(iod)),
            _ => {}
        }
    }

    fn kill(&mut self, ProcessId(process): ProcessId, how: Crash) {
        // The network first: a dead process closes nothing by itself.
        let host = self.processes[process].host.clone();
        self.ground.network.crash(&host, how);
        self.processes[process].future = None;
        if how == Crash::Silent {
            self.agents.retain(|agent| agent.host() != host);
        }
    }

    fn mend(&mut self) {
        if let Some(trouble) = self.trouble.take() {
            trouble.end(&self.ground.network);
        }
        self.frozen.clear();
        self.manager.start(&self.ground, &mut self.chance);
        for iod in &mut self.iods {
            iod.start(&self.ground, &mut self.chance);
        }
        let names: Vec<String> = self.iods.iter().map(|iod| iod.name().to_owned()).collect();
        for process in &self.processes {
            for server in names.iter().map(String::as_str).chain([crate::manager_host::MANAGER]) {
                self.ground.network.heal(&process.host, server);
            }
        }
    }
}

impl Ground {
    fn new(seed: u64, iods: u32) -> Self {
        let hosts: Vec<String> = (0..iods).map(|iod| format!("io{iod}")).collect();
        let recipe = Recipe {
            manager: crate::manager_host::MANAGER.into(),
            iods: hosts.join(","),
            iods_per_host: 1,
            ..Recipe::default()
        };
        let cluster = recipe.cluster("/sim/cluster.toml".as_ref());
        let cluster = Arc::new(cluster.expect("the simulated cluster is described well"));
        Self { network: MemoryNetwork::new(seed), cluster, ring: KeyRing::new(&[[7; 32]]) }
    }

    /// A machine that is back knows nothing of the connections it had, and says so.
    pub fn reset_connections(&self, host: &str) {
        self.network.crash(host, Crash::Killed);
    }

    /// A new start of the daemon `name`, in this boot of its store.
    pub fn doorman(&self, name: &str, boot: u64, chance: &mut Chance) -> Arc<Doorman> {
        let mut secret = [0; 32];
        secret.fill_with(|| chance.any() as u8);
        Arc::new(Doorman::new(Rules {
            name: name.into(),
            boot,
            fsid: self.cluster.filesystems[0].id,
            security: Security::Psk(self.ring.clone()),
            networks: Vec::new(),
            root_squash: false,
            limits: Limits::default(),
            secret,
        }))
    }

    /// The one user there is, on `host`.
    pub fn principal(&self, host: &str, rights: SessionRights) -> Arc<Principal> {
        let (network, ring, host) = (self.network.clone(), self.ring.clone(), host.to_owned());
        let renew = move || {
            let now_s = u64::try_from(network.wall_ns(&host) / 1_000_000_000).unwrap_or(0);
            let session = Session {
                id: network.random(),
                uid: UID,
                gid: UID,
                gids: Vec::new(),
                rights,
                issued: now_s,
                expiry: now_s + SESSION_S,
            };
            Ok(Credential::issue(&ring, &session))
        };
        Arc::new(Principal::new(Box::new(renew)).expect("a key signs whatever it is given"))
    }
}

const UID: u32 = 1000;
const SESSION_S: u64 = 12 * 3600;

/// Keeps the world's choices apart from those of a scenario with the same seed.
const WORLD_SALT: u64 = 0x7076_6673;
