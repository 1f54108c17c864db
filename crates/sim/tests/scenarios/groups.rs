//! Group opens: no server is needed to share one, and it is an open like any other until its time is over.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pvfs_client::Group;
use pvfs_sim::{Client, Command, Loss, Settings, Victim, World};
use pvfs_wire::attr::{SizeState, Striping};
use pvfs_wire::group_handle::GroupHandle;
use pvfs_wire::ops::{OpenFlags, Target};
use pvfs_wire::token::{KeyRing, Rights};
use pvfs_wire::{Errno, Handle};

const IODS: u32 = 3;
const SOON: Duration = Duration::from_secs(60);
const FLAGS: OpenFlags = OpenFlags::CREATE.with(OpenFlags::READ).with(OpenFlags::WRITE);

/// Beyond the lifetime of [`BRIEF`] and what clocks may differ, twice.
const OVER: Duration = Duration::from_secs(150);
const BRIEF: Group = Group { lifetime_s: 10, sharers: pvfs_wire::ops::Sharers::User };

fn name() -> Target {
    Target::below(Handle::root(1, 1), "file")
}

/// A world in which `c0` has opened a file for all.
fn opened(flags: OpenFlags, group: Group) -> (World, Vec<u8>) {
    let mut world = World::new(3, Settings { iods: IODS, ..Settings::default() });
    let opener = world.client("c0");
    let handle = run(&mut world, "c0", async move {
        opener.user.root().await.unwrap();
        let created = opener.user.open_regular(name(), FLAGS, 0o600, Striping::default()).await;
        opener.user.close(created.unwrap()).await.unwrap();
        opener.user.openg(name(), flags, 0o600, Striping::default(), group).await.unwrap().handle
    });
    (world, handle)
}

/// Runs a process to its end and has what it returns.
fn run<T: 'static>(world: &mut World, host: &str, process: impl Future<Output = T> + 'static) -> T {
    let slot = Rc::new(RefCell::new(None));
    let result = slot.clone();
    world.spawn(host, async move {
        let value = process.await;
        *result.borrow_mut() = Some(value);
    });
    world.run(Duration::from_secs(3600));
    slot.take().expect("it has ended")
}

fn requests(world: &World) -> u64 {
    let iods: u64 = (0..IODS).map(|iod| world.requests(Victim::Iod(iod))).sum();
    iods + world.requests(Victim::Manager)
}

#[test]
fn ninety_processes_share_an_open_and_no_message_is_sent() {
    let (mut world, handle) = opened(FLAGS, Group::default());
    let before = requests(&world);
    for number in 0..90 {
        let client = world.client("c1");
        let file = client.user.openfh(&handle).unwrap();
        assert_eq!(client.user.group_attr(&handle).unwrap().handle, file.handle);
        run(&mut world, "c1", async move {
            client.user.close(file).await.unwrap();
            number
        });
    }
    assert_eq!(requests(&world), before);
}

#[test]
fn a_handle_is_opened_while_all_servers_are_stopped() {
    let (mut world, handle) = opened(FLAGS, Group::default());
    world.command(Command::StopManager(Loss::Power));
    (0..IODS).for_each(|iod| world.command(Command::StopIod(iod, Loss::Power)));
    let client = world.client("c1");
    let file = client.user.openfh(&handle).unwrap();
    world.command(Command::Mend);
    run(&mut world, "c1", async move {
        client.user.write_at(&file, 3, b"they are back", false).await.unwrap();
    });
}

#[test]
fn what_one_writes_the_others_read_and_every_stat_sees() {
    let (mut world, handle) = opened(FLAGS, Group::default());
    let (writer, reader, stranger) = (world.client("c1"), world.client("c2"), world.client("c3"));
    run(&mut world, "c1", async move {
        let file = writer.user.openfh(&handle).unwrap();
        writer.user.write_at(&file, 5000, b"shared", true).await.unwrap();
        writer.user.close(file).await.unwrap();
        let file = reader.user.openfh(&handle).unwrap();
        let mut buffer = [0; 10];
        assert_eq!(reader.user.read_at(&file, 5000, &mut buffer).await, Ok(6));
        assert_eq!(&buffer[..6], b"shared");
        assert_eq!(stranger.user.stat(name(), true).await.unwrap().size, 5006);
        assert_eq!(reader.user.truncate_file(&file, 100).await.unwrap().size, 100);
        assert_eq!(stranger.user.stat(name(), true).await.unwrap().size, 100);
    });
}

