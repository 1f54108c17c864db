//! Noncontiguous accesses: equal to an array of bytes while daemons are killed, and one request to each iod.

use std::time::Duration;

use pvfs_client::{OpenFile, Partition, Region, View};
use pvfs_sim::{Chance, Client, Command, Loss, Settings, Trouble, Victim, World, seeds};
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

use super::{UNHURRIED, insist};

const HOSTS: [&str; 2] = ["c0", "c1"];
const STEPS: u32 = 60;
const SIZE_MAX: u64 = 20_000;

#[test]
fn vectors_are_loops_over_an_array_of_bytes_while_daemons_are_killed() {
    seeds::each("vectors_are_loops_over_an_array_of_bytes_while_daemons_are_killed", 20, |seed| {
        let mut world = World::new(seed, Settings::default());
        let clients = HOSTS.map(|host| world.patient_client(host, UNHURRIED));
        let mut trouble = Trouble::new(world.chance(), &HOSTS, 3);
        trouble.manager = Some(Loss::Process);
        trouble.iod = Some(Loss::Process);
        world.set_trouble(trouble);
        let chance = world.chance();
        world.spawn("c0", async move { Story::begin(clients, chance).await.tell().await });
        world.run(Duration::from_secs(36_000));
        world.command(Command::Mend);
    });
}

struct Story {
    clients: [Client; 2],
    chance: Chance,
    files: [OpenFile; 2],
    bytes: Vec<u8>,
    tag: u8,
}

impl Story {
    async fn begin(clients: [Client; 2], chance: Chance) -> Self {
        let files = [open(&clients[0]).await, open(&clients[1]).await];
        Self { clients, chance, files, bytes: Vec::new(), tag: 0 }
    }

    async fn tell(mut self) {
        for _ in 0..STEPS {
            let who = self.chance.between(0, 1) as usize;
            let pause = self.chance.time(Duration::ZERO, Duration::from_millis(300));
            self.clients[who].sleep(pause).await;
            match self.chance.between(0, 3) {
                0 => self.writex(who).await,
                1 => self.readx(who).await,
                2 => self.write_view(who).await,
                _ => self.read_view(who).await,
            }
        }
    }

    /// Some in any order, some regular, some overlapping.
    fn regions(&mut self) -> Vec<Region> {
        let count = self.chance.between(0, 40);
        let len = self.chance.between(0, 120);
        let (start, step) = (self.chance.between(0, SIZE_MAX), self.chance.between(0, 2000));
        let is_regular = self.chance.between(0, 1) == 0;
        let region = |at| match is_regular {
            true => Region { offset: start + at * step, len },
            false => {
                let offset = self.chance.between(0, SIZE_MAX);
                Region { offset, len: self.chance.between(0, 2 * len) }
            }
        };
        (0..count).map(region).collect()
    }

    /// Lengths of memory slices, so long in all.
    fn cuts(&mut self, bytes: usize) -> Vec<usize> {
        let mut left = bytes;
        let mut cuts = Vec::new();
        while left > 0 {
            let cut = self.chance.between(0, left.min(700) as u64) as usize;
            cuts.push(cut);
            left -= cut;
        }
        cuts
    }

    async fn writex(&mut self, who: usize) {
        let regions = self.regions();
        let stream = self.stream(total(&regions));
        let cuts = self.cuts(stream.len());
        let mut rest = &stream[..];
        let memory: Vec<&[u8]> =
            cuts.iter().map(|cut| rest.split_off(..*cut).expect("cuts add up")).collect();
        let (user, file) = (&self.clients[who].user, &self.files[who]);
        let written = user.writex(file, &memory, &regions, false).await;
        assert_eq!(written.expect("iods come back before the deadline"), stream.len() as u64);
        self.put(&regions, &stream);
    }

    async fn readx(&mut self, who: usize) {
        let regions = self.regions();
        let bytes = total(&regions);
        let cuts = self.cuts(bytes);
        let (client, file) = (&self.clients[who], &self.files[who]);
        let got = insist(client, async || {
            let mut stream = vec![0xee; bytes];
            let mut rest = &mut stream[..];
            let mut memory: Vec<&mut [u8]> =
                cuts.iter().map(|cut| rest.split_off_mut(..*cut).expect("cuts add up")).collect();
            let before_end = client.user.readx(file, &mut memory, &regions).await?;
            Ok((before_end, stream))
        });
        self.check(&regions, got.await);
    }

    fn view(&mut self) -> View {
        let gsize = self.chance.between(1, 300);
        let stride = gsize + self.chance.between(0, 500);
        let (ngroups, offset) = (self.chance.between(1, 4), self.chance.between(0, 3000));
        let gstride = (ngroups - 1) * stride + gsize + self.chance.between(0, 2000);
        let nested = self.chance.between(0, 1) == 0;
        let (gstride, ngroups) = if nested { (gstride, ngroups) } else { (0, 0) };
        View::new(Partition { offset, gsize, stride, gstride, ngroups }).expect("groups in order")
    }

