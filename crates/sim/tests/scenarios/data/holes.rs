//! What a file takes on disks: its size tells it until there are holes, and then the iods do, to everybody alike.

use std::time::Duration;

use pvfs_client::OpenFile;
use pvfs_sim::{Chance, Client, Settings, World, seeds};
use pvfs_wire::Handle;
use pvfs_wire::attr::{SizeState, Striping};
use pvfs_wire::ops::{Allocation, OpenFlags, Target};

const HOSTS: [&str; 2] = ["c0", "c1"];
const IODS: u64 = 4;
const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(3600);
const WRITE: OpenFlags = OpenFlags::WRITE.with(OpenFlags::CREATE);

/// One file, and two who use it.
struct Play {
    clients: [Client; 2],
    name: &'static str,
}

impl Play {
    fn target(&self) -> Target {
        Target::below(Handle::root(1, 1), self.name)
    }

    async fn open(&self, who: usize, flags: OpenFlags) -> OpenFile {
        let opened =
            self.clients[who].user.open_regular(self.target(), flags, 0o600, Striping::default());
        opened.await.expect("all is well")
    }

    async fn write(&self, who: usize, file: &OpenFile, offset: u64, bytes: u64) {
        let data = vec![1; bytes as usize];
        self.clients[who].user.write_at(file, offset, &data, false).await.expect("all is well");
    }

    async fn close(&self, who: usize, file: OpenFile) {
        self.clients[who].user.close(file).await.expect("all is well");
    }

    async fn truncate(&self, who: usize, size: u64) {
        self.clients[who].user.truncate(self.target(), true, size).await.expect("all is well");
    }

    /// The figure that everybody is told, which is what the iods say; the manager alone knows it.
    async fn figure(&self) -> Option<u64> {
        let user = &self.clients[1].user;
        let (attr, placement) = user.stat_layout(self.target(), true).await.unwrap();
        let placement = placement.expect("it is a regular file");
        let data = user.size_by_iods(attr.handle, &placement).await.unwrap();
        assert_eq!(attr.size, data.size);
        assert_eq!(attr.disk_bytes, placement.disk_figure(data.size, data.disk_bytes));
        let known = user.stat_lite(self.target(), true).await.unwrap();
        assert_eq!((known.size_state, known.disk_bytes), (SizeState::Settled, attr.disk_bytes));
        attr.disk_bytes
    }

    async fn live(self) {
        let file = self.open(0, WRITE).await;
        self.write(0, &file, 10 * MIB, 65536).await;
        let seen = self.clients[1].user.stat(self.target(), true).await.unwrap();
        assert_eq!(seen.disk_bytes, Some(65536), "while it is being written");
        self.close(0, file).await;
        assert_eq!(self.figure().await, Some(65536), "written beyond the end");

        let file = self.open(1, WRITE).await;
        self.write(1, &file, 0, 10 * MIB).await;
        self.close(1, file).await;
        assert_eq!(self.figure().await, None, "filled");

        let file = self.open(0, WRITE).await;
        self.allocate(0, &file, Allocation::Punch, 8 * MIB).await;
        self.close(0, file).await;
        assert_eq!(self.figure().await, Some(2 * MIB + 65536), "punched");

        let file = self.open(0, WRITE | OpenFlags::TRUNCATE).await;
        self.write(0, &file, 0, 1000).await;
        self.close(0, file).await;
        assert_eq!(self.figure().await, None, "cut to nothing");

        self.truncate(0, 5000 * MIB).await;
        assert_eq!(self.figure().await, Some(4096), "grown");
        self.truncate(0, 500).await;
        assert_eq!(self.figure().await, None, "cut to what had no hole");

        let file = self.open(0, WRITE).await;
        self.allocate(0, &file, Allocation::Reserve, 8 * MIB).await;
        self.close(0, file).await;
        assert_eq!(self.figure().await, Some(8 * MIB), "set aside beyond the end");
        self.truncate(0, 500).await;
        assert_eq!(self.figure().await, None, "given back, though the size stays");

        let file = self.open(0, WRITE).await;
        self.clients[0].user.truncate_file(&file, 700 * MIB).await.expect("all is well");
        self.close(0, file).await;
        self.clients[1].user.stat(self.target(), true).await.expect("this settles it");
        assert_eq!(self.figure().await, Some(4096), "grown through an open");
    }

    async fn allocate(&self, who: usize, file: &OpenFile, how: Allocation, bytes: u64) {
        let done = self.clients[who].user.allocate(file, how, 0, bytes, false);
        done.await.expect("all is well");
    }
}

/// Each knows of its own part only, and none knows what the other has still to write.
async fn write_parts(play: Play) {
    let (first, second) = (play.open(0, WRITE).await, play.open(1, WRITE).await);
    play.write(1, &second, 8 * MIB, MIB).await;
    play.close(1, second).await;
    play.write(0, &first, 3 * MIB, MIB).await;
    play.close(0, first).await;
    let known = play.clients[1].user.stat_lite(play.target(), true).await.unwrap();
    assert_eq!((known.size_state, known.size), (SizeState::Settled, 9 * MIB), "by who closed last");
    assert_eq!(play.figure().await, Some(2 * MIB));
}