#[test]
fn an_unlinked_file_stays_for_the_group_until_its_time_is_over() {
    let (mut world, handle) = opened(FLAGS, BRIEF);
    let client = world.client("c1");
    let shared = handle.clone();
    run(&mut world, "c1", async move {
        let file = client.user.openfh(&shared).unwrap();
        client.user.write_at(&file, 0, &[1; 9000], false).await.unwrap();
        client.user.unlink(name()).await.unwrap();
        let mut buffer = [0; 9000];
        assert_eq!(client.user.read_at(&file, 0, &mut buffer).await, Ok(9000));
    });
    assert!(!world.objects().is_empty());
    world.run_for(OVER + OVER);
    assert!(world.objects().is_empty(), "nobody can read it any more");
    world.check_names();
    let late = world.client("c2");
    assert_eq!(late.user.openfh(&handle).unwrap_err().errno(), Errno::ESTALE);
    run(&mut world, "c2", async move {
        assert_eq!(late.user.renewg(&handle).await.unwrap_err().errno(), Errno::ESTALE);
        late.user.closeg(&handle).await.unwrap();
    });
}

#[test]
fn a_restarted_manager_knows_shared_opens_and_they_outlive_their_opener() {
    let (mut world, handle) = opened(FLAGS, Group::default());
    let client = world.client("c1");
    let user = client.user.clone();
    run(&mut world, "c1", async move { user.unlink(name()).await.unwrap() });
    world.command(Command::StopManager(Loss::Power));
    world.command(Command::StartManager);
    // Whoever opened it makes no call any more, and every lease of before ends.
    world.run_for(Duration::from_secs(300));
    run(&mut world, "c1", async move {
        let file = client.user.openfh(&handle).unwrap();
        client.user.write_at(&file, 0, b"still there", false).await.unwrap();
        let renewed = client.user.renewg(&handle).await.unwrap();
        assert_ne!(renewed, handle);
        client.user.openfh(&renewed).unwrap();
        client.user.closeg(&handle).await.unwrap();
        client.user.closeg(&handle).await.unwrap();
    });
    world.run_for(Duration::from_secs(180));
    assert!(world.objects().is_empty());
    world.check_names();
}

#[test]
fn use_renews_a_shared_open_and_its_capability() {
    let group = Group { lifetime_s: 900, ..Group::default() };
    let (mut world, handle) = opened(FLAGS, group);
    let client = world.client("c1");
    let file = Rc::new(client.user.openfh(&handle).unwrap());
    for _ in 0..4 {
        world.run_for(Duration::from_secs(700));
        let (client, file) = (client.clone(), file.clone());
        let before = world.requests(Victim::Manager);
        run(&mut world, "c1", async move {
            client.user.write_at(&file, 0, b"on it goes", false).await.unwrap();
        });
        assert_eq!(world.requests(Victim::Manager), before + 1, "one renewal each");
    }
}

#[test]
fn the_size_is_settled_once_the_group_has_closed() {
    let (mut world, handle) = opened(FLAGS, Group::default());
    let client = world.client("c1");
    let attr = run(&mut world, "c1", async move {
        let file = client.user.openfh(&handle).unwrap();
        client.user.write_at(&file, 0, &[1; 7000], false).await.unwrap();
        client.user.close(file).await.unwrap();
        client.user.closeg(&handle).await.unwrap();
        client.user.stat(name(), true).await.unwrap();
        client.user.stat_lite(name(), true).await.unwrap()
    });
    assert_eq!((attr.size, attr.size_state), (7000, SizeState::Settled));
}

