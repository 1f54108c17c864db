//! Many clients, one file: records of their own between those of others, and a part where all write.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use pvfs_client::OpenFile;
use pvfs_sim::{Chance, Client, Command, Loss, Patience, Settings, Trouble, World, seeds};
use pvfs_wire::Handle;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

use super::history::History;
use super::{UNHURRIED, insist, nothing_is_left};
use crate::outcome::known;

const HOSTS: [&str; 3] = ["c0", "c1", "c2"];
const STEPS: u32 = 70;
const RECORDS: u64 = 24;
/// Odd, so that records meet within strips, blocks and words.
const RECORD_BYTES: u64 = 1237;
const OPEN_TO_ALL: Range<u64> = RECORDS * RECORD_BYTES..RECORDS * RECORD_BYTES + 6000;

#[test]
fn writers_never_disturb_one_another_while_daemons_are_killed() {
    let name = "writers_never_disturb_one_another_while_daemons_are_killed";
    seeds::each(name, 12, |seed| scenario(seed, KILLED));
}

#[test]
fn writes_given_up_never_land_after_later_ones() {
    let name = "writes_given_up_never_land_after_later_ones";
    let hurried = Weakness { data_timeout: Duration::from_millis(400), ..KILLED };
    seeds::each(name, 12, |seed| scenario(seed, hurried));
}

#[test]
fn writes_outlive_their_deadlines_nowhere() {
    let name = "writes_outlive_their_deadlines_nowhere";
    let weakness = Weakness { outage_max: Duration::from_secs(60), ..KILLED };
    seeds::each(name, 8, |seed| scenario(seed, weakness));
}

#[test]
fn what_was_synced_survives_a_loss_of_power() {
    let name = "what_was_synced_survives_a_loss_of_power";
    seeds::each(name, 12, |seed| scenario(seed, Weakness { iod: Loss::Power, ..KILLED }));
}

/// What may break, and how long a client waits.
#[derive(Clone, Copy)]
struct Weakness {
    iod: Loss,
    outage_max: Duration,
    data_timeout: Duration,
}

const KILLED: Weakness = Weakness {
    iod: Loss::Process,
    outage_max: Duration::from_secs(2),
    data_timeout: Duration::from_secs(30),
};

fn scenario(seed: u64, weakness: Weakness) {
    let mut world = World::new(seed, Settings::default());
    let mut trouble = Trouble::new(world.chance(), &HOSTS, 3);
    trouble.manager = Some(Loss::Process);
    trouble.iod = Some(weakness.iod);
    trouble.outage_max = weakness.outage_max;
    trouble.pause_max = weakness.outage_max / 3;
    world.set_trouble(trouble);
    let history = Rc::new(RefCell::new(None));
    for (number, host) in HOSTS.iter().enumerate() {
        let patience = Patience { data: weakness.data_timeout, ..Patience::default() };
        let client = world.patient_client(host, patience);
        let (chance, losses) = (world.chance(), world.losses());
        let shared = history.clone();
        world.spawn(host, async move {
            let file = open(&client).await;
            let dist = file.placement.dist.clone();
            shared.borrow_mut().get_or_insert_with(|| History::new(dist, losses));
            let mut writer = Writer { number, client, chance, file, history: shared };
            for _ in 0..STEPS {
                writer.step().await;
            }
            let _ = writer.client.user.close(writer.file).await;
        });
    }
    world.run(Duration::from_secs(36_000));
    world.command(Command::Mend);
    look_at_everything(&mut world, &history);
    let fresh = world.patient_client("reader", UNHURRIED);
    nothing_is_left(&mut world, &fresh, Handle::root(1, 1), &["file"]);
}

fn look_at_everything(world: &mut World, history: &Rc<RefCell<Option<History>>>) {
    let (client, chance) = (world.patient_client("reader", UNHURRIED), world.chance());
    let history = history.clone();
    world.spawn("reader", async move {
        let file = open(&client).await;
        let mut reader = Writer { number: HOSTS.len(), client, chance, file, history };
        reader.read(0..OPEN_TO_ALL.end).await;
        reader.client.user.close(reader.file).await.expect("everything is mended");
    });
    world.run(Duration::from_secs(600));
}

