//! Locks, opens and unlinked files live as long as their client, and no longer.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pvfs_client::{OpenFile, Wait};
use pvfs_net::memory::{Crash, GIVE_UP_AFTER};
use pvfs_net::runtime::Instant;
use pvfs_sim::{Client, Command, Loss, ProcessId, Settings, World, seeds};
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{Lock, LockFamily, LockKind, OpenFlags, Target};

const LEASE: Duration = Duration::from_secs(30);
/// What a restarted manager gives clients without an agent.
const RESTART: Duration = Duration::from_secs(300);
const LONG: Duration = Duration::from_secs(100_000);
/// Delays of a quiet network, a turn of waiting, a tick.
const SLACK: Duration = Duration::from_secs(2);

async fn open(client: &Client) -> OpenFile {
    let root = client.user.root().await.expect("the weather is fine");
    let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
    let name = Target::below(root, "file");
    let file = client.user.open_regular(name, flags, 0o600, Striping::default()).await;
    file.expect("the weather is fine")
}

async fn unlink(client: &Client) {
    let root = client.user.root().await.expect("the weather is fine");
    client.user.unlink(Target::below(root, "file")).await.expect("the weather is fine");
}

/// A file that never has a name.
async fn nameless(client: &Client) -> OpenFile {
    let root = Target::object(client.user.root().await.expect("the weather is fine"));
    let flags = OpenFlags::WRITE | OpenFlags::DIRECTORY | OpenFlags::NAMELESS;
    let file = client.user.open_regular(root, flags, 0o600, Striping::default()).await;
    file.expect("the weather is fine")
}

fn whole_file(file: &OpenFile) -> Lock {
    let (family, kind) = (LockFamily::Flock, LockKind::Write);
    let (owner, pid, start, end) = (1, 1, 0, u64::MAX);
    Lock { handle: file.handle, family, owner, pid, kind, start, end, wait_ms: 0 }
}

/// A process that locks the file and then does nothing for ever.
fn spawn_holder(world: &mut World, host: &'static str) -> ProcessId {
    let client = world.client(host);
    let process = world.spawn(host, async move {
        let file = open(&client).await;
        client.user.lock(whole_file(&file), Wait::No).await.expect("nobody else has it");
        client.sleep(LONG).await;
    });
    world.run_for(SLACK);
    process
}

/// When somebody else gets the lock, having waited for it from now on.
fn spawn_waiter(world: &mut World) -> Rc<RefCell<Option<Instant>>> {
    let (client, got) = (world.client("waiter"), Rc::default());
    let result: Rc<RefCell<Option<Instant>>> = Rc::clone(&got);
    world.spawn("waiter", async move {
        let file = open(&client).await;
        let lock = client.user.lock(whole_file(&file), Wait::Until(&|| false)).await;
        lock.expect("it is freed some time");
        *result.borrow_mut() = Some(client.now());
    });
    got
}

fn time_until_freed(seed: u64, end: impl FnOnce(&mut World, ProcessId)) -> Duration {
    time_until_freed_in(World::new(seed, Settings::default()), end)
}

/// The like, with an agent on the holder's node.
fn time_until_freed_by_agent(seed: u64, end: impl FnOnce(&mut World, ProcessId)) -> Duration {
    let mut world = World::new(seed, Settings::default());
    world.start_agent("holder");
    time_until_freed_in(world, end)
}

fn time_until_freed_in(mut world: World, end: impl FnOnce(&mut World, ProcessId)) -> Duration {
    let holder = spawn_holder(&mut world, "holder");
    let got = spawn_waiter(&mut world);
    world.run_for(Duration::from_secs(300));
    assert_eq!(*got.borrow(), None, "it was freed while its holder lived");
    let ended = world.now();
    end(&mut world, holder);
    world.run_for(Duration::from_secs(400));
    let got = got.borrow().expect("it was freed");
    ended.until(got)
}

#[test]
fn locks_of_a_killed_client_are_freed_within_the_lease() {
    seeds::each("locks_of_a_killed_client_are_freed_within_the_lease", 5, |seed| {
        let time = time_until_freed(seed, |world, holder| {
            world.command(Command::KillProcess(holder, Crash::Killed));
        });
        assert!(time <= LEASE + SLACK, "it took {time:?}");
    });
}

