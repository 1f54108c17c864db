//! How many messages operations are, as papers promise: counted at the daemons.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pvfs_client::{LiteMask, OpenFile};
use pvfs_sim::{Client, Command, Settings, Victim, World};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};
use pvfs_wire::{Errno, Handle};

const IODS: u32 = 4;
const FILES: u64 = 300;
const SIZE: u64 = 5000;
const SOON: Duration = Duration::from_secs(60);

/// Requests served by the manager, and by each iod.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Messages(u64, Vec<u64>);

/// A file system whose root has many files that another client is writing.
struct Busy {
    world: World,
    reader: Client,
    _writer: Client,
    files: Rc<RefCell<Vec<OpenFile>>>,
}

impl Busy {
    fn new() -> Self {
        let mut world = World::new(5, Settings { iods: IODS, ..Settings::default() });
        let (writer, reader) = (world.client("c0"), world.client("c1"));
        let files = Rc::new(RefCell::new(Vec::new()));
        let (client, opened) = (writer.clone(), files.clone());
        world.spawn("c0", async move {
            for number in 0..FILES {
                let file = create(&client, &format!("f{number}")).await;
                let written = client.user.write_at(&file, number, &[1; SIZE as usize], false);
                written.await.expect("all is well");
                opened.borrow_mut().push(file);
            }
        });
        world.run(Duration::from_secs(600));
        Self { world, reader, _writer: writer, files }
    }

    /// Counts the messages of what the reader does.
    fn count<F: Future<Output = ()> + 'static>(
        &mut self,
        look: impl FnOnce(Client, Handle) -> F,
    ) -> Messages {
        let before = self.messages();
        let root = Handle::root(1, 1);
        self.world.spawn("c1", look(self.reader.clone(), root));
        self.world.run(SOON);
        let after = self.messages();
        let iods = after.1.iter().zip(&before.1).map(|(after, before)| after - before);
        Messages(after.0 - before.0, iods.collect())
    }

    fn messages(&self) -> Messages {
        let iods = (0..IODS).map(|iod| self.world.requests(Victim::Iod(iod)));
        Messages(self.world.requests(Victim::Manager), iods.collect())
    }

    fn close_all(&mut self) {
        let (client, files) = (self._writer.clone(), self.files.take());
        self.world.spawn("c0", async move {
            for file in files {
                client.user.close(file).await.expect("all is well");
            }
        });
        self.world.run(SOON);
    }
}

async fn create(client: &Client, name: &str) -> OpenFile {
    let root = client.user.root().await.expect("all is well");
    let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
    let file =
        client.user.open_regular(Target::below(root, name), flags, 0o600, Striping::default());
    file.await.expect("all is well")
}

#[test]
fn a_directory_with_attributes_is_one_message_and_one_to_each_iod() {
    let mut busy = Busy::new();
    let messages = busy.count(|reader, root| async move {
        let listing = reader.user.getdents_plus(root, 0, u32::MAX).await.unwrap();
        assert!(listing.end);
        assert_eq!(listing.entries.len() as u64, FILES);
        for entry in listing.entries {
            let number: u64 = String::from_utf8_lossy(&entry.name[1..]).parse().unwrap();
            let lite = entry.attr.unwrap();
            assert_eq!((lite.attr.size, lite.valid), (number + SIZE, LiteMask::ALL));
        }
    });
    // 1 + m, where 1 + 2m is promised: the manager keeps names and attributes together.
    assert_eq!(messages, Messages(1, vec![1; IODS as usize]));
}

#[test]
fn a_directory_without_sizes_asks_no_iod() {
    let mut busy = Busy::new();
    let messages = busy.count(|reader, root| async move {
        let lite = reader.user.getdents_plus_lite(root, 0, u32::MAX, LiteMask::ATIME).await;
        let entries = lite.unwrap().entries;
        assert_eq!(entries.len() as u64, FILES);
        assert!(entries.iter().all(|entry| entry.attr.unwrap().valid == LiteMask::ATIME));
    });
    assert_eq!(messages, Messages(1, vec![0; IODS as usize]));
}

#[test]
fn a_directory_of_quiet_files_is_one_message_with_sizes_too() {
    let mut busy = Busy::new();
    busy.close_all();
    let messages = busy.count(|reader, root| async move {
        let listing = reader.user.getdents_plus(root, 0, u32::MAX).await.unwrap();
        assert!(listing.entries.iter().all(|entry| entry.attr.unwrap().attr.size >= SIZE));
    });
    assert_eq!(messages, Messages(1, vec![0; IODS as usize]));
}

