//! One file, one operation at a time, each by another client: equal to an array of bytes.

use std::time::Duration;

use pvfs_client::{OpenFile, Seek};
use pvfs_layout::{Dist, Distribution};
use pvfs_sim::{Chance, Client, Command, Loss, Settings, Trouble, World, seeds};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{Allocation, OpenFlags, Target};
use pvfs_wire::{Errno, Handle};

use super::{UNHURRIED, insist, nothing_is_left};

const HOSTS: [&str; 3] = ["c0", "c1", "c2"];
const STEPS: u32 = 80;
const SIZE_MAX: u64 = 20_000;

#[test]
fn a_file_is_an_array_of_bytes_while_daemons_are_killed() {
    seeds::each("a_file_is_an_array_of_bytes_while_daemons_are_killed", 20, scenario);
}

fn scenario(seed: u64) {
    let mut world = World::new(seed, Settings::default());
    let clients = HOSTS.map(|host| world.patient_client(host, UNHURRIED));
    let mut trouble = Trouble::new(world.chance(), &HOSTS, 3);
    trouble.manager = Some(Loss::Process);
    trouble.iod = Some(Loss::Process);
    world.set_trouble(trouble);
    let (chance, first) = (world.chance(), clients[0].clone());
    world.spawn("c0", async move { Story::begin(clients, chance).await.tell().await });
    world.run(Duration::from_secs(36_000));
    world.command(Command::Mend);
    let fresh = world.patient_client("c0", UNHURRIED);
    drop(first);
    let root = Handle::root(1, 1);
    nothing_is_left(&mut world, &fresh, root, &["file"]);
}

struct Story {
    clients: [Client; 3],
    chance: Chance,
    /// Opened when needed, closed by chance: the size is known to the manager only while all are closed.
    files: [Option<OpenFile>; 3],
    name: Target,
    bytes: Vec<u8>,
    tag: u8,
}

impl Story {
    async fn begin(clients: [Client; 3], chance: Chance) -> Self {
        let root = clients[0].user.root().await.expect("the manager comes back");
        let name = Target::below(root, "file");
        let files = [None, None, None];
        let mut story = Self { clients, chance, files, name, bytes: Vec::new(), tag: 0 };
        story.open(0).await;
        story
    }

    async fn tell(mut self) {
        for _ in 0..STEPS {
            let who = self.chance.between(0, 2) as usize;
            let pause = self.chance.time(Duration::ZERO, Duration::from_millis(300));
            self.clients[who].sleep(pause).await;
            match self.chance.between(0, 17) {
                0..=3 => self.write(who).await,
                4..=6 => self.read(who).await,
                7 => self.append(who).await,
                8 => self.truncate(who).await,
                9 => self.stat(who).await,
                10 => self.sync(who).await,
                11 => self.allocate(who).await,
                12 | 13 => self.copy(who).await,
                14 => self.seek(who).await,
                _ => self.close(who).await,
            }
        }
        for who in 0..3 {
            self.read_all(who).await;
            self.close(who).await;
        }
        self.stat(0).await;
    }

    fn piece(&mut self) -> (usize, Vec<u8>) {
        self.tag = self.tag % 250 + 1;
        let offset = self.chance.between(0, SIZE_MAX);
        let longest = if self.chance.between(0, 3) == 0 { 9000 } else { 50 };
        let bytes = self.chance.between(1, longest);
        (offset as usize, vec![self.tag; bytes as usize])
    }

    async fn write(&mut self, who: usize) {
        let (offset, piece) = self.piece();
        let is_sync = self.chance.between(0, 3) == 0;
        let (client, file) = self.open(who).await;
        let written = client.user.write_at(file, offset as u64, &piece, is_sync).await;
        written.expect("iods come back before the deadline");
        self.put(offset, &piece);
    }

    fn put(&mut self, offset: usize, piece: &[u8]) {
        let end = offset + piece.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[offset..end].copy_from_slice(piece);
    }

    async fn read(&mut self, who: usize) {
        let offset = self.chance.between(0, SIZE_MAX + 5000) as usize;
        let count = self.chance.between(1, 12_000) as usize;
        self.check_read(who, offset, count).await;
    }

    async fn read_all(&mut self, who: usize) {
        self.check_read(who, 0, self.bytes.len() + 100).await;
        self.stat(who).await;
    }

    async fn check_read(&mut self, who: usize, offset: usize, count: usize) {
        let (client, file) = self.open(who).await;
        let got = insist(client, async || {
            let mut buffer = vec![0xee; count];
            let count = client.user.read_at(file, offset as u64, &mut buffer).await?;
            buffer.truncate(count);
            Ok(buffer)
        });
        let got = got.await;
        let start = offset.min(self.bytes.len());
        let expected = &self.bytes[start..(offset + count).min(self.bytes.len()).max(start)];
        let differs = got.iter().zip(expected).position(|(one, other)| one != other);
        assert_eq!(
            (got.len(), differs),
            (expected.len(), None),
            "client {who} read {count} bytes at {offset}"
        );
    }

