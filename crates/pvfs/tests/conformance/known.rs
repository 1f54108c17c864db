//! The cases that are known to be otherwise, and why; the calls that libraries are known not to have.

use pvfs_conformance::Table;

/// What a place does otherwise.
#[derive(Clone, Copy)]
pub struct Known {
    /// What is otherwise.
    always: &'static [&'static [Case]],
    /// Calls that its library lacks, so that cases are set aside.
    lacks: &'static [&'static str],
}

/// The begin of the names of cases, and the reason.
type Case = (&'static str, &'static str);

/// A plain local directory: nothing, or the case is wrong.
pub const PLAIN: Known = Known { always: &[], lacks: &[] };

/// A mount.
pub const MOUNT: Known = Known { always: &[], lacks: &[] };

/// Through the preload library: what only the kernel can do.
pub const PRELOAD: Known = Known {
    always: &[
        PIPES,
        &[
            (
                "mknod/a_socket_has_a_name_that_can_be_removed",
                "only the kernel binds sockets to names",
            ),
            ("map/changes_through_a_shared_map_are_read", MAP),
            ("map/writes_are_seen_in_a_map", MAP),
            ("map/two_maps_of_one_file_are_one", MAP),
            ("map/children_share_a_map", MAP),
            ("map/changes_survive_the_end_of_the_map", MAP),
            ("map/bytes_behind_the_end_are_zeros_and_stay_out_of_the_file", MAP),
            ("map/a_map_over_strips_is_one_piece", MAP),
            ("unlink/a_mapped_file_stays_whole_without_a_name", MAP),
            ("times/writing_through_a_map_changes_the_modification_time", MAP),
            ("execute/a_program_open_for_writing_is_busy", "the kernel executes a copy in memory"),
        ],
    ],
    lacks: &[],
};

/// Through libpvfs: the calls that pvfs.h does not have.
pub const LIBRARY: Known = Known {
    always: &[],
    lacks: &[
        // Only the kernel can do these.
        "bind",
        "execve",
        "mmap",
        // A working directory is the kernel's, and paths are whole without one.
        "chdir",
        "getcwd",
        "openat",
        "linkat",
        "renameat2",
        // PVFS 1 had regular files, directories and symlinks only.
        "mkfifo",
        "mknod",
        "getxattr",
        "setxattr",
        "lsetxattr",
        "fsetxattr",
        "listxattr",
        // The program can say it by others: pvfs_queue, pvfs_read and pvfs_write, pvfs_fallocate, pvfs_statfs, statlite.
        "aio_write",
        "copy_file_range",
        "sendfile",
        "posix_fallocate",
        "statvfs",
        "statx",
    ],
};

/// Through pvfs-posix: as through the preload library, without what only that library does for programs.
pub const RUST: Known = Known {
    always: &[PIPES],
    lacks: &[
        // Only the kernel can do these.
        "bind",
        "execve",
        "mmap",
        // The program can say it by others: Queue, writex, read and write, allocate, stat; limits are constants.
        "aio_write",
        "pathconf",
        "writev",
        "sendfile",
        "posix_fallocate",
        "statx",
        // Values come whole.
        "room for getxattr",
        // The types have no such numbers.
        "negative offsets",
        "unknown flags",
        "unknown kinds of files",
        "unknown places to seek from",
        "impossible nanoseconds",
    ],
};

/// Of every library that has names for pipes.
const PIPES: &[Case] = &[
    ("mknod/a_fifo_carries_bytes_from_writer_to_reader", FIFO),
    ("mknod/a_fifo_without_reader_refuses_a_writer_that_does_not_wait", FIFO),
    ("data/a_fifo_has_no_position", FIFO),
    ("copy/needs_no_fifo", FIFO),
];

const FIFO: &str = "only the kernel has pipes: opening one is ENXIO";
const MAP: &str = "only the kernel sees what is written to memory: shared writable maps are ENODEV";

impl Known {
    fn always(&self) -> impl Iterator<Item = &Case> {
        self.always.iter().copied().flatten()
    }

    /// What of this is not as the list says.
    pub fn complaints(&self, only: &str, place: &str, table: &Table, index: usize) -> Vec<String> {
        let (broken, aside) = (table.broken(index), table.set_aside(index));
        let mut complaints = Vec::new();
        for (case, call) in &aside {
            if !self.lacks.contains(&&call[..]) {
                complaints.push(format!("{case} is set aside in {place}: it lacks {call}"));
            }
        }
        if only.is_empty() {
            let found = |call: &&&str| aside.iter().any(|(_, lacking)| lacking == **call);
            for call in self.lacks.iter().filter(|call| !found(call)) {
                complaints.push(format!("nothing is set aside in {place} for want of {call}"));
            }
        }
        for (case, why) in &broken {
            if !self.always().any(|known| case.starts_with(known.0)) {
                complaints.push(format!("{case} is broken in {place}: {why}"));
            }
        }
        for (case, why) in self.always().filter(|known| known.0.contains(only)) {
            if !broken.iter().any(|(found, _)| found.starts_with(case)) {
                complaints
                    .push(format!("{case} is kept in {place} now; take it off the list ({why})"));
            }
        }
        complaints
    }
}