/// How many locks the clients hold that the manager tells of, by those that hold some, and how many files are open.
fn listed(world: &mut World) -> (Vec<u64>, u64) {
    let (client, got) = (world.client("watcher"), Rc::default());
    let result: Rc<RefCell<(Vec<u64>, u64)>> = Rc::clone(&got);
    world.spawn("watcher", async move {
        let clients = client.user.sessions().await.expect("the weather is fine");
        let locks = clients.iter().filter_map(|client| Some(client.locks?.held));
        let opens = clients.iter().map(|client| client.opens).sum();
        *result.borrow_mut() = (locks.filter(|held| *held > 0).collect(), opens);
    });
    world.run_for(SLACK);
    got.take()
}

#[test]
fn a_client_is_told_of_until_what_it_held_is_freed() {
    seeds::each("a_client_is_told_of_until_what_it_held_is_freed", 5, |seed| {
        let mut world = World::new(seed, Settings::default());
        let holder = spawn_holder(&mut world, "holder");
        assert_eq!(listed(&mut world), (vec![1], 1));
        world.command(Command::KillProcess(holder, Crash::Killed));
        world.run_for(LEASE + SLACK);
        assert_eq!(listed(&mut world), (vec![], 0));
    });
}

#[test]
fn locks_of_a_lost_node_are_freed_within_the_lease_once_that_is_noticed() {
    seeds::each("locks_of_a_lost_node_are_freed", 5, |seed| {
        let time = time_until_freed(seed, |world, holder| {
            world.command(Command::KillProcess(holder, Crash::Silent));
        });
        assert!(time <= GIVE_UP_AFTER + LEASE + SLACK, "it took {time:?}");
    });
}

fn dies_as_the_manager_does(world: &mut World, holder: ProcessId) {
    world.command(Command::KillProcess(holder, Crash::Killed));
    world.command(Command::StopManager(Loss::Process));
    world.run_for(SLACK);
    world.command(Command::StartManager);
}

#[test]
fn locks_of_a_dead_client_are_freed_although_the_manager_restarts() {
    seeds::each("locks_of_a_dead_client_are_freed_although_the_manager_restarts", 5, |seed| {
        let time = time_until_freed(seed, dies_as_the_manager_does);
        assert!(time <= RESTART + SLACK + SLACK, "it took {time:?}");
    });
}

#[test]
fn an_agent_has_locks_of_the_dead_freed_soon_although_the_manager_restarts() {
    seeds::each("an_agent_has_locks_of_the_dead_freed_soon", 5, |seed| {
        let time = time_until_freed_by_agent(seed, dies_as_the_manager_does);
        assert!(time <= SLACK + Duration::from_secs(5), "it took {time:?}");
    });
}

#[test]
fn an_agent_does_not_keep_the_locks_of_a_lost_node() {
    seeds::each("an_agent_does_not_keep_the_locks_of_a_lost_node", 5, |seed| {
        let time = time_until_freed_by_agent(seed, |world, holder| {
            world.command(Command::KillProcess(holder, Crash::Silent));
        });
        assert!(time <= GIVE_UP_AFTER + LEASE + SLACK, "it took {time:?}");
    });
}

/// The holder lives, idle, while `disturb` happens; it still has its lock, and can use its unlinked file.
fn keeps_all(seed: u64, disturb: impl FnOnce(&mut World)) {
    keeps_all_in(World::new(seed, Settings::default()), disturb);
}

fn keeps_all_in(mut world: World, disturb: impl FnOnce(&mut World)) {
    let client = world.client("holder");
    let is_over = Rc::new(RefCell::new(false));
    let over = is_over.clone();
    world.spawn("holder", async move {
        let file = open(&client).await;
        client.user.write_at(&file, 5, &[7; 5000], false).await.expect("the weather is fine");
        client.user.lock(whole_file(&file), Wait::No).await.expect("nobody else has it");
        while !*over.borrow() {
            client.sleep(SLACK).await;
        }
        let mut bytes = vec![0; 5000];
        let count = client.user.read_at(&file, 5, &mut bytes).await.expect("it is still open");
        assert_eq!((count, bytes), (5000, vec![7; 5000]));
        assert_eq!(client.user.filesystem().caller().leases_lost(), 0);
        client.user.close(file).await.expect("the weather is fine");
    });
    world.run_for(SLACK);
    let other = world.client("other");
    let rival = other.clone();
    let file = Rc::new(RefCell::new(None));
    let found = file.clone();
    world.spawn("other", async move {
        *found.borrow_mut() = Some(open(&rival).await);
        unlink(&rival).await;
    });
    world.run_for(SLACK);
    disturb(&mut world);
    let file = file.borrow_mut().take().expect("the file was opened");
    world.spawn("other", async move {
        let refused = other.user.lock(whole_file(&file), Wait::No).await.map_err(|e| e.errno());
        assert_eq!(refused, Err(Errno::EAGAIN), "a live client lost its lock");
        other.user.close(file).await.expect("the weather is fine");
        *is_over.borrow_mut() = true;
    });
    world.run(Duration::from_secs(100));
    world.run_for(Duration::from_secs(100));
    assert!(world.objects().is_empty(), "the unlinked file is still there");
}

