//! Several reactor threads at once: every change once, readers beside them, one group for many.

use super::*;
use crate::store::{DiskStore, StoreOptions};

const THREADS: u64 = 8;
const FILES: u64 = 200;

/// Creates files from one client, a few in each round.
fn create(world: &World, client: u64) {
    let caller = world.client(client);
    for round in 0..FILES / 4 {
        let messages: Vec<Message> = (0..4)
            .map(|slot| {
                let file = round * 4 + slot;
                let open = world.open_file(&format!("{client}-{file}"), file + 1, CREATE);
                message(&open, slot as u16, round + 1)
            })
            .collect();
        let requests: Vec<(&Caller, &Message)> = messages.iter().map(|m| (&caller, m)).collect();
        world.send(&requests);
        messages.iter().for_each(|message| assert_eq!(wait_for(world, &caller, message), OK));
        // What was answered is visible to every query from now on.
        assert!(world.exists(&caller, &format!("{client}-{}", round * 4 + 3)));
    }
}

/// Another thread may be the one to answer.
fn wait_for(world: &World, caller: &Caller, message: &Message) -> Errno {
    for _ in 0..100_000 {
        if let Some(status) = world.status_of(caller, message) {
            return status;
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    panic!("request {} was not answered in ten seconds", message.header.tag);
}

/// Lists the root again and again: names never go, and a listing is in order.
fn list(world: &World, client: u64) {
    let caller = world.client(client);
    let mut seen = 0;
    for _ in 0..30 {
        let readdir =
            Readdir { dir: world.root(), cookie: 0, entries_max: 10_000, attributes: false };
        let entries = world.call(&caller, 0, &readdir).unwrap().entries;
        assert!(entries.len() >= seen, "{} names, there were {seen}", entries.len());
        assert!(entries.is_sorted_by_key(|entry| entry.cookie));
        seen = entries.len();
    }
}

fn check(store: Arc<dyn Backing>) {
    let world = World::on(store);
    std::thread::scope(|scope| {
        for client in 1..=THREADS {
            let world = &world;
            scope.spawn(move || create(world, client));
        }
        for reader in 1..=2 {
            let world = &world;
            scope.spawn(move || list(world, 100 + reader));
        }
        scope.spawn(|| (0..50).for_each(|_| world.manager.tick()));
    });
    assert_eq!(world.figure("objects"), THREADS * FILES + 1);
    assert_eq!(world.figure("opens"), THREADS * FILES);
    assert_eq!(world.figure("commits_failed_total"), 0);
    let snapshot = world.store.snapshot();
    assert_eq!(crate::namespace::check(&*snapshot).unwrap(), []);
}

#[test]
fn creates_of_eight_threads_beside_readers_all_happen_once() {
    check(Arc::new(MemoryStore::new()));
}

#[test]
fn creates_of_eight_threads_beside_readers_all_happen_once_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    check(Arc::new(DiskStore::open(directory.path(), StoreOptions::default()).unwrap()));
}
