//! Group handles against real iods, with clients that do not check what the library checks: what a capability does not
//! give, and in whose hands it is nothing, the iods know by themselves.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use pvfs_client::credentials::{Identity, Issuer};
use pvfs_client::{Filesystem, Group, OpenFile, Options, Region, Transport, User, block_on};
use pvfs_net::blocking::Blocking;
use pvfs_net::call::{Data, Patience, Principal, Shown};
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::group_handle::GroupHandle;
use pvfs_wire::ops::{Allocation, Lend, LoanFor, OpenFlags, Sharers};
use pvfs_wire::token::{Holder, KeyRing, Rights, SessionRights};
use rustix::fs::OFlags;

use crate::support::TestCluster;
use crate::support::setup::Setup;
use crate::{NEW, below};

/// How a client reaches the iods, and whether it takes what they lend.
const WAYS: [(Transport, bool); 3] =
    [(Transport::Unix, true), (Transport::Unix, false), (Transport::Tcp, false)];

fn user_by(cluster: &TestCluster, (transport, borrows): (Transport, bool)) -> User<Blocking> {
    cluster.user_with(|options| (options.transport, options.borrows) = (transport, borrows))
}

/// Somebody else than who runs the test, as an agent would vouch for them.
fn user_as(cluster: &TestCluster, uid: u32, gid: u32, gids: &[u32]) -> User<Blocking> {
    let identity = Identity { uid, gid, gids: gids.to_vec() };
    let (filesystem, principal) = connected(cluster, Transport::Tcp, identity);
    User::new(filesystem, principal)
}

fn connected(
    cluster: &TestCluster,
    transport: Transport,
    identity: Identity,
) -> (Arc<Filesystem<Blocking>>, Arc<Principal>) {
    let cluster = cluster.cluster();
    let options = Options { transport, ..Options::of(&cluster) };
    let principal = Issuer::of(&cluster).unwrap().principal(identity, SessionRights::NONE).unwrap();
    (Filesystem::new(Blocking, &cluster, options).unwrap(), principal)
}

/// How an iod of this node lends the object itself to somebody who shows what is in a handle.
fn lent(
    cluster: &TestCluster,
    identity: Identity,
    handle: &[u8],
    purpose: LoanFor,
) -> Result<OFlags, Errno> {
    let (filesystem, principal) = connected(cluster, Transport::Unix, identity);
    let token = GroupHandle::read(handle, filesystem.fsid(), 0).unwrap().capability;
    let shown = Shown { number: 1, version: 1, token };
    let patience = Patience { timeout: Duration::from_secs(10), insist: false };
    let (caller, iod) = (filesystem.caller(), &filesystem.iods()[0]);
    let (make, mut data) = (|access| Lend { access, purpose }, Data::default());
    let moved = caller.transfer(iod, &principal, &shown, make, &mut data, patience);
    let moved = block_on(moved).map_err(|error| pvfs_client::Error::from(error).errno())?;
    let object = moved.files.first().expect("a descriptor of the object");
    Ok(rustix::fs::fcntl_getfl(object).unwrap() & OFlags::RWMODE)
}

fn errno<T: Debug>(outcome: pvfs_client::Result<T>) -> Errno {
    outcome.unwrap_err().errno()
}

/// A file of 1 MiB on all iods, and a handle of it.
fn shared(user: &User<Blocking>, name: &str, flags: OpenFlags, sharers: Sharers) -> Vec<u8> {
    let file = block_on(user.open_regular(below(user, name), NEW, 0o600, Striping::default()));
    let file = file.unwrap();
    block_on(user.write_at(&file, 0, &vec![7; SIZE], false)).unwrap();
    block_on(user.close(file)).unwrap();
    let group = Group { sharers, ..Group::default() };
    let opened = user.openg(below(user, name), flags, 0, Striping::default(), group);
    block_on(opened).unwrap().handle
}

/// A file system of this id.
fn numbered(id: u32, iods: u32) -> TestCluster {
    Setup::of(iods).with("id", id).start()
}

