//! Clients that cache: what they tell by themselves is never older than the last change that was answered, and
//! nobody who saw a newer state can meet one who still believes in an older.

mod register;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use pvfs_client::Leaseholder;
use pvfs_net::memory::Crash;
use pvfs_net::runtime::Instant;
use pvfs_sim::{Chance, Client, Command, Loss, Settings, Trouble, World, seeds};
use pvfs_wire::attr::{FileKind, Time};
use pvfs_wire::ops::{RenameFlags, SetAttr, SetTime, Target};
use pvfs_wire::{Errno, Handle};

use crate::outcome::known;
use register::Register;

const HOSTS: [&str; 3] = ["c0", "c1", "c2"];
/// Two of each client.
const WORKERS: usize = 6;
const FILES: usize = 3;
const NAMES: usize = 3;
const STEPS: u32 = 120;
/// What the manager grants.
const LEASE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_millis(400);

/// What all clients know of the file system.
struct Shared {
    dir: Handle,
    files: Vec<Handle>,
    /// The modification time of each file, which anybody may set.
    times: Vec<Register<i64>>,
    /// What each name means: the object, or 0. Only its owner changes it.
    names: Vec<Register<u64>>,
    next_time: i64,
    told_at_once: u32,
}

/// Whether a client process does nothing, as if it were stopped.
pub(crate) type Stopped = Rc<Cell<bool>>;

fn target(dir: Handle, name: usize) -> Target {
    Target::below(dir, format!("n{name}"))
}

/// Keeps the client's lease until the world is over.
pub(crate) async fn keep_lease(client: Client, stopped: Stopped) {
    let mut holder = Leaseholder::new(client.user.clone());
    loop {
        if holder.poll().await.is_err() {
            client.sleep(Duration::from_millis(100)).await;
        }
        while stopped.get() {
            client.sleep(Duration::from_millis(50)).await;
        }
    }
}

fn caching_client(world: &mut World, host: &'static str) -> (Client, Stopped) {
    let (client, stopped) = (world.client(host), Stopped::default());
    world.spawn(host, keep_lease(client.clone(), stopped.clone()));
    (client, stopped)
}

/// Makes the files, in quiet weather.
fn prepare(world: &mut World) -> Rc<RefCell<Shared>> {
    let made = Rc::new(RefCell::new(None));
    let (client, result) = (world.client("first"), made.clone());
    world.spawn("first", async move {
        let root = client.user.root().await.expect("the weather is fine");
        let dir = client.user.mkdir(Target::below(root, "d"), 0o777).await.expect("fine").handle;
        let mut files = Vec::new();
        for file in 0..FILES {
            let file = Target::below(root, format!("f{file}"));
            let attr = client.user.mknod(file, FileKind::Fifo, 0o666, 0).await.expect("fine");
            let set = set_time(attr.handle, 0);
            client.user.set_attr(set).await.expect("fine");
            files.push(attr.handle);
        }
        *result.borrow_mut() = Some((dir, files));
    });
    world.run(Duration::from_secs(60));
    let (dir, files) = made.borrow_mut().take().expect("it was made");
    let times = files.iter().map(|_| Register::new(0)).collect();
    let names = (0..WORKERS * NAMES).map(|_| Register::new(0)).collect();
    Rc::new(RefCell::new(Shared { dir, files, times, names, next_time: 1, told_at_once: 0 }))
}

fn set_time(handle: Handle, seconds: i64) -> SetAttr {
    let mtime = Some(SetTime::At(Time { seconds, nanos: 0 }));
    let (target, mode, uid, gid) = (Target::object(handle), None, None, None);
    SetAttr { target, follow: false, mode, uid, gid, atime: None, mtime }
}

struct Worker {
    client: Client,
    chance: Chance,
    own: usize,
    stopped: Stopped,
    stops: bool,
    shared: Rc<RefCell<Shared>>,
}

impl Worker {
    async fn work(mut self) {
        for _ in 0..STEPS {
            let pause = self.chance.time(Duration::ZERO, Duration::from_millis(60));
            self.client.sleep(pause).await;
            match self.chance.between(0, 99) {
                0..=54 => self.look_name_up().await,
                55..=79 => self.look_time_up().await,
                80..=84 => self.set_some_time().await,
                85..=87 => self.list().await,
                88..=97 => self.change_name().await,
                _ if self.stops => self.stop_for_a_while().await,
                _ => {}
            }
        }
    }

