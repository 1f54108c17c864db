//! The size of a file that several write: never less than what was written before somebody asked, and never more than what
//! anybody had begun to write.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use pvfs_client::{OpenFile, Result};
use pvfs_sim::{Chance, Client, Command, Loss, Settings, Trouble, World, seeds};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

use super::{MINUTES, UNHURRIED, insist};
use crate::caching::{Stopped, keep_lease};

const HOSTS: [&str; 3] = ["c0", "c1", "c2"];
const STEPS: u32 = 60;

/// What is known of the file from outside.
#[derive(Default)]
struct Ends {
    done: Cell<u64>,
    begun: Cell<u64>,
}

struct Player {
    client: Client,
    caches: bool,
    chance: Chance,
    ends: Rc<Ends>,
    files: Vec<OpenFile>,
}

impl Player {
    async fn play(&mut self) {
        for _ in 0..STEPS {
            self.client.sleep(self.chance.time(Duration::ZERO, Duration::from_millis(3))).await;
            match self.chance.between(0, 9) {
                0..=2 => self.open().await,
                3 => self.grow().await,
                4..=5 => self.close().await,
                _ => self.look().await,
            }
        }
        while !self.files.is_empty() {
            self.close().await;
            self.look().await;
        }
    }

    async fn target(&self) -> Target {
        let root = insist(&self.client, async || self.client.user.root().await).await;
        Target::below(root, "f")
    }

    async fn open(&mut self) {
        let target = self.target().await;
        let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
        let open = async || {
            self.client.user.open_regular(target.clone(), flags, 0o666, Striping::default()).await
        };
        self.files.push(insist(&self.client, open).await);
    }

    async fn grow(&mut self) {
        let Some(file) = self.files.last() else { return };
        let begin = self.ends.done.get() + self.chance.between(0, 3);
        let bytes = vec![7; self.chance.between(1, 5) as usize];
        let end = begin + bytes.len() as u64;
        self.ends.begun.set(self.ends.begun.get().max(end));
        insist(&self.client, async || self.client.user.write_at(file, begin, &bytes, false).await)
            .await;
        self.ends.done.set(self.ends.done.get().max(end));
    }

    /// Everybody asks now and then, whether they have it open or not.
    async fn look(&mut self) {
        let target = self.target().await;
        let least = self.ends.done.get();
        let size = match self.files.first() {
            Some(file) => insist(&self.client, async || self.size_of(file).await).await,
            None => match self.client.user.stat(target, false).await {
                Ok(attr) => attr.size,
                Err(_) => return,
            },
        };
        let most = self.ends.begun.get();
        assert!((least..=most).contains(&size), "{size} is not from {least} to {most}");
    }

    /// As a mount is asked by its kernel, or a program asks by itself.
    async fn size_of(&self, file: &OpenFile) -> Result<u64> {
        let user = &self.client.user;
        if !self.caches {
            return Ok(user.stat_open(file.handle).await?.size);
        }
        let (attr, placement, _) = user.attributes(file.handle).await?;
        Ok(user.completed_patiently(attr, placement.as_ref()).await?.size)
    }

    async fn close(&mut self) {
        if !self.files.is_empty() {
            let at = self.chance.between(0, self.files.len() as u64 - 1) as usize;
            let file = self.files.swap_remove(at);
            // What a close cannot tell is asked from the iods afterwards.
            let _ = self.client.user.close(file).await;
        }
    }
}

#[test]
fn sizes_are_those_of_some_moment_while_they_were_asked_for() {
    seeds::each("sizes_are_those_of_some_moment_while_they_were_asked_for", 40, |seed| {
        scenario(seed, None, false);
    });
}

#[test]
fn sizes_are_right_while_connections_and_managers_are_lost() {
    seeds::each("sizes_are_right_while_connections_and_managers_are_lost", 25, |seed| {
        scenario(seed, Some(Loss::Process), false);
    });
}

#[test]
fn sizes_are_right_for_clients_that_cache() {
    seeds::each("sizes_are_right_for_clients_that_cache", 40, |seed| scenario(seed, None, true));
}

#[test]
fn sizes_are_right_for_clients_that_cache_while_managers_are_lost() {
    seeds::each("sizes_are_right_for_clients_that_cache_while_managers_are_lost", 25, |seed| {
        scenario(seed, Some(Loss::Process), true);
    });
}

fn scenario(seed: u64, manager: Option<Loss>, caches: bool) {
    let mut world = World::new(seed, Settings::default());
    if manager.is_some() {
        let mut trouble = Trouble::new(world.chance(), &HOSTS, 3);
        trouble.manager = manager;
        world.set_trouble(trouble);
    }
    let (ends, left) = (Rc::<Ends>::default(), Rc::new(Cell::new(HOSTS.len())));
    for host in HOSTS {
        let client = world.patient_client(host, UNHURRIED);
        let (chance, ends) = (world.chance(), ends.clone());
        if caches {
            world.spawn(host, keep_lease(client.clone(), Stopped::default()));
        }
        let mut player = Player { client, caches, chance, ends, files: Vec::new() };
        let left = left.clone();
        world.spawn(host, async move {
            player.play().await;
            left.set(left.get() - 1);
        });
    }
    // Those who keep a lease never end.
    let mut patience = MINUTES.as_secs() * 12;
    while left.get() > 0 {
        world.run_for(Duration::from_secs(1));
        patience = patience.checked_sub(1).expect("some client did not end");
    }
    world.command(Command::Mend);
}
