//! Opens that go from one process to another with their descriptors.

use pvfs_net::runtime::Runtime;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{Adopt, OpenFlags, Target};
use pvfs_wire::{Bytes, Errno, Handle};

use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

/// What another process needs to take part in an open.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Inheritance {
    /// The file.
    pub handle: Handle,
    /// How it was opened.
    pub flags: OpenFlags,
    /// What the manager gave to the open.
    pub capability: Bytes,
    /// The client that opened it.
    pub client: u64,
    /// Its number for the open.
    pub open: u64,
}

impl<R: Runtime> User<R> {
    /// What another process needs to take part in this open.
    pub fn bequeath(&self, file: &OpenFile) -> Inheritance {
        let (client, open) = file.registered(self.filesystem.caller().client());
        Inheritance {
            handle: file.handle,
            flags: lasting(file.flags),
            capability: file.shown().token,
            client,
            open,
        }
    }

    /// Takes part in another process's open, or opens the same file once more with other lasting flags. The
    /// first open may be closed meanwhile: the file stays for this one, even if it has no name any more.
    pub async fn adopt(&self, from: &Inheritance) -> Result<OpenFile> {
        let open = self.filesystem.next_open();
        let (handle, flags) = (from.handle, lasting(from.flags));
        let request = Adopt {
            handle,
            flags,
            capability: from.capability.clone(),
            from_client: from.client,
            from_open: from.open,
            open,
        };
        match self.ask(&request).await {
            // Too old to prove anything: then this user's own permissions decide.
            Err(error) if matches!(error.errno(), Errno::EKEYEXPIRED | Errno::EKEYREJECTED) => {
                self.open_regular(Target::object(handle), flags, 0, Striping::default()).await
            }
            adopted => {
                let file = self.open_file(adopted?, flags, open);
                file.ok_or_else(|| Errno::ESTALE.into())
            }
        }
    }
}

/// What of an open's flags is not over when it is open.
fn lasting(flags: OpenFlags) -> OpenFlags {
    [OpenFlags::READ, OpenFlags::WRITE, OpenFlags::APPEND, OpenFlags::EXECUTE]
        .into_iter()
        .fold(OpenFlags::NONE, |lasting, flag| lasting.with_if(flags.has(flag), flag))
}
