//! Random values of everything that travels, the edges of every range more often than the middle.

use pvfs_layout::{Dist, IodId, IodList, Level, Region, Regions, Strip};
use pvfs_wire::attr::*;
use pvfs_wire::ops::*;
use pvfs_wire::token::{Capability, Holder, Rights, Session, SessionRights};
use pvfs_wire::{Bytes, Handle};

/// Numbers from a seed (splitmix64).
pub struct Chance(u64);

impl Chance {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below this one.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }
}

/// A type with random values.
pub trait Any {
    /// One of them.
    fn any(chance: &mut Chance) -> Self;
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Any for $kind {
            fn any(chance: &mut Chance) -> Self {
                match chance.below(4) {
                    0 => <$kind>::MIN,
                    1 => <$kind>::MAX,
                    _ => chance.number() as $kind,
                }
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, i64);

impl Any for bool {
    fn any(chance: &mut Chance) -> Self {
        chance.below(2) == 0
    }
}

impl<const N: usize> Any for [u8; N] {
    fn any(chance: &mut Chance) -> Self {
        std::array::from_fn(|_| chance.number() as u8)
    }
}

impl<T: Any> Any for Option<T> {
    fn any(chance: &mut Chance) -> Self {
        bool::any(chance).then(|| T::any(chance))
    }
}

impl<T: Any> Any for Vec<T> {
    fn any(chance: &mut Chance) -> Self {
        (0..chance.below(4)).map(|_| T::any(chance)).collect()
    }
}

impl<A: Any, B: Any> Any for (A, B) {
    fn any(chance: &mut Chance) -> Self {
        (A::any(chance), B::any(chance))
    }
}

impl Any for Bytes {
    fn any(chance: &mut Chance) -> Self {
        Bytes((0..chance.below(300)).map(|_| chance.number() as u8).collect())
    }
}

impl Any for String {
    fn any(chance: &mut Chance) -> Self {
        let letters = ['a', 'Z', '0', '/', 'ü', '字', '\0', '𝛑'];
        (0..chance.below(20)).map(|_| letters[chance.below(8) as usize]).collect()
    }
}

impl Any for SetTime {
    fn any(chance: &mut Chance) -> Self {
        Option::any(chance).map_or(Self::Now, Self::At)
    }
}

impl Any for Dist {
    fn any(chance: &mut Chance) -> Self {
        let ssize = chance.below(1 << 24) + 1;
        let slots = chance.below(64) as u32 + 1;
        let made = match chance.below(4) {
            0 => Dist::simple_stripe(ssize, slots),
            1 => Dist::two_d(slots, slots + 1, ssize, slots * 3),
            2 => Dist::varstrip((0..slots).map(|slot| Strip { slot, size: ssize })),
            _ => Ok(Dist::basic()),
        };
        made.expect("these are within the limits")
    }
}

impl Any for Holder {
    fn any(chance: &mut Chance) -> Self {
        match chance.below(4) {
            0 => Self::Session(Any::any(chance)),
            1 => Self::User(Any::any(chance)),
            2 => Self::Group(Any::any(chance)),
            _ => Self::Anyone,
        }
    }
}

impl Any for IodList {
    fn any(chance: &mut Chance) -> Self {
        let (base, step) = (chance.below(1000) as u32, chance.below(3) as u32 + 1);
        let iods = (0..chance.below(40) as u32 + 1).map(|at| IodId(base + at * step));
        IodList::new(iods).expect("all different")
    }
}

impl Any for Regions {
    fn any(chance: &mut Chance) -> Self {
        let (offset, bytes) = (chance.below(1 << 40), chance.below(1 << 20) + 1);
        let made = match chance.below(3) {
            0 => Regions::contiguous(offset, bytes),
            1 => {
                let level = Level { count: chance.below(9) + 1, stride: bytes * 2 };
                Regions::strided(offset, bytes, &[level])
            }
            _ => Regions::list(
                (0..chance.below(9) + 1)
                    .map(|at| Region { offset: offset + at * (bytes + 7), len: bytes }),
            ),
        };
        made.expect("these are within the limits")
    }
}

/// One of these variants.
macro_rules! choices {
    ($($kind:ident { $($variant:ident),* })*) => {$(
        impl Any for $kind {
            fn any(chance: &mut Chance) -> Self {
                let all = [$($kind::$variant),*];
                all[chance.below(all.len() as u64) as usize]
            }
        }
    )*};
}
choices! {
    FileKind { Regular, Directory, Symlink, Fifo, CharDevice, BlockDevice, Socket }
    SizeState { Settled, Unsettled }
    DaemonState { Ok, Degraded, ReadOnly, Down }
    OrderKind { Stop, Estop, Resume, Deny }
    LockFamily { Range, Flock }
    LockKind { Read, Write, Unlock }
    Sharers { User, Group, Anyone }
    Count { Add, Set }
    Allocation { Reserve, Punch, Zero }
    LoanFor { Reading, Writing }
    RecallKind { Name, Names, Attributes, Data }
}

/// Any of the known bits.
macro_rules! bit_sets {
    ($($kind:ident)*) => {$(
        impl Any for $kind {
            fn any(chance: &mut Chance) -> Self {
                let mut bits = chance.number() as u32;
                while $kind::from_bits(bits).is_none() {
                    // Strikes the highest bit out until only known ones are left.
                    bits &= !(1 << (31 - bits.leading_zeros()));
                }
                $kind::from_bits(bits).expect("it was just looked at")
            }
        }
    )*};
}
bit_sets! { Extras OpenFlags RenameFlags AccessBits XattrFlags SessionRights Rights }

/// Fields in any order; one that is forgotten here does not compile.
macro_rules! records {
    ($($kind:ident { $($field:ident),* })*) => {$(
        impl Any for $kind {
            #[allow(unused_variables)]
            fn any(chance: &mut Chance) -> Self {
                Self { $($field: Any::any(chance)),* }
            }
        }
    )*};
}
records! {
    Handle { fsid, generation, object }
    Time { seconds, nanos }
    Attr {
        handle, kind, mode, nlink, uid, gid, rdev, size, size_state, disk_bytes, atime, mtime, ctime, btime,
        change, extras
    }
    Placement { dist, iods }
    Striping { base, pcount, ssize, dist }
    Entry { name, cookie, handle, kind, attr, placement }
    Target { dir, path }
    Done {}
    Hello { version_min, version_max, client, lane, incarnation, fsid, nonce, software }
    Welcome {
        version, name, boot, nonce, lease_kept, lease_ms, requests_max, outstanding_bytes_max,
        data_bytes_max, map_version, generation
    }
    Auth { token, proof }
    Authed { session, proof }
    Ping {}
    Pong { time_ns, state, start }
    Status {}
    StatusReport { name, role, version, state, reason, uptime_s, figures }
    Order { kind, issued, nonce, start, denial }
    Denial { session, uid, issued_until, expiry }
    Control { order }
    Controlled { state }
    Stat { target, follow, placement }
    Stated { attr, placement }
    Readdir { dir, cookie, entries_max, attributes }
    Listing { entries, end, parent }
    Readlink { target }
    LinkTarget { path }
    CheckAccess { target, follow, wanted }
    Allowed {}
    Statfs {}
    FilesystemStat { files, files_free, purging }
    Map {}
    ClusterMap { version, filesystem, iods, dist, pcount, ssize }
    MapIod { name, endpoints }
    Open { target, flags, mode, striping, open }
    Opened { attr, placement, capability, expiry, created, directory, truncation }
    Close { opens }
    ClosedOpen { open, wrote }
    Wrote { end, mtime, uncertain, disk_bytes }
    Closed { unsettled }
    Renew { open }
    Adopt { handle, flags, capability, from_client, from_open, open }
    Renewed { capability, expiry }
    Mkdir { target, mode }
    Mknod { target, kind, mode, rdev }
    Symlink { target, path }
    Made { attr, directory }
    Link { existing, follow, new }
    Unlink { target }
    Rmdir { target }
    Unlinked { handle, nlink, directory }
    Rename { from, to, flags }
    Renamed { attr, other, directories }
    SetAttr { target, follow, mode, uid, gid, atime, mtime }
    Truncate { target, follow, size, open }
    Truncating { attr, placement, capability, ticket }
    Truncated { handle, ticket, size, disk_bytes }
    Settle { handle, change, size, disk_bytes, mtime }
    Append { open, bytes, end }
    Appended { offset }
    GetXattr { target, follow, name }
    XattrValue { value }
    ListXattr { target, follow }
    XattrNames { names }
    SetXattr { target, follow, name, value, flags }
    RemoveXattr { target, follow, name }
    Lock { handle, family, owner, pid, kind, start, end, wait_ms }
    TestLock { handle, family, owner, kind, start, end }
    LockTest { conflict }
    InheritLocks { from_client, owner }
    LocksInherited { ranges }
    HeldLock { kind, start, end, pid }
    Recall { kind, object, name }
    Recalls { lease, acknowledged, wait_ms, ends }
    Recalled { lease, number, lease_ms, recalls }
    Access { number, token }
    Read { access, slot, regions }
    ReadDone { local_size }
    Write { access, slot, regions, sync }
    Written { local_size }
    TruncateObject { access, slot, size }
    Sync { access }
    Lend { access, purpose }
    Lent { words, whole, word, value, in_memory, valid_ms }
    AllocateObject { access, slot, offset, bytes, how, grow }
    SeekObject { access, slot, offset, hole }
    Sought { offset, local_size }
    CopyObject { access, slot, offset, bytes, source, source_slot, source_offset }
    StatObjects { handles }
    ObjectStats { objects }
    ObjectStat { local_size, disk_bytes, mtime }
    RemoveObjects { handles }
    StatStore {}
    SyncNames {}
    Vouch { living, gone }
    Sessions { after }
    SessionList { clients, next }
    ClientReport { number, software, address, here_s, freed_in_s, sessions, opens, locks, cached }
    SessionReport { id, uid, issued, expiry }
    LockCounts { held, awaited }
    Uses { target, after }
    LastUse { number, open }
    UseList { opens, locks, incomplete, next }
    OpenReport { number, uid, flags }
    LockReport { number, family, lock, awaited }
    StoreStat { disk, total_bytes, free_bytes, available_bytes }
    Session { id, uid, gid, gids, rights, issued, expiry }
    Capability { handle, rights, dist, holder, layout_epoch, expiry }
    OpenShared { target, flags, mode, striping, sharers, lifetime_s }
    OpenedShared { attr, created, handle }
    RenewShared { handle }
    CloseShared { handle }
    CountShared { handle, count, number }
    Counted { before }
}
