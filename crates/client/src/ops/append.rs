//! Appending: the manager reserves the range, so that no two appends ever overlap (D5).

use pvfs_net::runtime::Runtime;
use pvfs_wire::Errno;
use pvfs_wire::ops::Append;

use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// Writes all of `buffer` at the end of the file; returns the offset it went to.
    pub async fn append(&self, file: &OpenFile, buffer: &[u8], sync: bool) -> Result<u64> {
        let bytes = buffer.len() as u64;
        let offset = match self.reserve(file, bytes, None).await? {
            Some(offset) => offset,
            // Others write this file by position, so only the iods know its end.
            None => {
                let end = self.size_by_iods(file.handle, &file.placement).await?.size;
                self.reserve(file, bytes, Some(end)).await?.ok_or(Errno::EIO)?
            }
        };
        // What lies before it is there, or is what other appenders are writing.
        file.changes().holes.end_is_at_least(offset);
        self.write_in_place(file, offset, buffer, sync).await?;
        Ok(offset)
    }

    async fn reserve(&self, file: &OpenFile, bytes: u64, end: Option<u64>) -> Result<Option<u64>> {
        Ok(self.ask(&Append { open: file.own()?, bytes, end }).await?.offset)
    }
}
