//! Appends by many: no two overlap, and what was answered is where it was said to be (D5).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pvfs_layout::Region;
use pvfs_sim::{Command, Loss, Settings, Trouble, World, seeds};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};
use pvfs_wire::{Errno, Handle};

use super::{UNHURRIED, insist, nothing_is_left};
use crate::outcome::known;

const HOSTS: [&str; 4] = ["c0", "c1", "c2", "c3"];
const EACH: u8 = 15;

/// An append: its tag, its length, and where it went, if anybody was told.
type Appended = (u8, usize, Option<u64>);

#[test]
fn appends_never_overlap() {
    seeds::each("appends_never_overlap", 25, scenario);
}

fn scenario(seed: u64) {
    let mut world = World::new(seed, Settings::default());
    let mut trouble = Trouble::new(world.chance(), &HOSTS, 3);
    trouble.manager = Some(Loss::Process);
    trouble.iod = Some(Loss::Process);
    world.set_trouble(trouble);
    let appended = Rc::new(RefCell::new(Vec::<Appended>::new()));
    for (host, number) in HOSTS.iter().zip(0..) {
        let (client, mut chance) = (world.client(host), world.chance());
        let appended = appended.clone();
        world.spawn(host, async move {
            let root = insist(&client, async || client.user.root().await).await;
            let name = Target::below(root, "log");
            let flags = OpenFlags::CREATE | OpenFlags::WRITE | OpenFlags::APPEND;
            let file = insist(&client, async || {
                client.user.open_regular(name.clone(), flags, 0o600, Striping::default()).await
            });
            let file = file.await;
            for round in 0..EACH {
                let tag = 1 + number * EACH + round;
                let bytes = chance.between(1, 3000) as usize;
                let offset = client.user.append(&file, &vec![tag; bytes], false).await;
                appended.borrow_mut().push((tag, bytes, known(offset).and_then(Result::ok)));
            }
            // Whoever cannot close loses the open with the lease.
            let _ = client.user.close(file).await;
        });
    }
    world.run(Duration::from_secs(36_000));
    world.command(Command::Mend);
    check(&mut world, &appended.borrow());
    let reader = world.patient_client("reader", UNHURRIED);
    nothing_is_left(&mut world, &reader, Handle::root(1, 1), &["log"]);
}

fn check(world: &mut World, appended: &[Appended]) {
    let bytes = Rc::new(RefCell::new(Vec::new()));
    let (client, result) = (world.patient_client("reader", UNHURRIED), bytes.clone());
    world.spawn("reader", async move {
        let root = client.user.root().await.expect("everything is mended");
        let name = Target::below(root, "log");
        let file = client.user.open_regular(name, OpenFlags::READ, 0, Striping::default()).await;
        let file = file.expect("everything is mended");
        let mut all = vec![0; 1 << 20];
        let count = client.user.read_at(&file, 0, &mut all).await.expect("everything is mended");
        all.truncate(count);
        *result.borrow_mut() = all;
        client.user.close(file).await.expect("everything is mended");
    });
    world.run(Duration::from_secs(600));
    let mut left = bytes.borrow().clone();
    let mut answered = 0;
    for (tag, count, offset) in appended {
        let Some(offset) = offset else { continue };
        answered += 1;
        let part = &mut left[*offset as usize..*offset as usize + count];
        assert!(part.iter().all(|byte| byte == tag), "append {tag} is not whole at {offset}");
        part.fill(0);
    }
    assert!(answered > appended.len() / 2, "only {answered} appends were answered");
    let unanswered =
        |byte: &u8| appended.iter().any(|(tag, _, offset)| tag == byte && offset.is_none());
    assert!(left.iter().all(|byte| *byte == 0 || unanswered(byte)), "bytes nobody appended");
}

#[test]
fn writes_by_position_through_opens_for_appending_append() {
    seeds::each("writes_by_position_through_opens_for_appending_append", 10, |seed| {
        let mut world = World::new(seed, Settings::default());
        for (host, number) in HOSTS.iter().zip(0..) {
            let (client, mut chance) = (world.client(host), world.chance());
            world.spawn(host, async move {
                let root = client.user.root().await.expect("the weather is fine");
                let name = Target::below(root, "log");
                let flags = OpenFlags::CREATE | OpenFlags::WRITE | OpenFlags::APPEND;
                let file = client.user.open_regular(name, flags, 0o600, Striping::default()).await;
                let file = file.expect("the weather is fine");
                for round in 0..EACH {
                    let data = vec![1 + number * EACH + round; LENGTH];
                    let place = chance.between(0, 100_000);
                    let written = match chance.between(0, 1) {
                        0 => client.user.write_at(&file, place, &data, false).await,
                        _ => client.user.append(&file, &data, false).await.map(|_| ()),
                    };
                    written.expect("the weather is fine");
                }
                let region = [Region { offset: 0, len: 1 }];
                let refused = client.user.writex(&file, &[b"x"], &region, false).await;
                assert_eq!(refused.map_err(|error| error.errno()), Err(Errno::EINVAL));
                client.user.close(file).await.expect("the weather is fine");
            });
        }
        world.run(Duration::from_secs(600));
        let (client, done) = (world.client("reader"), Rc::new(RefCell::new(false)));
        let checked = done.clone();
        world.spawn("reader", async move {
            let root = client.user.root().await.expect("the weather is fine");
            let name = Target::below(root, "log");
            let file = client.user.open_regular(name, OpenFlags::READ, 0, Striping::default());
            let file = file.await.expect("the weather is fine");
            let mut all = vec![0; 1 << 20];
            let count = client.user.read_at(&file, 0, &mut all).await.expect("the weather is fine");
            assert_eq!(
                count,
                HOSTS.len() * usize::from(EACH) * LENGTH,
                "nothing lies over another"
            );
            let whole = |part: &[u8]| part.iter().all(|byte| *byte == part[0] && *byte > 0);
            assert!(all[..count].chunks(LENGTH).all(whole));
            *checked.borrow_mut() = true;
        });
        world.run(Duration::from_secs(600));
        assert!(*done.borrow());
    });
}

const LENGTH: usize = 1500;