#[test]
fn the_last_of_several_writers_settles_what_they_wrote() {
    let mut world = World::new(7, Settings { iods: IODS as u32, ..Settings::default() });
    let clients = HOSTS.map(|host| world.client(host));
    world.spawn("c0", write_parts(Play { clients, name: "f" }));
    world.run(SOON);
}

#[test]
fn holes_are_seen_from_their_making_to_their_end() {
    let mut world = World::new(7, Settings { iods: IODS as u32, ..Settings::default() });
    let clients = HOSTS.map(|host| world.client(host));
    world.spawn("c0", Play { clients, name: "f" }.live());
    world.run(SOON);
}

#[test]
fn a_copy_of_holes_is_told_as_what_it_takes() {
    let mut world = World::new(7, Settings { iods: IODS as u32, ..Settings::default() });
    let clients = HOSTS.map(|host| world.client(host));
    let from = Play { clients: clients.clone(), name: "f" };
    world.spawn("c0", async move {
        let file = from.open(0, WRITE).await;
        from.write(0, &file, 7 * MIB, 5000).await;
        from.close(0, file).await;
        let to = Play { clients, name: "g" };
        let files = [from.open(0, OpenFlags::READ).await, to.open(0, WRITE).await];
        let mut copied = 0;
        while copied < 7 * MIB + 5000 {
            let (here, there) = ((&files[0], copied), (&files[1], copied));
            copied += to.clients[0].user.copy_range(here, there, 8 * MIB).await.unwrap();
        }
        let [from_file, to_file] = files;
        from.close(0, from_file).await;
        to.close(0, to_file).await;
        to.figure().await;
    });
    world.run(SOON);
}

/// Two programs that do anything to a file, with several opens at a time.
struct Story {
    play: Play,
    chance: Chance,
    opens: Vec<(usize, OpenFile)>,
}

impl Story {
    async fn tell(mut self) {
        self.open(0).await;
        for _ in 0..60 {
            let who = self.chance.between(0, 1) as usize;
            match self.chance.between(0, 9) {
                0..=1 => self.open(who).await,
                2 => {
                    let size = self.offset();
                    self.play.truncate(who, size).await;
                }
                3..=4 => self.close().await,
                _ => self.change().await,
            }
            if self.opens.is_empty() {
                self.check().await;
            }
        }
    }

    fn offset(&mut self) -> u64 {
        self.chance.between(0, 3) * self.chance.between(0, MIB)
    }

    async fn open(&mut self, who: usize) {
        let how = match self.chance.between(0, 5) {
            0 => OpenFlags::TRUNCATE,
            1 => OpenFlags::APPEND,
            _ => OpenFlags::NONE,
        };
        let file = self.play.open(who, WRITE | how).await;
        self.opens.push((who, file));
    }

    async fn close(&mut self) {
        if let Some((who, file)) = self.opens.pop() {
            self.play.close(who, file).await;
        }
    }

    async fn change(&mut self) {
        let (offset, bytes) = (self.offset(), self.chance.between(1, 300_000));
        let (what, grow) = (self.chance.between(0, 9), self.chance.between(0, 1) == 0);
        let end = self.end().await;
        let Some((who, file)) = self.opens.first() else { return };
        let user = &self.play.clients[*who].user;
        let done = match what {
            0 => user.truncate_file(file, offset).await.map(|_| ()),
            1 => user.allocate(file, Allocation::Punch, offset, bytes, false).await,
            2 => user.allocate(file, Allocation::Reserve, offset, bytes, grow).await,
            3 => user.allocate(file, Allocation::Zero, offset, bytes, grow).await,
            // Mostly as programs do: from the end on.
            4..=7 => user.write_at(file, end, &vec![1; bytes as usize], false).await,
            _ => user.write_at(file, offset, &vec![1; bytes as usize], false).await,
        };
        done.expect("all is well");
        self.opens.rotate_left(1);
    }

    async fn end(&self) -> u64 {
        let attr = self.play.clients[0].user.stat(self.play.target(), true).await;
        attr.expect("all is well").size
    }

    /// What is told differs from what the iods say by the rounding of each object at most.
    async fn check(&self) {
        let user = &self.play.clients[1].user;
        let (attr, placement) = user.stat_layout(self.play.target(), true).await.unwrap();
        let placement = placement.expect("it is a regular file");
        let data = user.size_by_iods(attr.handle, &placement).await.unwrap();
        let told = attr.blocks() * 512;
        assert_eq!(attr.size, data.size);
        assert!(told.abs_diff(data.disk_bytes) <= IODS * (16 << 10), "{told} {data:?} {attr:?}");
    }
}

#[test]
fn what_a_file_takes_is_told_whatever_was_done_to_it() {
    seeds::each("what_a_file_takes_is_told_whatever_was_done_to_it", 40, |seed| {
        let mut world = World::new(seed, Settings { iods: IODS as u32, ..Settings::default() });
        let clients = HOSTS.map(|host| world.client(host));
        let chance = world.chance();
        let story = Story { play: Play { clients, name: "f" }, chance, opens: Vec::new() };
        // The files that are open in the end are closed with their clients.
        world.spawn("c0", story.tell());
        world.run(SOON);
    });
}
