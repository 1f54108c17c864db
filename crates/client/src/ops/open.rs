//! Opening and closing: one message each, and no iod is contacted unless O_TRUNC has data to cut.

use pvfs_net::call::Shown;
use pvfs_net::runtime::Runtime;
use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, FileKind, Placement, Striping};
use pvfs_wire::ops::{Close, Closed, ClosedOpen, Open, OpenFlags, Opened, Renew, Target, Wrote};

use super::cached::object;
use super::truncate::Cut;
use crate::cache::{Fact, Mark, Named, OwnChange, name_of, place_of};
use crate::error::{Error, Result};
use crate::file::{OpenFile, Registration};
use crate::filesystem::Filesystem;
use crate::user::User;

/// A successful open.
#[derive(Debug)]
pub struct Opening {
    /// The file; absent when the object is a directory or another thing without data on iods.
    pub file: Option<OpenFile>,
    /// Its attributes at the time.
    pub attr: Attr,
    /// Whether this open created it.
    pub created: bool,
    /// When it was asked for, if from then on a change by others is recalled ([`crate::cache::Cache::holds_since`]).
    pub watched: Option<Mark>,
    /// Whether the attributes are complete already.
    pub(crate) complete: bool,
}

/// An open whose answer is not there. Dropped so, by a deadline or by a caller who was interrupted, it is to be
/// closed later.
struct WaitingOpen<'a, R: Runtime> {
    filesystem: &'a Filesystem<R>,
    open: Option<u64>,
}

impl<R: Runtime> Drop for WaitingOpen<'_, R> {
    fn drop(&mut self) {
        self.filesystem.give_up(self.open);
    }
}

impl<R: Runtime> User<R> {
    /// Opens, and creates if asked. `mode` has the umask already taken off unless the user is [`User::masked`]. With
    /// [`OpenFlags::NAMELESS`] `target` is the directory in which the file would have a name ([`User::link`] gives it one).
    pub async fn open(
        &self,
        target: Target,
        flags: OpenFlags,
        mode: u32,
        striping: Striping,
    ) -> Result<Opening> {
        let mut opening = self.open_known(target, flags, mode, striping).await?;
        if let (Some(file), false) = (&opening.file, opening.complete) {
            match self.completed_patiently(opening.attr, Some(&file.placement)).await {
                Ok(attr) => opening.attr = attr,
                Err(error) => return Err(self.close_failed(opening.file, error).await),
            }
        }
        Ok(opening)
    }

    /// The like, with the attributes as the manager knows them: no iod is asked, unless there is data to cut.
    pub async fn open_known(
        &self,
        target: Target,
        flags: OpenFlags,
        mode: u32,
        striping: Striping,
    ) -> Result<Opening> {
        let open = self.filesystem.next_open();
        let mut own = self.begin_open(&target, flags);
        let mode = self.asked(mode);
        let mark = self.filesystem.cache().mark(self.filesystem.runtime().now());
        let mut waiting = WaitingOpen { filesystem: &self.filesystem, open: Some(open) };
        let request = Open { target, flags, mode, striping, open };
        let (opened, leased_ms) = self.ask_open(&request).await;
        let watched = (leased_ms > 0).then_some(mark);
        if !opened.as_ref().is_err_and(|error| error.errno() == Errno::ETIMEDOUT) {
            waiting.open = None;
        }
        drop(waiting);
        let opened = opened?;
        self.close_given_up().await;
        let truncation = opened.truncation;
        let (attr, created, directory) = (opened.attr, opened.created, opened.directory);
        if flags.any(CHANGING) {
            own.touches(object(attr.handle));
        }
        let file = self.open_file(opened, flags, open);
        match truncation {
            None if flags.any(CHANGING) => {
                own.done(mark, leased_ms, || opened_facts(&request, attr, directory, file.as_ref()))
            }
            None => drop(self.filesystem.cache().keep_attributes(mark, &attr, leased_ms)),
            Some(_) => {}
        }
        let opening = Opening { file, attr, created, watched, complete: false };
        match (&opening.file, truncation) {
            (Some(file), Some(ticket)) => match Box::pin(self.cut_opened(file, ticket)).await {
                Ok(attr) => Ok(Opening { attr, complete: true, ..opening }),
                Err(error) => Err(self.close_failed(opening.file, error).await),
            },
            _ => Ok(opening),
        }
    }

