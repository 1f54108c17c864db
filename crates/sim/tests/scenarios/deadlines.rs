//! A daemon that is stuck for ever: whatever needs it ends at its deadline, whatever does not goes on.

use std::rc::Rc;
use std::time::Duration;

use pvfs_client::OpenFile;
use pvfs_sim::{Client, Command, Loss, Settings, Trouble, Victim, World, seeds};
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Status, Target};

const SLACK: Duration = Duration::from_millis(500);

/// How an iod or manager is stuck.
#[derive(Clone, Copy, Debug)]
enum Stuck {
    /// Its process is stopped: the kernel still takes connections and bytes.
    Frozen,
    /// Nothing reaches it or comes from it.
    Unreachable,
}

impl Stuck {
    fn begin(self, world: &mut World, victim: Victim) {
        let host = match victim {
            Victim::Manager => "mgr0".to_owned(),
            Victim::Iod(iod) => format!("io{iod}"),
        };
        match self {
            Self::Frozen => world.command(Command::Freeze(victim)),
            Self::Unreachable => {
                world.network().partition("c0", &host);
                world.network().partition("c1", &host);
            }
        }
    }
}

async fn open(client: &Client, name: &str, striping: Striping) -> OpenFile {
    let root = client.user.root().await.expect("the manager answers");
    let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
    let file = client.user.open_regular(Target::below(root, name), flags, 0o600, striping).await;
    file.expect("the manager answers")
}

/// The result and how long it took.
async fn timed<T>(client: &Client, future: impl Future<Output = T>) -> (T, Duration) {
    let begun = client.now();
    let result = future.await;
    (result, begun.until(client.now()))
}

fn is_near(time: Duration, deadline: Duration) -> bool {
    (deadline..deadline + SLACK).contains(&(time + SLACK / 10))
}

fn each(name: &str, scenario: impl Fn(u64, Stuck)) {
    seeds::each(name, 4, |seed| {
        for stuck in [Stuck::Frozen, Stuck::Unreachable] {
            scenario(seed, stuck);
        }
    });
}

#[test]
fn a_stuck_iod_holds_up_its_own_data_only() {
    each("a_stuck_iod_holds_up_its_own_data_only", |seed, stuck| {
        let mut world = World::new(seed, Settings::default());
        let (one, other) = (world.client("c0"), world.client("c1"));
        world.spawn("c0", async move {
            let file = open(&one, "wide", Striping::default()).await;
            one.user.write_at(&file, 0, &[1; 9000], false).await.expect("nobody is stuck yet");
            one.sleep(Duration::from_secs(20)).await;
            let (result, time) = timed(&one, one.user.write_at(&file, 0, &[2; 9000], false)).await;
            assert_eq!(result.map_err(|error| error.errno()), Err(Errno::ETIMEDOUT));
            assert!(is_near(time, Duration::from_secs(30)), "a write took {time:?}");
            let mut buffer = [0; 9000];
            let (result, time) = timed(&one, one.user.read_at(&file, 0, &mut buffer)).await;
            assert_eq!(result.map_err(|error| error.errno()), Err(Errno::ETIMEDOUT));
            assert!(is_near(time, Duration::from_secs(30)), "a read took {time:?}");
            let (_, time) = timed(&one, one.user.sync(&file)).await;
            assert!(is_near(time, Duration::from_secs(30)), "a sync took {time:?}");
        });
        world.spawn("c1", async move {
            let striping = Striping { base: Some(0), pcount: Some(1), ..Striping::default() };
            let file = open(&other, "narrow", striping).await;
            for round in 0..100u8 {
                let bytes = [round];
                let write = other.user.write_at(&file, u64::from(round), &bytes, false);
                let (result, time) = timed(&other, write).await;
                result.expect("this file has nothing on the stuck iod");
                assert!(time < SLACK, "a write to another iod took {time:?}");
                let root = other.user.root().await.expect("the manager answers");
                let (listed, time) = timed(&other, other.user.list(root, true)).await;
                let count = listed.expect("the manager answers").len();
                // The other client may come a moment later.
                assert!(count == 2 || round == 0, "a name was left out");
                assert!(time < Duration::from_secs(3) + SLACK, "a listing took {time:?}");
                let (space, time) = timed(&other, other.user.statfs()).await;
                assert!(space.names.is_some() && time < Duration::from_secs(3) + SLACK);
                other.sleep(Duration::from_secs(1)).await;
            }
        });
        world.run_for(Duration::from_secs(5));
        stuck.begin(&mut world, Victim::Iod(1));
        world.run(Duration::from_secs(1000));
    });
}

#[test]
fn a_stuck_manager_holds_up_names_but_not_data() {
    each("a_stuck_manager_holds_up_names_but_not_data", |seed, stuck| {
        let mut world = World::new(seed, Settings::default());
        let (one, other) = (world.client("c0"), world.client("c1"));
        world.spawn("c0", async move {
            let root = one.user.root().await.expect("nobody is stuck yet");
            one.sleep(Duration::from_secs(20)).await;
            for name in ["a", "b"] {
                let mkdir = one.user.mkdir(Target::below(root, name), 0o700);
                let (result, time) = timed(&one, mkdir).await;
                assert_eq!(result.map_err(|error| error.errno()), Err(Errno::ETIMEDOUT));
                assert!(is_near(time, Duration::from_secs(10)), "a mkdir took {time:?}");
                let (_, time) = timed(&one, one.user.list(root, false)).await;
                assert!(is_near(time, Duration::from_secs(10)), "a listing took {time:?}");
            }
            let (space, time) = timed(&one, one.user.statfs()).await;
            assert!(space.names.is_none() && time < Duration::from_secs(3) + SLACK, "{time:?}");
            assert!(space.iods.iter().all(Option::is_some));
        });
        world.spawn("c1", async move {
            let file = open(&other, "file", Striping::default()).await;
            for round in 0..60u8 {
                let bytes = [round; 5000];
                let write = other.user.write_at(&file, u64::from(round), &bytes, false);
                let (result, time) = timed(&other, write).await;
                result.expect("iods need no manager");
                assert!(time < SLACK, "a write took {time:?}");
                other.sleep(Duration::from_secs(1)).await;
            }
        });
        world.run_for(Duration::from_secs(5));
        stuck.begin(&mut world, Victim::Manager);
        world.run(Duration::from_secs(1000));
    });
}