#[test]
fn a_handle_gives_no_more_than_its_opener_had() {
    let (mut world, handle) = opened(OpenFlags::READ, Group::default());
    let client = world.client("c1");
    run(&mut world, "c1", async move {
        let file = client.user.openfh(&handle).unwrap();
        let write = client.user.write_at(&file, 0, b"x", false).await;
        assert_eq!(write.unwrap_err().errno(), Errno::EBADF);
        // Somebody changes flags and rights, and makes the checksum fit.
        let mut forged = GroupHandle::read(&handle, 1, 0).unwrap();
        forged.flags = OpenFlags::READ | OpenFlags::WRITE;
        forged.rights = Rights::READ | Rights::WRITE;
        let own_key = KeyRing::new(&[[9; 32]]);
        let forged_bytes = forged.seal(&own_key);
        assert!(client.user.openfh_sealed(&forged_bytes, &KeyRing::new(&[[7; 32]])).is_err());
        let file = client.user.openfh(&forged_bytes).unwrap();
        let write = client.user.write_at(&file, 0, b"x", false).await;
        assert_eq!(write.unwrap_err().errno(), Errno::EACCES);
        forged.capability.0[10] ^= 1;
        let file = client.user.openfh(&forged.seal(&own_key)).unwrap();
        let read = client.user.read_at(&file, 0, &mut [0]).await;
        assert_eq!(read.unwrap_err().errno(), Errno::EKEYREJECTED);
        let renewed = client.user.renewg(&forged_bytes).await;
        assert_eq!(renewed.unwrap_err().errno(), Errno::EKEYREJECTED);
        let closed = client.user.closeg(&forged_bytes).await;
        assert_eq!(closed.unwrap_err().errno(), Errno::EKEYREJECTED);
    });
}

#[test]
fn damaged_handles_are_refused_before_anything_is_sent() {
    let (world, handle) = opened(FLAGS, Group::default());
    let client = world.client("c1");
    let before = requests(&world);
    for at in 0..handle.len() {
        assert!(client.user.openfh(&handle[..at]).is_err(), "cut at {at}");
        let mut changed = handle.clone();
        changed[at] ^= 0x10;
        let keyed = client.user.openfh_sealed(&changed, &KeyRing::new(&[[7; 32]]));
        assert!(keyed.is_err(), "byte {at}");
    }
    assert_eq!(requests(&world), before);
}

#[test]
fn a_group_open_can_create_and_cut_but_not_append() {
    let (mut world, _) = opened(FLAGS, Group::default());
    let client: Client = world.client("c1");
    run(&mut world, "c1", async move {
        let user = &client.user;
        let file = user.open_regular(name(), FLAGS, 0o600, Striping::default()).await.unwrap();
        user.write_at(&file, 0, &[1; 5000], false).await.unwrap();
        user.close(file).await.unwrap();
        let open = async |flags, path| {
            let target = Target::below(Handle::root(1, 1), path);
            user.openg(target, flags, 0o600, Striping::default(), Group::default()).await
        };
        let cut = open(OpenFlags::WRITE | OpenFlags::TRUNCATE, "file").await.unwrap();
        assert!(!cut.created);
        assert_eq!(user.stat(name(), true).await.unwrap().size, 0);
        let exclusive = FLAGS | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
        assert!(open(exclusive, "new").await.unwrap().created);
        let errno = |result: pvfs_client::Result<_>| result.map(drop).unwrap_err().errno();
        assert_eq!(errno(open(exclusive, "new").await), Errno::EEXIST);
        let append = OpenFlags::WRITE | OpenFlags::APPEND;
        assert_eq!(errno(open(append, "file").await), Errno::EINVAL);
        let both = append | OpenFlags::TRUNCATE;
        assert_eq!(errno(open(both, "file").await), Errno::EINVAL);
        user.mkdir(Target::below(Handle::root(1, 1), "dir"), 0o700).await.unwrap();
        assert_eq!(errno(open(OpenFlags::READ, "dir").await), Errno::EISDIR);
        assert_eq!(errno(open(OpenFlags::READ, "none").await), Errno::ENOENT);
    });
    world.run_for(SOON);
    world.check_names();
}