    /// As SIGSTOP and SIGCONT would do.
    async fn stop_for_a_while(&mut self) {
        self.stopped.set(true);
        let time = self.chance.time(Duration::ZERO, Duration::from_secs(12));
        self.client.sleep(time).await;
        self.stopped.set(false);
    }

    async fn look_name_up(&mut self) {
        let name = self.chance.between(0, (WORKERS * NAMES) as u64 - 1) as usize;
        let (dir, begun) = (self.shared.borrow().dir, self.client.now());
        let looked = self.client.user.lookup(dir, format!("n{name}").as_bytes()).await;
        let Some(looked) = known(looked) else { return };
        let looked = looked.expect("a name can be looked up");
        let value = looked.found.map_or(0, |(attr, _)| attr.handle.object);
        let mut shared = self.shared.borrow_mut();
        shared.told_at_once += u32::from(begun == self.client.now());
        shared.names[name].read(begun, self.client.now(), value, &format!("n{name}"));
    }

    /// From then on a name that was not there needs no question, until somebody else changes the directory.
    async fn list(&mut self) {
        let (dir, begun) = (self.shared.borrow().dir, self.client.now());
        let Some(told) = known(self.client.user.readdir_cached(dir, 0, 64).await) else { return };
        let told = told.expect("a directory can be listed").entries;
        let shared = &mut *self.shared.borrow_mut();
        for (name, register) in shared.names.iter_mut().enumerate() {
            let name = format!("n{name}");
            let entry = told.iter().find(|entry| *entry.name == *name.as_bytes());
            let value = entry.map_or(0, |entry| entry.handle.object);
            register.read(begun, self.client.now(), value, &name);
        }
    }

    async fn look_time_up(&mut self) {
        let file = self.chance.between(0, FILES as u64 - 1) as usize;
        let (handle, begun) = (self.shared.borrow().files[file], self.client.now());
        let Some(told) = known(self.client.user.attributes(handle).await) else { return };
        let value = told.expect("attributes can be told").0.mtime.seconds;
        let mut shared = self.shared.borrow_mut();
        shared.told_at_once += u32::from(begun == self.client.now());
        shared.times[file].read(begun, self.client.now(), value, &format!("f{file}"));
    }

    async fn set_some_time(&mut self) {
        let file = self.chance.between(0, FILES as u64 - 1) as usize;
        let (handle, value, write) = {
            let shared = &mut *self.shared.borrow_mut();
            shared.next_time += 1;
            let write = shared.times[file].begin(self.client.now(), shared.next_time);
            (shared.files[file], shared.next_time, write)
        };
        let told = self.known_of_change(self.client.user.set_attr(set_time(handle, value)).await);
        if let Some(told) = told {
            told.expect("times can be set");
            self.shared.borrow_mut().times[file].end(write, self.client.now());
        }
    }

    /// A change that was under way when the lease was lost is EIO, and may have happened.
    fn known_of_change<T>(&self, result: pvfs_client::Result<T>) -> Option<Result<T, Errno>> {
        let has_lost_lease = self.client.user.filesystem().caller().leases_lost() > 0;
        known(result).filter(|told| !has_lost_lease || !matches!(told, Err(Errno::EIO)))
    }

    fn own_name(&mut self) -> usize {
        self.own * NAMES + self.chance.between(0, NAMES as u64 - 1) as usize
    }

    /// Changes what one of its own names means, if that succeeds.
    async fn change_name(&mut self) {
        let (name, other) = (self.own_name(), self.own_name());
        let file = self.chance.between(0, FILES as u64 - 1) as usize;
        let (dir, file) = (self.shared.borrow().dir, self.shared.borrow().files[file]);
        let user = self.client.user.clone();
        match self.chance.between(0, 2) {
            0 => {
                let linked = user.link(Target::object(file), false, target(dir, name));
                self.changing(&[(name, file.object)], Errno::EEXIST, linked).await;
            }
            1 => {
                let unlinked = user.unlink(target(dir, name));
                self.changing(&[(name, 0)], Errno::ENOENT, unlinked).await;
            }
            _ if name == other => {}
            _ => self.move_name(name, other).await,
        }
    }

