//! Names: every change that was answered happened once, every other one at most once, whatever breaks.
//!
//! Each client works in a directory of its own, checked step by step against a model, and with all others in
//! a shared one: they race to create the same names, and move tokens that must neither vanish nor double.

mod model;
mod possible;
mod shared;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pvfs_sim::{
    Chance, Client, Durability, Loss, Losses, Patience, Settings, Trouble, Victim, World, seeds,
};
use pvfs_wire::Handle;
use pvfs_wire::attr::{FileKind, Striping};
use pvfs_wire::ops::{OpenFlags, RenameFlags, SetAttr, Target};

use crate::outcome::known;
use model::{Act, Node, Replacing, Told};
use possible::{Possible, Span};
use shared::Shared;

const HOSTS: [&str; 3] = ["c0", "c1", "c2"];
const STEPS: u32 = 60;

/// What may break.
#[derive(Clone, Copy)]
struct Weakness {
    durability: Durability,
    manager: Option<Loss>,
    outage_max: Duration,
    patience: Duration,
}

#[test]
fn names_survive_lost_connections() {
    let weakness = Weakness { manager: None, ..KILLED };
    seeds::each("names_survive_lost_connections", 25, |seed| scenario(seed, weakness));
}

#[test]
fn names_survive_a_killed_manager() {
    seeds::each("names_survive_a_killed_manager", 25, |seed| scenario(seed, KILLED));
}

#[test]
fn names_survive_outages_longer_than_deadlines() {
    let weakness = Weakness { outage_max: Duration::from_secs(25), ..KILLED };
    seeds::each("names_survive_outages_longer_than_deadlines", 15, |seed| scenario(seed, weakness));
}

#[test]
fn changes_given_up_never_happen_later() {
    let weakness = Weakness { patience: Duration::from_millis(300), ..KILLED };
    seeds::each("changes_given_up_never_happen_later", 25, |seed| scenario(seed, weakness));
}

#[test]
fn a_strict_manager_loses_nothing_without_power() {
    let weakness = Weakness { manager: Some(Loss::Power), ..KILLED };
    seeds::each("a_strict_manager_loses_nothing_without_power", 25, |seed| {
        scenario(seed, weakness);
    });
}

#[test]
fn a_local_manager_loses_a_second_without_power() {
    let weakness = Weakness { manager: Some(Loss::Power), durability: Durability::Local, ..KILLED };
    seeds::each("a_local_manager_loses_a_second_without_power", 25, |seed| {
        scenario(seed, weakness);
    });
}

const KILLED: Weakness = Weakness {
    durability: Durability::Strict,
    manager: Some(Loss::Process),
    outage_max: Duration::from_secs(2),
    patience: Duration::from_secs(10),
};

/// A client with its directory.
struct Worker {
    client: Client,
    chance: Chance,
    own: Handle,
    possible: Possible,
    losses: Losses,
    losses_seen: usize,
    shared: Rc<RefCell<Shared>>,
}

fn scenario(seed: u64, weakness: Weakness) {
    let mut world =
        World::new(seed, Settings { durability: weakness.durability, ..Settings::default() });
    let workers = prepare(&mut world, weakness.patience);
    let shared = workers[0].borrow().shared.clone();
    world.run_for(Duration::from_secs(2));
    let mut trouble = Trouble::new(world.chance(), &HOSTS, 3);
    trouble.manager = weakness.manager;
    trouble.outage_max = weakness.outage_max;
    // A stopped process syncs nothing: its last second before a loss of power may be a long one.
    trouble.freezes_manager = weakness.durability == Durability::Strict;
    world.set_trouble(trouble);
    each_worker(&mut world, &workers, async |worker| {
        for _ in 0..STEPS {
            worker.step().await;
        }
    });
    world.command(pvfs_sim::Command::Mend);
    each_worker(&mut world, &workers, async |worker| worker.look_around().await);
    world.check_names();
    let is_lossy = weakness.durability == Durability::Local;
    shared.borrow().check_races(is_lossy && weakness.manager == Some(Loss::Power));
}

/// Runs this for each worker at the same time, to the end.
fn each_worker(
    world: &mut World,
    workers: &[Rc<RefCell<Worker>>],
    task: impl AsyncFn(&mut Worker) + Copy + 'static,
) {
    for (host, worker) in HOSTS.iter().zip(workers) {
        let worker = worker.clone();
        // Each worker is borrowed by its own process only.
        #[allow(clippy::await_holding_refcell_ref)]
        world.spawn(host, async move { task(&mut worker.borrow_mut()).await });
    }
    world.run(Duration::from_secs(7200));
}

/// Makes the directories, in quiet weather.
fn prepare(world: &mut World, metadata: Duration) -> Vec<Rc<RefCell<Worker>>> {
    let made = Rc::new(RefCell::new(Vec::new()));
    let patience = Patience { metadata, ..Patience::default() };
    let clients = HOSTS.map(|host| world.patient_client(host, patience));
    let (first, result) = (world.client(HOSTS[0]), made.clone());
    world.spawn(HOSTS[0], async move {
        let root = first.user.root().await.expect("the weather is fine");
        let shared = first.user.mkdir(Target::below(root, "shared"), 0o777).await.expect("fine");
        shared::prepare(&first, shared.handle).await;
        result.borrow_mut().push(shared.handle);
        for host in HOSTS {
            let own = first.user.mkdir(Target::below(root, host), 0o777).await.expect("fine");
            result.borrow_mut().push(own.handle);
        }
    });
    world.run(Duration::from_secs(60));
    let handles = made.borrow().clone();
    let shared = Rc::new(RefCell::new(Shared::new(handles[0])));
    let workers = clients.into_iter().zip(&handles[1..]).map(|(client, own)| {
        Rc::new(RefCell::new(Worker {
            client,
            chance: world.chance(),
            own: *own,
            possible: Possible::new(),
            losses: world.losses(),
            losses_seen: 0,
            shared: shared.clone(),
        }))
    });
    workers.collect()
}

