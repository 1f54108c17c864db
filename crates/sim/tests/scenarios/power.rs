//! What fsync promises when power is lost, one case at a time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pvfs_client::OpenFile;
use pvfs_sim::{Client, Command, Durability, Loss, Settings, World, seeds};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

const MINUTE: Duration = Duration::from_secs(60);
const OUTAGE: Duration = Duration::from_secs(2);

async fn open(client: &Client, flags: OpenFlags) -> pvfs_client::Result<OpenFile> {
    let root = client.user.root().await?;
    let name = Target::below(root, "file");
    client.user.open_regular(name, flags, 0o600, Striping::default()).await
}

fn read_back(world: &mut World) -> Option<Vec<u8>> {
    let (client, found) = (world.client("reader"), Rc::new(RefCell::new(None)));
    let result = found.clone();
    world.spawn("reader", async move {
        let Ok(file) = open(&client, OpenFlags::READ).await else { return };
        let mut bytes = vec![0; 100_000];
        let count = client.user.read_at(&file, 0, &mut bytes).await.expect("everything runs");
        bytes.truncate(count);
        *result.borrow_mut() = Some(bytes);
    });
    world.run(MINUTE);
    found.take()
}

/// Writes, waits while `between` happens, syncs; then every machine but the client's loses its power.
fn written_and_synced(seed: u64, between: impl FnOnce(&mut World)) {
    let settings = Settings { durability: Durability::Local, ..Settings::default() };
    let mut world = World::new(seed, settings);
    let client = world.client("writer");
    let synced = Rc::new(RefCell::new(None));
    let result = synced.clone();
    let pause = Rc::new(RefCell::new(true));
    let paused = pause.clone();
    world.spawn("writer", async move {
        let flags = OpenFlags::CREATE | OpenFlags::WRITE;
        let file = open(&client, flags).await.expect("everything runs");
        client.user.write_at(&file, 0, &[7; 50_000], false).await.expect("everything runs");
        while *paused.borrow() {
            client.sleep(Duration::from_millis(10)).await;
        }
        *result.borrow_mut() = Some(client.user.sync(&file).await);
    });
    world.run_for(Duration::from_millis(200));
    between(&mut world);
    *pause.borrow_mut() = false;
    while synced.borrow().is_none() {
        world.run_for(Duration::from_millis(5));
    }
    world.command(Command::StopManager(Loss::Power));
    (0..3).for_each(|iod| world.command(Command::StopIod(iod, Loss::Power)));
    world.run_for(OUTAGE);
    world.command(Command::Mend);
    if synced.take().is_some_and(|synced| synced.is_ok()) {
        let found = read_back(&mut world);
        assert!(found.is_some_and(|found| found == [7; 50_000]), "fsync said it was safe");
    }
}

#[test]
fn synced_data_survives_once_its_name_has() {
    seeds::each("synced_data_survives_once_its_name_has", 10, |seed| {
        written_and_synced(seed, |world| world.run_for(OUTAGE));
    });
}

#[test]
fn a_synced_new_file_survives() {
    seeds::each("a_synced_new_file_survives", 10, |seed| written_and_synced(seed, |_| ()));
}

#[test]
fn a_sync_after_a_loss_of_power_does_not_claim_what_was_lost() {
    seeds::each("a_sync_after_a_loss_of_power_does_not_claim_what_was_lost", 10, |seed| {
        written_and_synced(seed, |world| {
            world.run_for(OUTAGE);
            world.command(Command::StopIod(1, Loss::Power));
            world.run_for(OUTAGE);
            world.command(Command::StartIod(1));
        });
    });
}
