//! Pages of a file that others may be changing while it is open here.
//!
//! ```text
//!   a read through pages   asked ── answered ── the program has it ── dropped
//! ```
//!
//! The kernel keeps what was read through an open file, whatever others write, and cannot be told to go past its pages
//! later on. So as long as somebody else may be changing the file, what went through pages is dropped as soon as the
//! program that asked for it has it. Long reads are what the kernel reads ahead: the program is given some time to
//! get there. From time to time it is asked whether the others are gone.
//!
//! A thread of its own drops them: the kernel waits for pages that are being read, and the threads that carry out
//! those reads must not be the ones that wait.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pvfs_client::block_on;
use pvfs_net::blocking::Blocking;
use pvfs_net::runtime::Runtime;

use crate::handles::OpenEntry;
use crate::mounted::Mounted;
use crate::ops::Transfer;
use crate::options::Cache;
use crate::pages::Version;

impl Mounted {
    /// A read or write of so many bytes was answered. What that left in pages does not stay there if others may be
    /// changing the file.
    pub fn went_through_pages(self: &Arc<Self>, transfer: &Transfer, bytes: u64) {
        if self.options.cache != Cache::Lease {
            return;
        }
        let Ok(entry) = self.files.get(transfer.number) else { return };
        let handle = entry.file.handle;
        if !entry.uses_pages
            || self.nodes.is_ours(entry.node, |mark| self.unchanged_since(mark, handle))
        {
            return;
        }
        let (mounted, offset) = (self.clone(), transfer.offset);
        if bytes <= SOON_BYTES_MAX {
            let part = offset..offset + bytes.max(1);
            self.coherence.dropping.spawn(move || {
                if let Some(notices) = mounted.coherence.notices.get() {
                    notices.data_part(entry.node, part);
                }
                mounted.ask_for_others(&entry);
            });
        } else if self.nodes.begin_drop(entry.node) {
            self.coherence.dropping.spawn(move || {
                thread::sleep(READ_AHEAD);
                mounted.nodes.end_drop(entry.node);
                mounted.drop_all(entry.node);
                mounted.ask_for_others(&entry);
            });
        }
    }

    fn drop_all(&self, node: u64) {
        if let Some(notices) = self.coherence.notices.get() {
            notices.data(node);
        }
    }

    /// Finds out, from time to time, whether pages can be relied on again.
    fn ask_for_others(&self, entry: &OpenEntry) {
        let (node, handle) = (entry.node, entry.file.handle);
        if !self.nodes.is_to_be_asked(node, ASKED_AGAIN) {
            return;
        }
        let mark = self.filesystem.cache().mark(Blocking.now());
        let Ok((attr, _, until)) = block_on(entry.user.attributes(handle)) else { return };
        let version = Version::of(&attr).filter(|_| until > Blocking.now());
        let Some(version) = version else { return };
        let holds = |mark| self.unchanged_since(mark, handle);
        if self.nodes.found_alone(node, version, mark, holds) {
            self.drop_all(node);
        }
    }
}

/// Reads that the kernel does not extend much to read ahead.
const SOON_BYTES_MAX: u64 = 16 << 10;

/// How long what was read ahead stays.
const READ_AHEAD: Duration = Duration::from_millis(5);

/// How often it is asked whether others are still changing a file.
const ASKED_AGAIN: Duration = Duration::from_secs(1);