/// A handle whose every word was changed that a client looks at, and not the capability, which nobody can make.
fn forged(handle: &[u8], change: impl FnOnce(&mut GroupHandle)) -> Vec<u8> {
    let mut forged = GroupHandle::read(handle, 1, 0).unwrap();
    change(&mut forged);
    forged.seal(&KeyRing::new(&[[9; 32]]))
}

fn with_flags(handle: &[u8], flags: OpenFlags, rights: Rights) -> Vec<u8> {
    forged(handle, |handle| (handle.flags, handle.rights) = (flags, rights))
}

#[track_caller]
fn check_reads(user: &User<Blocking>, file: &OpenFile, wanted: Result<(), Errno>) {
    let mut buffer = vec![0; SIZE];
    let read = block_on(user.read_at(file, 0, &mut buffer)).map(drop);
    assert_eq!(read.map_err(|error| error.errno()), wanted);
    let column: Vec<Region> = (0..16).map(|row| Region { offset: row * 60_000, len: 9 }).collect();
    let read = block_on(user.readx(file, &mut [&mut [0; 144]], &column)).map(drop);
    assert_eq!(read.map_err(|error| error.errno()), wanted);
}

/// Whatever changes a file, in small pieces and in large ones.
#[track_caller]
fn check_no_change(user: &User<Blocking>, file: &OpenFile) {
    for bytes in [1, 4096, 200_000, SIZE] {
        for offset in [0, 77, SIZE as u64] {
            let write = block_on(user.write_at(file, offset, &vec![8; bytes], false));
            assert_eq!(errno(write), Errno::EACCES, "{bytes} bytes at {offset}");
        }
    }
    let column: Vec<Region> = (0..16).map(|row| Region { offset: row * 60_000, len: 9 }).collect();
    assert_eq!(errno(block_on(user.writex(file, &[&[8; 144]], &column, true))), Errno::EACCES);
    for how in [Allocation::Reserve, Allocation::Punch, Allocation::Zero] {
        let done = block_on(user.allocate(file, how, 0, SIZE as u64, false));
        assert_eq!(errno(done), Errno::EACCES, "{how:?}");
    }
    let copied = block_on(user.copy_range((file, 0), (file, 70_000), 50_000));
    assert_eq!(errno(copied), Errno::EACCES);
}

#[test]
fn a_handle_for_reading_writes_nothing_and_one_for_writing_reads_nothing_whatever_the_client_believes()
 {
    let cluster = numbered(1, 3);
    let owner = cluster.user();
    let both = (OpenFlags::READ.with(OpenFlags::WRITE), Rights::READ | Rights::WRITE);
    let reading = shared(&owner, "r", OpenFlags::READ, Sharers::User);
    let writing = shared(&owner, "w", OpenFlags::WRITE, Sharers::User);
    for way in WAYS {
        let user = user_by(&cluster, way);
        let honest = user.openfh(&reading).unwrap();
        assert_eq!(errno(block_on(user.write_at(&honest, 0, b"x", false))), Errno::EBADF);
        let file = user.openfh(&with_flags(&reading, both.0, both.1)).unwrap();
        // Twice: what is read again was borrowed, perhaps.
        check_reads(&user, &file, Ok(()));
        check_reads(&user, &file, Ok(()));
        check_no_change(&user, &file);
        check_reads(&user, &file, Ok(()));

        let file = user.openfh(&with_flags(&writing, both.0, both.1)).unwrap();
        check_reads(&user, &file, Err(Errno::EACCES));
        block_on(user.write_at(&file, 0, b"w", false)).unwrap();
        check_reads(&user, &file, Err(Errno::EACCES));
    }
    for (name, first) in [("r", 7), ("w", b'w')] {
        let file = block_on(owner.open_regular(
            below(&owner, name),
            OpenFlags::READ,
            0,
            Striping::default(),
        ));
        let (file, mut content) = (file.unwrap(), vec![0; 2 * SIZE]);
        assert_eq!(block_on(owner.read_at(&file, 0, &mut content)), Ok(SIZE));
        assert!(content[0] == first && content[1..SIZE].iter().all(|byte| *byte == 7), "{name}");
    }
}