    async fn write_view(&mut self, who: usize) {
        let (view, position) = (self.view(), self.chance.between(0, 4000));
        let bytes = self.chance.between(0, 4000) as usize;
        let stream = self.stream(bytes);
        let (user, file) = (&self.clients[who].user, &self.files[who]);
        let written = user.write_view(file, &view, position, &stream, false).await;
        written.expect("iods come back before the deadline");
        self.put(&by_groups(&view, position, bytes), &stream);
    }

    async fn read_view(&mut self, who: usize) {
        let (view, position) = (self.view(), self.chance.between(0, 4000));
        let bytes = self.chance.between(0, 4000) as usize;
        let (client, file) = (&self.clients[who], &self.files[who]);
        let got = insist(client, async || {
            let mut stream = vec![0xee; bytes];
            let count = client.user.read_view(file, &view, position, &mut stream).await?;
            Ok((count as u64, stream))
        });
        self.check(&by_groups(&view, position, bytes), got.await);
    }

    fn stream(&mut self, bytes: usize) -> Vec<u8> {
        self.tag = self.tag % 250 + 1;
        (0..bytes).map(|at| self.tag.wrapping_add((at / 97) as u8)).collect()
    }

    fn put(&mut self, regions: &[Region], stream: &[u8]) {
        let filled = regions.iter().filter(|region| region.len > 0);
        let end = filled.map(Region::end).max().unwrap_or(0) as usize;
        self.bytes.resize(self.bytes.len().max(end), 0);
        let offsets = regions.iter().flat_map(|region| region.offset..region.end());
        offsets.zip(stream).for_each(|(offset, byte)| self.bytes[offset as usize] = *byte);
    }

    fn check(&self, regions: &[Region], (before_end, stream): (u64, Vec<u8>)) {
        let offsets: Vec<u64> =
            regions.iter().flat_map(|region| region.offset..region.end()).collect();
        let byte = |offset: &u64| self.bytes.get(*offset as usize).copied().unwrap_or(0);
        let expected: Vec<u8> = offsets.iter().map(byte).collect();
        let differs = stream.iter().zip(&expected).position(|(one, other)| one != other);
        assert_eq!((stream.len(), differs), (expected.len(), None), "{regions:?}");
        let size = self.bytes.len() as u64;
        let before = offsets.iter().filter(|offset| **offset < size).count();
        assert_eq!(before_end, before as u64, "{regions:?} of a file of {size} bytes");
    }
}

fn total(regions: &[Region]) -> usize {
    regions.iter().map(|region| region.len as usize).sum()
}

/// A view's bytes one by one, as PVFS 1 counted them.
fn by_groups(view: &View, position: u64, bytes: usize) -> Vec<Region> {
    let Partition { offset, gsize, stride, gstride, ngroups } = view.partition();
    let place = |at: u64| {
        let group = at / gsize;
        let set = group.checked_div(ngroups).unwrap_or(0);
        let group = group - set * ngroups;
        offset + set * gstride + group * stride + at % gsize
    };
    let bytes = position..position + bytes as u64;
    bytes.map(|at| Region { offset: place(at), len: 1 }).collect()
}

async fn open(client: &Client) -> OpenFile {
    insist(client, async || {
        let root = client.user.root().await?;
        let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
        let name = Target::below(root, "file");
        client.user.open_regular(name, flags, 0o600, Striping::default()).await
    })
    .await
}

/// Requests to each iod while `access` runs on a file of 200,000 bytes.
fn requests_of<F: Future<Output = ()> + 'static>(
    access: impl FnOnce(Client, OpenFile) -> F + 'static,
) -> Vec<u64> {
    let mut world = World::new(1, Settings { iods: 4, ..Settings::default() });
    let client = world.client("c0");
    let opened = std::rc::Rc::new(std::cell::RefCell::new(None));
    let (user, slot) = (client.clone(), opened.clone());
    world.spawn("c0", async move {
        let file = open(&user).await;
        user.user.write_at(&file, 0, &vec![7; 200_000], false).await.expect("all is well");
        *slot.borrow_mut() = Some(file);
    });
    world.run(Duration::from_secs(60));
    let count = |world: &World| (0..4).map(|iod| world.requests(Victim::Iod(iod))).collect();
    let before: Vec<u64> = count(&world);
    let file = opened.take().expect("it was opened");
    world.spawn("c0", access(client, file));
    world.run(Duration::from_secs(60));
    let after: Vec<u64> = count(&world);
    after.iter().zip(&before).map(|(after, before)| after - before).collect()
}