impl Worker {
    async fn step(&mut self) {
        let pause = self.chance.time(Duration::ZERO, Duration::from_millis(100));
        self.client.sleep(pause).await;
        match self.chance.between(0, 9) {
            0..=5 => self.act().await,
            6..=7 => shared::move_token(&self.client, &mut self.chance, &self.shared).await,
            8 => shared::race(&self.client, &self.shared).await,
            _ => shared::list(&self.client, &mut self.chance, &self.shared).await,
        }
    }

    async fn look_around(&mut self) {
        self.try_act(Act::List).await;
        for name in 0..NAMES {
            self.try_act(Act::Stat(name)).await;
        }
        shared::count_tokens(&self.client, &self.shared).await;
    }

    async fn act(&mut self) {
        let act = self.any_act();
        self.try_act(act).await;
    }

    fn any_act(&mut self) -> Act {
        let (one, other) = (self.any_name(), self.any_name());
        let mode = self.chance.between(0o100, 0o777) as u32;
        match self.chance.between(0, 19) {
            0..=4 => Act::Create(one, mode),
            5..=6 => Act::Mkdir(one, mode),
            7..=9 => Act::Rename(one, other, Replacing::Yes),
            10 => Act::Rename(one, other, Replacing::No),
            11 => Act::Rename(one, other, Replacing::Exchange),
            12..=13 => Act::Unlink(one),
            14 => Act::Rmdir(one),
            15..=16 => Act::Link(one, other),
            17 => Act::Chmod(one, mode),
            18 => Act::Stat(one),
            _ => Act::List,
        }
    }

    fn any_name(&mut self) -> u8 {
        self.chance.between(0, u64::from(NAMES) - 1) as u8
    }

    async fn try_act(&mut self, act: Act) {
        let begun = self.client.now();
        let told = known(self.do_act(act).await);
        let losses = self.losses.of(Victim::Manager).split_off(self.losses_seen);
        self.losses_seen += losses.len();
        let span = Span { begun, ended: self.client.now(), losses };
        self.possible.note(act, &told, &span);
    }

    async fn do_act(&mut self, act: Act) -> pvfs_client::Result<Told> {
        let user = &self.client.user;
        match act {
            Act::Create(name, mode) => return self.create(name, mode).await,
            Act::Mkdir(name, mode) => {
                user.mkdir(self.target(name), mode).await?;
            }
            Act::Rename(from, to, how) => {
                let (from, to) = (self.target(from), self.target(to));
                user.rename(from, to, flags(how)).await?;
            }
            Act::Unlink(name) => {
                user.unlink(self.target(name)).await?;
            }
            Act::Rmdir(name) => {
                user.rmdir(self.target(name)).await?;
            }
            Act::Link(from, to) => {
                user.link(self.target(from), false, self.target(to)).await?;
            }
            Act::Chmod(name, mode) => {
                user.set_attr(chmod(self.target(name), mode)).await?;
            }
            Act::Stat(name) => {
                let attr = user.stat_lite(self.target(name), false).await?;
                let is_dir = attr.kind == FileKind::Directory;
                return Ok(Told::Seen(Node { is_dir, mode: attr.mode, nlink: attr.nlink }));
            }
            Act::List => return self.list().await,
        }
        Ok(Told::Done)
    }

    async fn create(&mut self, name: u8, mode: u32) -> pvfs_client::Result<Told> {
        let user = &self.client.user;
        if self.chance.between(0, 1) == 0 {
            user.mknod(self.target(name), FileKind::Regular, mode, 0).await?;
            return Ok(Told::Done);
        }
        let flags = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::READ;
        let file = user.open_regular(self.target(name), flags, mode, Striping::default()).await?;
        // Whether the close is answered says nothing about the name.
        let _ = user.close(file).await;
        Ok(Told::Done)
    }

    async fn list(&self) -> pvfs_client::Result<Told> {
        let mut names: Vec<(u8, bool)> = Vec::new();
        for entry in self.client.user.list(self.own, false).await? {
            let name = std::str::from_utf8(&entry.name).expect("we made these names");
            names.push((name[1..].parse().expect("a number"), entry.kind == FileKind::Directory));
        }
        names.sort_unstable();
        Ok(Told::Names(names))
    }

    fn target(&self, name: u8) -> Target {
        Target::below(self.own, format!("n{name}"))
    }
}

fn flags(replacing: Replacing) -> RenameFlags {
    match replacing {
        Replacing::Yes => RenameFlags::NONE,
        Replacing::No => RenameFlags::NOREPLACE,
        Replacing::Exchange => RenameFlags::EXCHANGE,
    }
}

fn chmod(target: Target, mode: u32) -> SetAttr {
    let (uid, gid, atime, mtime) = (None, None, None, None);
    SetAttr { target, follow: false, mode: Some(mode), uid, gid, atime, mtime }
}

const NAMES: u8 = 6;