#[test]
fn a_handle_that_claims_to_be_for_others_is_what_its_capability_says() {
    let cluster = numbered(1, 2);
    let (owner, flags) = (cluster.user(), OpenFlags::READ.with(OpenFlags::WRITE));
    let own_gid = rustix::process::getegid().as_raw();
    let mine = shared(&owner, "mine", flags, Sharers::User);
    let ours = shared(&owner, "ours", flags, Sharers::Group);
    let fellow = user_as(&cluster, 30_001, 30_000, &[own_gid]);
    let stranger = user_as(&cluster, 30_002, 30_000, &[30_001]);
    for holder in [Holder::Anyone, Holder::User(30_002), Holder::Group(30_000)] {
        for handle in [&mine, &ours] {
            let claimed = forged(handle, |handle| handle.holder = holder);
            let file = stranger.openfh(&claimed).unwrap();
            check_reads(&stranger, &file, Err(Errno::EACCES));
            check_no_change(&stranger, &file);
        }
    }
    let file = fellow.openfh(&forged(&mine, |handle| handle.holder = Holder::Anyone)).unwrap();
    check_reads(&fellow, &file, Err(Errno::EACCES));
    let file = fellow.openfh(&ours).unwrap();
    check_reads(&fellow, &file, Ok(()));
    block_on(fellow.write_at(&file, 0, b"ours", false)).unwrap();
}

#[test]
fn an_object_is_lent_for_what_the_handle_is_for_and_to_those_it_is_for() {
    let cluster = numbered(1, 2);
    let owner = cluster.user();
    let reading = shared(&owner, "r", OpenFlags::READ, Sharers::User);
    let writing = shared(&owner, "w", OpenFlags::WRITE, Sharers::User);
    let own = || Identity::of_process();
    assert_eq!(lent(&cluster, own(), &reading, LoanFor::Reading), Ok(OFlags::RDONLY));
    assert_eq!(lent(&cluster, own(), &reading, LoanFor::Writing), Err(Errno::EACCES));
    assert_eq!(lent(&cluster, own(), &writing, LoanFor::Reading), Err(Errno::EACCES));
    assert!(lent(&cluster, own(), &writing, LoanFor::Writing).is_ok());
    let other = || Identity { uid: 30_002, gid: 30_000, gids: Vec::new() };
    assert_eq!(lent(&cluster, other(), &reading, LoanFor::Reading), Err(Errno::EACCES));
    assert_eq!(lent(&cluster, other(), &writing, LoanFor::Writing), Err(Errno::EACCES));
}

#[test]
fn one_process_tells_handles_of_two_file_systems_apart() {
    let (one, other) = (numbered(1, 2), numbered(2, 2));
    let (here, there) = (one.user(), other.user());
    let handle = shared(&here, "f", OpenFlags::READ, Sharers::User);
    let theirs = shared(&there, "f", OpenFlags::READ, Sharers::User);
    for (user, own, foreign) in [(&here, &handle, &theirs), (&there, &theirs, &handle)] {
        assert_eq!(errno(user.openfh(foreign)), Errno::EXDEV);
        assert_eq!(errno(user.group_attr(foreign)), Errno::EXDEV);
        assert_eq!(errno(block_on(user.renewg(foreign))), Errno::EXDEV);
        assert_eq!(errno(block_on(user.closeg(foreign))), Errno::EXDEV);
        check_reads(user, &user.openfh(own).unwrap(), Ok(()));
    }
    // One that says that it is of here: the manager and the iods of here have not made it.
    let claimed = forged(&handle, |handle| {
        (handle.fsid, handle.handle.fsid, handle.attr.handle.fsid) = (2, 2, 2);
    });
    let file = there.openfh(&claimed).unwrap();
    check_reads(&there, &file, Err(Errno::EKEYREJECTED));
    assert_eq!(errno(block_on(there.renewg(&claimed))), Errno::EKEYREJECTED);
    assert_eq!(errno(block_on(there.closeg(&claimed))), Errno::EKEYREJECTED);
    for (user, own) in [(&here, &handle), (&there, &theirs)] {
        check_reads(user, &user.openfh(own).unwrap(), Ok(()));
        block_on(user.closeg(own)).unwrap();
        assert_eq!(errno(block_on(user.renewg(own))), Errno::ESTALE);
    }
}

/// More than one strip on each iod.
const SIZE: usize = 1 << 20;