    /// What the name means can only be told when it is certain, so that is asked first, past the cache.
    async fn move_name(&mut self, from: usize, to: usize) {
        let dir = self.shared.borrow().dir;
        let user = self.client.user.clone();
        let stat = known(user.stat_lite(target(dir, from), false).await);
        let Some(Ok(attr)) = stat else { return };
        let changes = [(from, 0), (to, attr.handle.object)];
        let old = known(user.stat_lite(target(dir, to), false).await);
        let Some(old) = old else { return };
        if old.is_ok_and(|old| old.handle == attr.handle) {
            return; // Two names of one object: rename does nothing.
        }
        let moved = user.rename(target(dir, from), target(dir, to), RenameFlags::NONE);
        self.changing(&changes, Errno::ENOENT, moved).await;
    }

    async fn changing<T>(
        &mut self,
        changes: &[(usize, u64)],
        refusal: Errno,
        change: impl Future<Output = pvfs_client::Result<T>>,
    ) {
        let now = self.client.now();
        let begin = |shared: &mut Shared| -> Vec<usize> {
            changes.iter().map(|(name, value)| shared.names[*name].begin(now, *value)).collect()
        };
        let writes = begin(&mut self.shared.borrow_mut());
        let told = self.known_of_change(change.await);
        let mut shared = self.shared.borrow_mut();
        for ((name, _), write) in changes.iter().zip(writes) {
            match &told {
                Some(Ok(_)) => shared.names[*name].end(write, self.client.now()),
                Some(Err(error)) if *error == refusal => shared.names[*name].cancel(write),
                Some(Err(error)) => panic!("changing a name: {error}"),
                None => {}
            }
        }
    }
}

/// What may break.
#[derive(Clone, Copy)]
struct Weakness {
    stormy: bool,
    manager: Option<Loss>,
    outage_max: Duration,
    stops: bool,
}

const CALM: Weakness =
    Weakness { stormy: false, manager: None, outage_max: Duration::from_secs(2), stops: false };

fn scenario(seed: u64, weakness: Weakness) {
    let mut world = World::new(seed, Settings::default());
    let shared = prepare(&mut world);
    let mut workers = Vec::new();
    for host in HOSTS {
        let (client, stopped) = caching_client(&mut world, host);
        for _ in 0..WORKERS / HOSTS.len() {
            let (client, chance, own) = (client.clone(), world.chance(), workers.len());
            let (stopped, stops, shared) = (stopped.clone(), weakness.stops, shared.clone());
            workers.push((host, Worker { client, chance, own, stopped, stops, shared }));
        }
    }
    world.run_for(Duration::from_secs(1));
    if weakness.stormy {
        let mut trouble = Trouble::new(world.chance(), &HOSTS, 3);
        trouble.manager = weakness.manager;
        trouble.outage_max = weakness.outage_max;
        world.set_trouble(trouble);
    }
    let left = Rc::new(Cell::new(workers.len()));
    for (host, worker) in workers {
        let left = left.clone();
        world.spawn(host, async move {
            worker.work().await;
            left.set(left.get() - 1);
        });
    }
    let mut patience = 4000;
    while left.get() > 0 {
        world.run_for(Duration::from_secs(1));
        patience -= 1;
        assert!(patience > 0, "some client did not end");
    }
    assert!(shared.borrow().told_at_once > 0, "nothing was ever told from a cache");
}

#[test]
fn caches_agree_in_calm_weather() {
    seeds::each("caches_agree_in_calm_weather", 30, |seed| scenario(seed, CALM));
}

#[test]
fn caches_agree_though_connections_are_lost() {
    let weakness = Weakness { stormy: true, ..CALM };
    seeds::each("caches_agree_though_connections_are_lost", 25, |seed| scenario(seed, weakness));
}

#[test]
fn caches_agree_though_the_manager_is_killed() {
    let weakness = Weakness { stormy: true, manager: Some(Loss::Process), ..CALM };
    seeds::each("caches_agree_though_the_manager_is_killed", 25, |seed| scenario(seed, weakness));
}

#[test]
fn caches_agree_though_clients_are_stopped() {
    let weakness = Weakness { stops: true, ..CALM };
    seeds::each("caches_agree_though_clients_are_stopped", 20, |seed| scenario(seed, weakness));
}

#[test]
fn caches_agree_whatever_happens() {
    let weakness = Weakness {
        stormy: true,
        stops: true,
        manager: Some(Loss::Power),
        outage_max: Duration::from_secs(8),
    };
    seeds::each("caches_agree_whatever_happens", 20, |seed| scenario(seed, weakness));
}