#[test]
fn an_idle_live_client_loses_nothing() {
    seeds::each("an_idle_live_client_loses_nothing", 3, |seed| {
        keeps_all(seed, |world| world.run_for(Duration::from_secs(1800)));
    });
}

#[test]
fn an_idle_live_client_loses_nothing_when_the_manager_restarts() {
    seeds::each("an_idle_live_client_loses_nothing_when_the_manager_restarts", 3, |seed| {
        keeps_all(seed, |world| {
            world.command(Command::StopManager(Loss::Process));
            world.run_for(SLACK);
            world.command(Command::StartManager);
            world.run_for(RESTART - SLACK - SLACK);
        });
    });
}

#[test]
fn with_an_agent_an_idle_live_client_loses_nothing_however_long_it_is_idle() {
    seeds::each("with_an_agent_an_idle_live_client_loses_nothing", 3, |seed| {
        let mut world = World::new(seed, Settings::default());
        world.start_agent("holder");
        keeps_all_in(world, |world| {
            for loss in [Loss::Process, Loss::Power] {
                world.command(Command::StopManager(loss));
                world.run_for(Duration::from_secs(60));
                world.command(Command::StartManager);
                world.run_for(Duration::from_secs(3600));
            }
        });
    });
}

/// The last user of files without a name, of which one never had any, goes in this way; soon nothing of them is left on
/// any iod.
fn is_purged(seed: u64, within: Duration, end: impl FnOnce(&mut World, ProcessId)) {
    let mut world = World::new(seed, Settings::default());
    let client = world.client("holder");
    let process = world.spawn("holder", async move {
        let file = open(&client).await;
        unlink(&client).await;
        let files = [file, nameless(&client).await];
        for file in &files {
            client.user.write_at(file, 0, &[1; 9000], false).await.expect("the weather is fine");
        }
        client.sleep(Duration::from_secs(600)).await;
        for file in files {
            client.user.close(file).await.expect("the weather is fine");
        }
    });
    world.run_for(Duration::from_secs(500));
    assert_eq!(world.objects().len(), 2, "the files are still open");
    end(&mut world, process);
    world.run_for(within);
    assert!(world.objects().is_empty(), "objects are left: {:?}", world.objects());
}

#[test]
fn a_file_without_a_name_is_purged_when_it_is_closed() {
    seeds::each("a_file_without_a_name_is_purged_when_it_is_closed", 3, |seed| {
        is_purged(seed, Duration::from_secs(110), |_, _| ());
    });
}

#[test]
fn a_file_without_a_name_is_purged_when_its_user_dies() {
    seeds::each("a_file_without_a_name_is_purged_when_its_user_dies", 3, |seed| {
        is_purged(seed, LEASE + SLACK + SLACK, |world, process| {
            world.command(Command::KillProcess(process, Crash::Killed));
        });
    });
}

#[test]
fn a_file_without_a_name_is_purged_although_daemons_were_down() {
    seeds::each("a_file_without_a_name_is_purged_although_daemons_were_down", 3, |seed| {
        is_purged(seed, RESTART + Duration::from_secs(200), |world, process| {
            world.command(Command::StopIod(1, Loss::Power));
            world.command(Command::KillProcess(process, Crash::Killed));
            world.run_for(Duration::from_secs(20));
            world.command(Command::StopManager(Loss::Power));
            world.run_for(Duration::from_secs(20));
            world.command(Command::StartManager);
            world.run_for(Duration::from_secs(60));
            world.command(Command::StartIod(1));
        });
    });
}