    async fn append(&mut self, who: usize) {
        let (_, piece) = self.piece();
        let client = &self.clients[who];
        let file = open(client, &self.name, OpenFlags::WRITE | OpenFlags::APPEND).await;
        let offset = insist(client, async || client.user.append(&file, &piece, false).await).await;
        client.user.close(file).await.expect("the manager comes back");
        assert_eq!(offset, self.bytes.len() as u64, "client {who} appended");
        self.put(offset as usize, &piece);
    }

    async fn truncate(&mut self, who: usize) {
        let size = self.chance.between(0, SIZE_MAX);
        let by_name = self.chance.between(0, 1) == 0;
        let name = self.name.clone();
        let (client, file) = self.open(who).await;
        let attr = insist(client, async || match by_name {
            true => client.user.truncate(name.clone(), true, size).await,
            false => client.user.truncate_file(file, size).await,
        });
        assert_eq!(attr.await.size, size, "client {who} truncated");
        self.bytes.resize(size as usize, 0);
    }

    async fn allocate(&mut self, who: usize) {
        let all = [Allocation::Reserve, Allocation::Punch, Allocation::Zero];
        let how = all[self.chance.between(0, 2) as usize];
        let (offset, bytes) = (self.chance.between(0, SIZE_MAX), self.chance.between(1, 9000));
        let grow = self.chance.between(0, 1) == 0;
        let (client, file) = self.open(who).await;
        let done = client.user.allocate(file, how, offset, bytes, grow).await;
        done.expect("iods come back before the deadline");
        let (start, end) = (offset as usize, (offset + bytes) as usize);
        if grow && how != Allocation::Punch {
            self.bytes.resize(self.bytes.len().max(end), 0);
        }
        if how != Allocation::Reserve {
            let end = end.min(self.bytes.len());
            self.bytes[start.min(end)..end].fill(0);
        }
    }

    /// Half of the copies stay on their iods, the others go through the client.
    async fn copy(&mut self, who: usize) {
        let from = self.chance.between(0, SIZE_MAX);
        let bytes = self.chance.between(1, 9000);
        let stripes = self.chance.between(0, 3) * u64::from(self.stripe(who).await);
        let astray = self.chance.between(0, 1) * self.chance.between(1, 3000);
        let to = from + stripes + astray;
        let (client, file) = self.open(who).await;
        let copied = insist(client, async || {
            match client.user.copy_range((file, from), (file, to), bytes).await {
                Err(error) if error.errno() == Errno::EINVAL => Ok(None),
                copied => copied.map(Some),
            }
        });
        let copied = copied.await;
        let there = (self.bytes.len() as u64).saturating_sub(from).min(bytes);
        if from.abs_diff(to) < there {
            assert_eq!(copied, None, "the ranges overlap");
            return;
        }
        assert_eq!(copied, Some(there));
        let (from, there) = (from as usize, there as usize);
        if there > 0 {
            let piece = self.bytes[from..from + there].to_vec();
            self.put(to as usize, &piece);
        }
    }

    async fn stripe(&mut self, who: usize) -> u32 {
        let (_, file) = self.open(who).await;
        match &file.placement.dist {
            Dist::SimpleStripe(stripe) => stripe.ssize() as u32 * stripe.slots(),
            _ => 1,
        }
    }

    /// What is told to be a hole is zeros.
    async fn seek(&mut self, who: usize) {
        let offset = self.chance.between(0, SIZE_MAX);
        let size = self.bytes.len() as u64;
        let (client, file) = self.open(who).await;
        let data = client.user.seek(file, Seek::Data, offset).await.map_err(|error| error.errno());
        let hole = client.user.seek(file, Seek::Hole, offset).await.map_err(|error| error.errno());
        if offset >= size {
            assert_eq!((data, hole), (Err(Errno::ENXIO), Err(Errno::ENXIO)));
            return;
        }
        assert!(hole.is_ok_and(|hole| (offset..=size).contains(&hole)), "{hole:?}");
        let zeros = match data {
            Ok(data) => offset..data,
            Err(errno) => {
                assert_eq!(errno, Errno::ENXIO);
                offset..size
            }
        };
        let skipped = &self.bytes[zeros.start as usize..zeros.end as usize];
        assert!(skipped.iter().all(|byte| *byte == 0), "client {who} lost data at {offset}");
    }

    async fn stat(&mut self, who: usize) {
        let (client, name) = (&self.clients[who], &self.name);
        let attr = insist(client, async || client.user.stat(name.clone(), true).await).await;
        assert_eq!(attr.size, self.bytes.len() as u64, "client {who} looked at the size");
    }

    async fn sync(&mut self, who: usize) {
        let (client, file) = self.open(who).await;
        let synced = client.user.sync(file).await;
        synced.expect("iods come back before the deadline");
    }

    async fn close(&mut self, who: usize) {
        let Some(file) = self.files[who].take() else { return };
        self.clients[who].user.close(file).await.expect("the manager comes back");
    }

    async fn open(&mut self, who: usize) -> (&Client, &OpenFile) {
        let client = &self.clients[who];
        let file = &mut self.files[who];
        if file.is_none() {
            let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
            *file = Some(open(client, &self.name, flags).await);
        }
        (client, file.as_ref().expect("it was just opened"))
    }
}

async fn open(client: &Client, name: &Target, flags: OpenFlags) -> OpenFile {
    insist(client, async || {
        client.user.open_regular(name.clone(), flags, 0o600, Striping::default()).await
    })
    .await
}