#[test]
fn an_access_is_one_request_to_each_iod_whatever_its_shape() {
    let column: Vec<Region> =
        (0..1000).map(|row| Region { offset: row * 200 + 8, len: 16 }).collect();
    let mut scattered = column.clone();
    scattered.reverse();
    scattered.swap(3, 500);
    for regions in [column, scattered] {
        let again = regions.clone();
        let reads = requests_of(|client, file| async move {
            let mut memory = vec![0; total(&again)];
            let got = client.user.readx(&file, &mut [&mut memory], &again).await;
            assert_eq!(got, Ok(16_000));
            assert!(memory.iter().all(|byte| *byte == 7));
        });
        assert_eq!(reads, [1; 4]);
        let writes = requests_of(|client, file| async move {
            let memory = vec![1; total(&regions)];
            let written = client.user.writex(&file, &[&memory], &regions, false).await;
            assert_eq!(written, Ok(16_000));
        });
        assert_eq!(writes, [1; 4]);
    }
}

#[test]
fn a_partition_is_one_request_to_each_iod_that_holds_part_of_it() {
    // Strips of 1 KiB: groups 4 KiB apart are all on one iod.
    let (gsize, stride) = (64, 4096);
    let partition = Partition { offset: 1024, gsize, stride, ..Partition::default() };
    let mut requests = requests_of(move |client, file| async move {
        let view = View::new(partition).unwrap();
        let mut buffer = vec![0; 40 * 64];
        assert_eq!(client.user.read_view(&file, &view, 0, &mut buffer).await, Ok(40 * 64));
    });
    requests.sort_unstable();
    assert_eq!(requests, [0, 0, 0, 1]);
    // Groups on all of them, plain and nested, read and written.
    let plain = Partition { offset: 100, gsize: 64, stride: 200, ..Partition::default() };
    let nested = Partition { gstride: 3000, ngroups: 7, ..plain };
    for partition in [plain, nested] {
        let view = View::new(partition).unwrap();
        let reads = requests_of(move |client, file| async move {
            let mut buffer = vec![0; 400 * 64];
            let got = client.user.read_view(&file, &view, 32, &mut buffer).await;
            assert_eq!(got, Ok(400 * 64));
            assert!(buffer.iter().all(|byte| *byte == 7));
        });
        let writes = requests_of(move |client, file| async move {
            let buffer = vec![1; 400 * 64];
            client.user.write_view(&file, &view, 32, &buffer, false).await.unwrap();
        });
        assert_eq!((reads, writes), (vec![1; 4], vec![1; 4]), "{partition:?}");
    }
}

#[test]
fn three_hundred_thousand_regions_are_streamed() {
    let count = 300_000u64;
    // Backwards, so that nothing makes them regular or joins them.
    let list: Vec<Region> =
        (0..count).rev().map(|at| Region { offset: at * 3, len: 1 + at % 2 }).collect();
    let bytes = total(&list);
    let requests = requests_of(move |client, file| async move {
        let memory: Vec<u8> = (0..bytes).map(|at| (at / 4) as u8).collect();
        let written = client.user.writex(&file, &[&memory], &list, false).await;
        assert_eq!(written, Ok(bytes as u64));
        let mut back = vec![0; bytes];
        assert_eq!(client.user.readx(&file, &mut [&mut back], &list).await, Ok(bytes as u64));
        assert!(back == memory);
    });
    // 32,768 regions at most to a request.
    assert!(requests.iter().all(|count| (6..=12).contains(count)), "{requests:?}");
}

#[test]
fn accesses_that_make_no_sense_are_refused_and_nothing_is_written() {
    let requests = requests_of(|client, file| async move {
        let region = |offset, len| Region { offset, len };
        let errno = |result: pvfs_client::Result<u64>| result.unwrap_err().errno();
        let (user, max) = (&client.user, i64::MAX as u64);
        let longer = user.writex(&file, &[&[1, 2, 3]], &[region(0, 1), region(9, 1)], false).await;
        assert_eq!(errno(longer), Errno::EINVAL);
        let far = [region(5, 1), region(max, 1), region(0, 1)];
        assert_eq!(errno(user.writex(&file, &[&[1, 2, 3]], &far, false).await), Errno::EFBIG);
        let overflowing = [region(5, 1), region(0, 2), region(u64::MAX, u64::MAX)];
        let mut byte = [0; 3];
        let read = user.readx(&file, &mut [&mut byte], &overflowing).await;
        assert_eq!(errno(read), Errno::EFBIG);
        assert_eq!(user.writex(&file, &[], &[], false).await, Ok(0));
        assert_eq!(user.readx(&file, &mut [], &[region(3, 0)]).await, Ok(0));
        let backwards = Partition { gsize: 8, stride: 4, ..Partition::default() };
        assert_eq!(View::new(backwards).unwrap_err().errno(), Errno::EINVAL);
    });
    assert_eq!(requests, [0; 4]);
}