/// Runs `holder` with a caching client that then ends like this; how long somebody else waits for a new name.
fn time_to_create(
    seed: u64,
    end: impl FnOnce(&mut World, pvfs_sim::ProcessId, Stopped),
) -> Duration {
    let mut world = World::new(seed, Settings::default());
    let client = world.client("holder");
    let stopped = Stopped::default();
    world.spawn("holder", keep_lease(client.clone(), stopped.clone()));
    world.run_for(Duration::from_millis(100));
    let process = world.spawn("holder", async move {
        let root = client.user.root().await.expect("fine");
        let looked = client.user.lookup(root, b"new").await.expect("fine");
        assert!(looked.found.is_none() && looked.name_until > client.now());
        client.sleep(Duration::from_secs(100_000)).await;
    });
    world.run_for(Duration::from_secs(3));
    end(&mut world, process, stopped);
    let took: Rc<RefCell<Option<(Instant, Instant)>>> = Rc::default();
    let (other, result) = (world.client("other"), took.clone());
    world.spawn("other", async move {
        let root = other.user.root().await.expect("fine");
        let begun = other.now();
        other.user.mkdir(Target::below(root, "new"), 0o700).await.expect("it is made");
        *result.borrow_mut() = Some((begun, other.now()));
    });
    world.run_for(Duration::from_secs(20));
    let (begun, ended) = took.borrow().expect("it was made");
    begun.until(ended)
}

#[test]
fn a_client_that_answers_delays_nobody() {
    seeds::each("a_client_that_answers_delays_nobody", 5, |seed| {
        let time = time_to_create(seed, |_, _, _| ());
        assert!(time < SLACK, "it took {time:?}");
    });
}

#[test]
fn a_stopped_client_delays_others_by_the_lease_at_most() {
    seeds::each("a_stopped_client_delays_others_by_the_lease_at_most", 5, |seed| {
        let time = time_to_create(seed, |_, _, stopped| stopped.set(true));
        assert!(time < LEASE + SLACK, "it took {time:?}");
        assert!(time > Duration::from_secs(1), "it was not waited for: {time:?}");
    });
}

#[test]
fn a_killed_client_delays_others_by_the_lease_at_most() {
    for how in [Crash::Killed, Crash::Silent] {
        seeds::each("a_killed_client_delays_others_by_the_lease_at_most", 5, |seed| {
            let time = time_to_create(seed, |world, process, stopped| {
                stopped.set(true);
                world.command(Command::KillProcess(process, how));
            });
            assert!(time < LEASE + SLACK, "it took {time:?}");
        });
    }
}

#[test]
fn a_manager_that_restarts_waits_only_for_those_who_do_not_come_back() {
    seeds::each("a_manager_that_restarts_waits_only_for_those", 5, |seed| {
        let restart = |world: &mut World| {
            world.command(Command::StopManager(Loss::Process));
            world.command(Command::StartManager);
        };
        let time = time_to_create(seed, |world, _, _| restart(world));
        assert!(time < Duration::from_secs(2), "all are back, and yet it took {time:?}");
        let time = time_to_create(seed, |world, _, stopped| {
            stopped.set(true);
            restart(world);
        });
        assert!(time < LEASE + SLACK, "it took {time:?}");
        assert!(time > Duration::from_secs(4), "it was not waited for: {time:?}");
    });
}

#[test]
fn repeated_questions_never_leave_the_node() {
    let mut world = World::new(1, Settings::default());
    let (client, _) = caching_client(&mut world, "c0");
    world.run_for(Duration::from_secs(1));
    world.spawn("c0", async move {
        let root = client.user.root().await.expect("fine");
        client.user.mkdir(Target::below(root, "d"), 0o700).await.expect("fine");
        for _ in 0..60 {
            let first = client.user.lookup(root, b"d").await.expect("fine");
            let begun = client.now();
            for _ in 0..100 {
                let looked = client.user.lookup(root, b"d").await.expect("fine");
                let (attr, _) = looked.found.expect("it is there");
                assert_eq!(Some(attr), first.found.as_ref().map(|found| found.0));
                client.user.attributes(attr.handle).await.expect("fine");
                let absent = client.user.lookup(root, b"absent").await.expect("fine");
                assert!(absent.found.is_none());
            }
            // The first question for the absent name may have.
            assert!(begun.until(client.now()) < Duration::from_millis(5));
            client.sleep(Duration::from_millis(900)).await;
        }
    });
    world.run_for(Duration::from_secs(120));
}
