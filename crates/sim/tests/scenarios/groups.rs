//! Group opens: no server is needed to share one, and it is an open like any other until its time is over.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pvfs_client::Group;
use pvfs_sim::{Client, Command, Loss, Settings, Trouble, Victim, World, seeds};
use pvfs_wire::attr::{SizeState, Striping};
use pvfs_wire::group_handle::GroupHandle;
use pvfs_wire::ops::{OpenFlags, Target};
use pvfs_wire::token::{KeyRing, Rights};
use pvfs_wire::{Errno, Handle};

use crate::outcome::known;

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
    let (mut world, handle) = opened(FLAGS, Group::default());
    let client = world.client("c1");
    let before = requests(&world);
    run(&mut world, "c1", async move {
        for at in 0..handle.len() {
            let cut = &handle[..at];
            assert!(client.user.openfh(cut).is_err(), "cut at {at}");
            let mut changed = handle.clone();
            changed[at] ^= 0x10;
            let keyed = client.user.openfh_sealed(&changed, &KeyRing::new(&[[7; 32]]));
            assert!(keyed.is_err(), "byte {at}");
            // Without the key a change of the seal itself is for the manager to see.
            let mut damaged = vec![cut];
            damaged.extend(client.user.openfh(&changed).is_err().then_some(&changed[..]));
            for damaged in damaged {
                assert!(client.user.renewg(damaged).await.is_err(), "byte {at}");
                assert!(client.user.closeg(damaged).await.is_err(), "byte {at}");
            }
        }
    });
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

#[test]
fn a_number_of_a_group_is_added_to_exactly_once_whatever_breaks() {
    seeds::each("a_number_of_a_group_is_added_to_exactly_once_whatever_breaks", 25, adding);
}

/// What was added, and what the number was before, if anybody was told.
type Added = (i64, Option<i64>);

fn adding(seed: u64) {
    const HOSTS: [&str; 4] = ["c0", "c1", "c2", "c3"];
    let mut world = World::new(seed, Settings { iods: IODS, ..Settings::default() });
    let opener = world.client("opener");
    let group = Group { lifetime_s: 24 * 3600, ..Group::default() };
    let handle = run(&mut world, "opener", async move {
        opener.user.root().await.unwrap();
        opener.user.openg(name(), FLAGS, 0o600, Striping::default(), group).await.unwrap().handle
    });
    let mut trouble = Trouble::new(world.chance(), &HOSTS, IODS);
    trouble.manager = Some(Loss::Process);
    world.set_trouble(trouble);
    let added = Rc::new(RefCell::new(Vec::<Added>::new()));
    for host in HOSTS {
        let (client, mut chance) = (world.client(host), world.chance());
        let (added, handle) = (added.clone(), handle.clone());
        world.spawn(host, async move {
            let file = client.user.openfh(&handle).unwrap();
            for _ in 0..15 {
                let by = chance.between(1, 500) as i64;
                let before = known(client.user.fetch_and_add(&file, by).await);
                added.borrow_mut().push((by, before.and_then(Result::ok)));
            }
        });
    }
    world.run(Duration::from_secs(36_000));
    world.command(Command::Mend);
    let last = world.client("last");
    let sum = run(&mut world, "last", async move {
        let file = last.user.openfh(&handle).unwrap();
        last.user.fetch_and_add(&file, 0).await.unwrap()
    });
    check_added(&added.borrow(), sum);
}

fn check_added(added: &[Added], sum: i64) {
    let mut told: Vec<(i64, i64)> = added
        .iter()
        .filter_map(|(by, before)| before.map(|before| (before, before + by)))
        .collect();
    assert!(told.len() > added.len() / 2, "only {} were answered", told.len());
    told.sort_unstable();
    assert!(told.windows(2).all(|pair| pair[0].1 <= pair[1].0), "handed out twice: {told:?}");
    assert!(told.last().is_none_or(|last| last.1 <= sum), "{sum} is less than what was told");
    // What nobody was told of was added once or not at all.
    let rest = sum - told.iter().map(|(before, after)| after - before).sum::<i64>();
    let mut sums = std::collections::BTreeSet::from([0]);
    for (by, _) in added.iter().filter(|(_, before)| before.is_none()) {
        let more: Vec<i64> = sums.iter().map(|sum| sum + by).collect();
        sums.extend(more);
    }
    assert!(sums.contains(&rest), "{rest} is more than what nobody was told of");
}

#[test]
fn the_number_of_a_group_is_the_groups_own_and_outlives_the_manager_but_not_the_open() {
    let (mut world, handle) = opened(FLAGS, Group::default());
    let client = world.client("c1");
    let (user, shared) = (client.user.clone(), handle.clone());
    run(&mut world, "c1", async move {
        let errno = |result: pvfs_client::Result<i64>| result.unwrap_err().errno();
        let file = user.openfh(&shared).unwrap();
        assert_eq!(user.fetch_and_add(&file, 100).await, Ok(0));
        assert_eq!(user.fetch_and_set(&file, 7).await, Ok(100));
        assert_eq!(errno(user.fetch_and_add(&file, -8).await), Errno::EINVAL);
        assert_eq!(errno(user.fetch_and_set(&file, -1).await), Errno::EINVAL);
        assert_eq!(errno(user.fetch_and_add(&file, i64::MAX).await), Errno::EOVERFLOW);
        assert_eq!(user.fetch_and_add(&file, -2).await, Ok(7));
        let other = user.openg(name(), FLAGS, 0, Striping::default(), Group::default()).await;
        let other = user.openfh(&other.unwrap().handle).unwrap();
        assert_eq!(user.fetch_and_add(&other, 1).await, Ok(0), "another open, another number");
        let own = user.open_regular(name(), FLAGS, 0, Striping::default()).await.unwrap();
        assert_eq!(errno(user.fetch_and_add(&own, 1).await), Errno::EINVAL);
        user.close(own).await.unwrap();
    });
    world.command(Command::StopManager(Loss::Power));
    world.command(Command::StartManager);
    run(&mut world, "c1", async move {
        let file = client.user.openfh(&handle).unwrap();
        assert_eq!(client.user.fetch_and_add(&file, 1).await, Ok(5));
        client.user.closeg(&handle).await.unwrap();
        let late = client.user.fetch_and_add(&file, 1).await;
        assert_eq!(late.unwrap_err().errno(), Errno::ESTALE);
    });
}