    /// The answer, and for how long it may be cached. Those who move side by side keep no cache.
    async fn ask_open(&self, request: &Open) -> (Result<Opened>, u32) {
        if self.together.is_some() {
            return (self.ask_together(request).await, 0);
        }
        match self.filesystem.ask_told(&self.principal, request).await {
            Ok(told) => (told.outcome.map_err(Error::from), told.leased_ms),
            Err(error) => (Err(error), 0),
        }
    }

    /// An open that was given up may have been done after all. What was sent over the broken connection cannot
    /// happen any more once the manager answers on another.
    async fn close_given_up(&self) {
        let given_up = self.filesystem.take_given_up();
        if given_up.is_empty() {
            return;
        }
        let opens = given_up.iter().map(|open| ClosedOpen { open: *open, wrote: None }).collect();
        // In a box as all that is seldom, so that it takes no room in the future of every open.
        if Box::pin(self.ask_together(&Close { opens })).await.is_err() {
            self.filesystem.give_up(given_up);
        }
    }

    /// Who opens for reading changes nothing that anybody is told.
    fn begin_open(&self, target: &Target, flags: OpenFlags) -> OwnChange<'_> {
        let touched = match (flags.has(OpenFlags::CREATE), flags.any(CHANGING)) {
            // What it makes is known to nobody, and the directory stays as it is.
            _ if flags.has(OpenFlags::NAMELESS) => Vec::new(),
            (true, _) => place_of(target).to_vec(),
            (false, true) => vec![name_of(target)],
            (false, false) => Vec::new(),
        };
        self.filesystem.cache().change(touched)
    }

    /// Nobody will close what nobody was given.
    async fn close_failed(&self, file: Option<OpenFile>, error: Error) -> Error {
        if let Some(file) = file {
            let _ = Box::pin(self.close(file)).await;
        }
        error
    }

    /// Opens a regular file; EISDIR or EINVAL for anything else.
    pub async fn open_regular(
        &self,
        target: Target,
        flags: OpenFlags,
        mode: u32,
        striping: Striping,
    ) -> Result<OpenFile> {
        let opening = self.open(target, flags, mode, striping).await?;
        let other =
            if opening.attr.kind == FileKind::Directory { Errno::EISDIR } else { Errno::EINVAL };
        opening.file.ok_or_else(|| other.into())
    }

    /// Closes, and tells the manager what was written so that it can settle the size. Nobody is told of the
    /// close of a file that was shared by others ([`Self::openfh`]).
    pub async fn close(&self, file: OpenFile) -> Result<()> {
        file.progress().close();
        self.filesystem.writers().closed(file.handle);
        let touched = file.flags.any(CHANGING).then(|| object(file.handle));
        let _own = self.filesystem.cache().change(touched);
        match file.registration {
            Registration::Own(open) => {
                let wrote = self.report(&file).await;
                let close = Close { opens: vec![ClosedOpen { open, wrote }] };
                if wrote.is_none() && self.post_close(&file, open, &close).await {
                    return Ok(());
                }
                let Closed { unsettled } = self.ask_together(&close).await?;
                // After a write that failed the iods may not answer; then whoever wants to know asks.
                let failed = file.wrote().is_some_and(|wrote| wrote.uncertain);
                for attr in unsettled.into_iter().filter(|_| !failed) {
                    let _ = self.completed(attr, Some(&file.placement)).await;
                }
                Ok(())
            }
            // The shared open goes on without us, and its size is asked from the iods until it ends.
            Registration::Shared(..) => Ok(()),
        }
    }

    /// Has the manager close what nothing was written through and what holds no lock, without waiting for it: nobody can
    /// tell the difference. False when that was not possible at once.
    async fn post_close(&self, file: &OpenFile, open: u64, close: &Close) -> bool {
        if self.together.is_some() || self.filesystem.has_locked(file.handle) {
            return false;
        }
        let (caller, manager) = (self.filesystem.caller(), self.filesystem.manager());
        let patience = self.filesystem.metadata_patience();
        caller.post(manager, &self.principal, close, open, patience).await
    }

    /// What was written, as the manager is to know it. Where the size does not tell what the file takes on disks, the
    /// iods are asked.
    async fn report(&self, file: &OpenFile) -> Option<Wrote> {
        let wrote = file.wrote()?;
        let (may_have_holes, is_left_to_iods) = {
            let holes = &file.changes().holes;
            (holes.may_be_there(), holes.are_left_to_iods())
        };
        if wrote.uncertain || !may_have_holes {
            return Some(wrote);
        }
        let told = match is_left_to_iods {
            true => None,
            false => self.size_shown(file.handle, &file.placement).await.ok(),
        };
        // Where nobody has told it, the last one who writes asks for it, and for the size.
        let disk_bytes = told.map(|data| data.disk_bytes);
        Some(Wrote { uncertain: disk_bytes.is_none(), disk_bytes, ..wrote })
    }

    /// Gets a fresh capability for a file whose own has expired.
    pub(crate) async fn renew(&self, file: &OpenFile) -> Result<()> {
        let capability = match &file.registration {
            Registration::Own(open) => self.ask_together(&Renew { open: *open }).await?.capability,
            Registration::Shared(handle, _) => self.renewed_share(handle).await?,
        };
        file.renewed(capability);
        Ok(())
    }

    pub(crate) fn open_file(
        &self,
        opened: Opened,
        flags: OpenFlags,
        open: u64,
    ) -> Option<OpenFile> {
        let placement: Placement = opened.placement?;
        let number = self.filesystem.next_number();
        let shown = Shown { number, version: 1, token: opened.capability };
        let file = OpenFile::new(&opened.attr, flags, placement, Registration::Own(open), shown);
        if flags.has(OpenFlags::WRITE) {
            let lease = self.filesystem.caller().leases_lost();
            self.filesystem.writers().opened(file.handle, file.progress(), lease);
        }
        Some(file)
    }

    async fn cut_opened(&self, file: &OpenFile, ticket: u64) -> Result<Attr> {
        let cut = Cut {
            handle: file.handle,
            file: Some(file),
            placement: &file.placement,
            shown: &file.shown(),
            ticket,
            size: 0,
        };
        self.cut(cut).await
    }
}

/// What an open tells that may change something. Who opened a file for writing that nobody was writing is the only one who
/// can make it longer, and a second one would be announced.
fn opened_facts(
    open: &Open,
    attr: Attr,
    directory: Option<Attr>,
    file: Option<&OpenFile>,
) -> Vec<Fact> {
    let writer = file.filter(|_| open.flags.has(OpenFlags::WRITE));
    let progress = writer.map(|file| file.progress().clone());
    let mut facts = vec![Fact::Attributes(attr, progress)];
    // Through a symlink another name would be meant, and perhaps another directory.
    if let Some(directory) = directory.filter(|_| open.flags.has(OpenFlags::NOFOLLOW)) {
        facts.push(Fact::Attributes(directory, None));
        facts.push(Fact::Name(name_of(&open.target), Named::Object(attr.handle.object)));
    }
    facts
}

/// Opens that change a file, or let it be changed.
const CHANGING: OpenFlags = OpenFlags::WRITE.with(OpenFlags::TRUNCATE).with(OpenFlags::CREATE);