async fn open(client: &Client) -> OpenFile {
    let root = insist(client, async || client.user.root().await).await;
    let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
    // Slots are iods then, which the history needs to know.
    let striping = Striping { base: Some(0), ..Striping::default() };
    insist(client, async || {
        let name = Target::below(root, "file");
        client.user.open_regular(name, flags, 0o600, striping.clone()).await
    })
    .await
}

struct Writer {
    number: usize,
    client: Client,
    chance: Chance,
    file: OpenFile,
    history: Rc<RefCell<Option<History>>>,
}

impl Writer {
    async fn step(&mut self) {
        let pause = self.chance.time(Duration::ZERO, Duration::from_millis(400));
        self.client.sleep(pause).await;
        match self.chance.between(0, 9) {
            0..=2 => self.write_record().await,
            3..=4 => self.write_anywhere().await,
            5..=6 => {
                let range = self.any_range(0..OPEN_TO_ALL.end, 9000);
                self.read(range).await;
            }
            7 => self.read(OPEN_TO_ALL).await,
            8 => self.sync().await,
            _ => self.stat().await,
        }
    }

    fn with_history<T>(&self, look: impl FnOnce(&mut History) -> T) -> T {
        look(self.history.borrow_mut().as_mut().expect("somebody has opened the file"))
    }

    fn any_range(&mut self, within: Range<u64>, bytes_max: u64) -> Range<u64> {
        let start = self.chance.between(within.start, within.end - 1);
        start..(start + self.chance.between(1, bytes_max)).min(within.end)
    }

    /// The whole of a record that nobody else writes.
    async fn write_record(&mut self) {
        let own = self.chance.between(0, RECORDS / HOSTS.len() as u64 - 1);
        self.write(record(own * HOSTS.len() as u64 + self.number as u64)).await;
    }

    async fn write_anywhere(&mut self) {
        let range = self.any_range(OPEN_TO_ALL, 3000);
        self.write(range).await;
    }

    async fn write(&mut self, range: Range<u64>) {
        let begun = self.client.now();
        let tag = self.with_history(|it| it.begin_write(self.number, range.clone(), begun));
        let Some(tag) = tag else { return };
        let bytes = vec![tag; (range.end - range.start) as usize];
        let is_sync = self.chance.between(0, 7) == 0;
        let written = self.client.user.write_at(&self.file, range.start, &bytes, is_sync).await;
        let done = self.client.now();
        match known(written) {
            Some(Ok(())) => self.with_history(|it| it.end_write(tag, done)),
            Some(Err(error)) => panic!("writing: {error}"),
            None => {}
        }
    }

    async fn read(&mut self, range: Range<u64>) {
        let begun = self.client.now();
        let mut bytes = vec![0xee; (range.end - range.start) as usize];
        let got = self.client.user.read_at(&self.file, range.start, &mut bytes).await;
        let span = (begun, self.client.now());
        match known(got) {
            // Beyond the end of the file nothing may have been done.
            Some(Ok(count)) => bytes[count..].fill(0),
            Some(Err(error)) => panic!("reading: {error}"),
            None => return,
        }
        self.with_history(|it| {
            for record in (0..RECORDS).map(record) {
                it.check_whole(&record, &range, &bytes);
            }
            it.end_read(self.number, range, bytes, span);
        });
    }

    async fn sync(&mut self) {
        let begun = self.client.now();
        if self.client.user.sync(&self.file).await.is_ok() {
            let done = self.client.now();
            self.with_history(|it| it.end_sync(begun, done));
        }
    }

    async fn stat(&mut self) {
        let begun = self.client.now();
        let target = Target::object(self.file.handle);
        if let Ok(attr) = self.client.user.stat(target, true).await {
            self.with_history(|it| it.check_size(attr.size, begun));
        }
    }
}

fn record(number: u64) -> Range<u64> {
    number * RECORD_BYTES..(number + 1) * RECORD_BYTES
}