#[test]
fn a_stat_of_a_file_being_written_asks_iods_only_for_what_they_know() {
    let mut busy = Busy::new();
    for (wanted, iods) in [(LiteMask::NONE, 0), (LiteMask::ATIME, 0), (LiteMask::SIZE, 1)] {
        let messages = busy.count(|reader, root| async move {
            let lite = reader.user.statlite(Target::below(root, "f7"), true, wanted).await.unwrap();
            assert!(lite.valid.has(wanted));
            assert_eq!(lite.attr.size == SIZE + 7, wanted.has(LiteMask::SIZE));
        });
        assert_eq!(messages, Messages(1, vec![iods; IODS as usize]), "{wanted:?}");
    }
    let file = busy.files.take().remove(9);
    let messages = busy.count(|reader, _| async move {
        let lite = reader.user.fstatlite(&file, LiteMask::NONE).await.unwrap();
        assert_eq!(lite.attr.handle, file.handle);
    });
    assert_eq!(messages, Messages(1, vec![0; IODS as usize]));
}

#[test]
fn what_a_silent_iod_would_have_told_is_not_valid_and_fails_nothing_else() {
    let mut busy = Busy::new();
    busy.world.command(Command::Freeze(Victim::Iod(2)));
    busy.count(|reader, root| async move {
        let lite = reader.user.statlite(Target::below(root, "f7"), true, LiteMask::ALL).await;
        assert_eq!(lite.unwrap().valid, LiteMask::ATIME);
        let listing = reader.user.getdents_plus(root, 0, u32::MAX).await.unwrap();
        assert_eq!(listing.entries.len() as u64, FILES);
        assert!(listing.entries.iter().all(|entry| entry.attr == Err(Errno::EIO)));
        let lite = reader.user.getdents_plus_lite(root, 0, u32::MAX, LiteMask::SIZE).await;
        assert!(lite.unwrap().entries.iter().all(|entry| entry.attr.unwrap().attr.mode == 0o600));
    });
}

#[test]
fn a_close_asks_iods_only_where_holes_were_made_and_then_nobody_else_has_to() {
    let mut busy = Busy::new();
    for (offset, iods, blocks) in [(0, 0, 10), (1 << 20, 1, 32)] {
        let opened = Rc::new(RefCell::new(None));
        let (name, file) = (format!("g{offset}"), opened.clone());
        busy.count(|client, _| async move {
            let made = create(&client, &name).await;
            let written = client.user.write_at(&made, offset, &[1; SIZE as usize], false);
            written.await.expect("all is well");
            file.replace(Some(made));
        });
        let messages = busy.count(|client, _| async move {
            let file = opened.take().expect("it was opened");
            client.user.close(file).await.expect("all is well");
        });
        assert_eq!(messages, Messages(1, vec![iods; IODS as usize]));
        let messages = busy.count(|client, root| async move {
            let name = format!("g{offset}");
            let attr = client.user.stat(Target::below(root, &name), true).await.unwrap();
            assert_eq!((attr.size, attr.blocks()), (offset + SIZE, blocks));
        });
        assert_eq!(messages, Messages(1, vec![0; IODS as usize]));
    }
}

#[test]
fn who_looks_at_what_it_has_just_made_asks_no_iod() {
    let mut busy = Busy::new();
    let made = Rc::new(RefCell::new(None));
    let file = made.clone();
    busy.count(|client, _| async move { drop(file.replace(Some(create(&client, "new").await))) });
    let opened = made.clone();
    let messages = busy.count(|client, _| async move {
        let handle = opened.borrow().as_ref().expect("it was made").handle;
        assert_eq!(client.user.stat_open(handle).await.unwrap().size, 0);
    });
    assert_eq!(messages, Messages(1, vec![0; IODS as usize]));
    // Nor does it go by what it knew once it has written, or once another writes.
    let opened = made.clone();
    busy.count(|client, _| async move {
        let other = create(&client, "new").await;
        let file = opened.borrow_mut().take().expect("it was made");
        client.user.write_at(&other, 0, &[1; 10], false).await.unwrap();
        assert_eq!(client.user.stat_open(file.handle).await.unwrap().size, 10);
        client.user.close(other).await.unwrap();
        assert_eq!(client.user.stat_open(file.handle).await.unwrap().size, 10);
        client.user.write_at(&file, 10, &[1; 10], false).await.unwrap();
        assert_eq!(client.user.stat_open(file.handle).await.unwrap().size, 20);
        client.user.close(file).await.unwrap();
    });
}