#[test]
fn an_open_that_was_given_up_does_not_stay_open() {
    seeds::each("an_open_that_was_given_up_does_not_stay_open", 4, |seed| {
        let mut world = World::new(seed, Settings::default());
        let (client, network) = (world.client("c0"), world.network().clone());
        world.spawn("c0", async move {
            client.user.close(open(&client, "first", Striping::default()).await).await.unwrap();
            // The manager hears everything and nobody hears the manager.
            network.hold("mgr0", "c0", None);
            let root = client.user.root().await.expect("it is known");
            let flags = OpenFlags::CREATE | OpenFlags::READ;
            let lost = Target::below(root, "lost");
            let lost = client.user.open_regular(lost, flags, 0o600, Striping::default()).await;
            assert_eq!(lost.map_err(|error| error.errno()).unwrap_err(), Errno::ETIMEDOUT);
            network.heal("mgr0", "c0");
            client.user.close(open(&client, "later", Striping::default()).await).await.unwrap();
            let found = client.user.stat(Target::below(root, "lost"), false).await;
            assert!(found.is_ok(), "the manager did it, so that there was something to close");
            assert_eq!(opens(&client).await, 0);
        });
        world.run(Duration::from_secs(200));
    });
}

/// Whoever closes what was not written does not wait for that, and does not hear whether it was done.
#[test]
fn nothing_that_was_closed_stays_open_whatever_was_lost() {
    seeds::each("nothing_that_was_closed_stays_open_whatever_was_lost", 25, |seed| {
        let mut world = World::new(seed, Settings::default());
        let mut trouble = Trouble::new(world.chance(), &["c0"], 3);
        trouble.manager = Some(Loss::Process);
        world.set_trouble(trouble);
        let (client, mut chance) = (Rc::new(world.client("c0")), world.chance());
        let worker = client.clone();
        world.spawn("c0", async move {
            for _ in 0..200 {
                worker.sleep(chance.time(Duration::ZERO, Duration::from_millis(100))).await;
                let _ = touch(&worker).await;
            }
        });
        world.run(Duration::from_secs(7200));
        world.command(Command::Mend);
        world.spawn("c0", async move {
            // A lease that was lost meanwhile, or a link that is still slow, is heard of first.
            client.sleep(Duration::from_secs(100)).await;
            while touch(&client).await.is_err() {}
            client.sleep(SLACK).await;
            assert_eq!(opens(&client).await, 0);
        });
        world.run(Duration::from_secs(200));
    });
}

/// Makes a file if there is none, and closes it without having written it.
async fn touch(client: &Client) -> pvfs_client::Result<()> {
    let name = Target::below(client.user.root().await?, "f");
    let flags = OpenFlags::CREATE | OpenFlags::READ;
    let file = client.user.open_regular(name, flags, 0o600, Striping::default()).await?;
    client.user.close(file).await
}

/// How many opens the manager knows.
async fn opens(client: &Client) -> u64 {
    let report = client.user.inquire(client.user.filesystem().manager(), &Status {}).await;
    let figures = report.expect("it answers").figures;
    figures.into_iter().find(|(name, _)| name == "opens").expect("it counts them").1
}

#[test]
fn a_clock_ten_minutes_off_keeps_its_own_node_out_and_frees_nobodys_locks() {
    const MINUTES_NS: i64 = 60_000_000_000;
    for error_ns in [10 * MINUTES_NS, -10 * MINUTES_NS] {
        let mut world = World::new(7, Settings::default());
        let (client, network) = (world.client("c0"), world.network().clone());
        world.spawn("c0", async move {
            let file = open(&client, "f", Striping::default()).await;
            client.user.write_at(&file, 0, b"before", false).await.expect("the weather is fine");
            // The manager's clock steps: whoever is there goes on, by the clock that never steps.
            network.set_clock_error_ns("mgr0", error_ns);
            client.sleep(Duration::from_secs(100)).await;
            let mut bytes = [0; 6];
            client.user.read_at(&file, 0, &mut bytes).await.expect("it is still open");
            assert_eq!(client.user.filesystem().caller().leases_lost(), 0);
            client.user.close(file).await.expect("it is still open");
            network.set_clock_error_ns("mgr0", 50 * error_ns.signum() * 1_000_000_000);
        });
        world.run(Duration::from_secs(300));
        world.network().set_clock_error_ns("far", -2 * error_ns * 100);
        let (near, far) = (world.client("near"), world.client("far"));
        world.spawn("near", async move {
            near.user
                .close(open(&near, "f", Striping::default()).await)
                .await
                .expect("50 s are fine");
        });
        world.spawn("far", async move {
            let root = far.user.root().await.map_err(|error| error.errno());
            // Sessions last twelve hours: who lives in the past has expired, who lives in the future is too early.
            assert_eq!(root.unwrap_err(), Errno::EACCES);
        });
        world.run(Duration::from_secs(300));
    }
}
