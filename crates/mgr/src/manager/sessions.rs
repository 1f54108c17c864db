//! Who uses the file system, and who one file.
//!
//! ```text
//! clients, sessions --.                    a page at a time
//! opens ---------------+--> network thread -----------------> writer: adds what it alone knows --> reply
//! keys cached --------'     from a snapshot                   of locks, and does nothing else
//! ```

use std::collections::HashMap;

use pvfs_net::service::{Request, Response};
use pvfs_wire::ops::{
    LOCKS_TOLD_MAX, LastUse, LockCounts, LockFamily, LockReport, OPENS_COUNTED_MAX, OpenReport,
    SessionList, Sessions, UseList, Uses,
};
use pvfs_wire::token::{Session, SessionRights};
use pvfs_wire::{Errno, Operation, Wire};

use super::Manager;
use super::clock::unix_seconds;
use super::work::{Look, Work};
use crate::clients::Sight;
use crate::execute::{Context, Random};
use crate::keys;
use crate::locks::{Held, LockTable, Place};
use crate::permission::Credentials;
use crate::record::{OpenFile, Record, SharedOpen};
use crate::store::{KeyRange, Transaction, View};

impl Manager {
    /// Answers as far as the writer is not needed; what is left is for it. Refusals are answered at once.
    pub(super) fn look_at_users(&self, request: Request<'_>, session: &Session) -> Option<Work> {
        self.figures.query();
        let look = match request.header.operation {
            Sessions::CODE => self.list_sessions(request.body, session),
            _ => self.list_uses(request.body, session, request.peer.client),
        };
        match look {
            Ok(look) => Some(Work::Look(request.ticket, look)),
            Err(status) => {
                request.ticket.reply(Response::failed(status));
                None
            }
        }
    }

    fn list_sessions(&self, body: &[u8], session: &Session) -> Result<Look, Errno> {
        let asked = Sessions::from_bytes(body).map_err(|_| Errno::EPROTO)?;
        let (sight, now_ns) = (sight_of(session), self.clock.monotonic_ns());
        let page = self.clients().page(asked.after, sight, now_ns, self.now_s());
        let mut list = SessionList { clients: page.clients, next: page.next };
        self.count_opens_of(&mut list, &page.identities, sight)?;
        let caches = self.caches();
        for (report, client) in list.clients.iter_mut().zip(&page.identities) {
            let count = caches.held_by(*client).map(|count| count as u64);
            report.cached = count.filter(|_| report.locks.is_some());
        }
        drop(caches);
        Ok(Box::new(move |_, locks| {
            for (report, client) in list.clients.iter_mut().zip(&page.identities) {
                let (held, awaited) = locks.counts(*client);
                let counts = LockCounts { held: held as u64, awaited: awaited as u64 };
                report.locks = report.locks.and(Some(counts));
            }
            Response::done::<Sessions>(&list)
        }))
    }

    /// Counts the opens of each client, and ends the page with the one at which enough were looked at.
    fn count_opens_of(
        &self,
        list: &mut SessionList,
        clients: &[u64],
        sight: Sight,
    ) -> Result<(), Errno> {
        let snapshot = self.store.snapshot();
        let (mut looked, mut counted) = (0, 0);
        for (report, client) in list.clients.iter_mut().zip(clients) {
            if looked >= ENTRIES_MAX {
                break;
            }
            let opens = snapshot.scan_prefix(&keys::opens(*client));
            for entry in opens.take(OPENS_COUNTED_MAX as usize) {
                report.opens += u64::from(sight.sees(open_file(&entry?.1)?.uid));
                looked += 1;
            }
            counted += 1;
        }
        if counted < list.clients.len() {
            list.clients.truncate(counted);
            list.next = list.clients.last().map(|last| last.number);
        }
        Ok(())
    }

    fn list_uses(&self, body: &[u8], session: &Session, client: u64) -> Result<Look, Errno> {
        let asked = Uses::from_bytes(body).map_err(|_| Errno::EPROTO)?;
        let sight = sight_of(session);
        let snapshot = self.store.snapshot();
        let object = self.find(&*snapshot, &asked, session, client)?;
        let list = UseList { opens: vec![], locks: vec![], incomplete: false, next: None };
        let mut page = UsePage { view: &*snapshot, object, sight, looked: 0, list };
        if asked.after.is_none() {
            page.add_shared_opens()?;
        }
        self.add_opens(&mut page, asked.after)?;
        let mut list = page.list;
        if list.next.is_some() {
            return Ok(Box::new(move |_, _| Response::done::<Uses>(&list)));
        }
        Ok(Box::new(move |manager, locks| {
            manager.add_locks(&mut list, locks, object, sight);
            Response::done::<Uses>(&list)
        }))
    }

    /// There is no index of opens by object, which each open and close would have to keep: all are looked at.
    fn add_opens(&self, page: &mut UsePage<'_>, after: Option<LastUse>) -> Result<(), Errno> {
        let first = after.map_or(0, |last| last.number);
        let (clients, next) = self.clients().numbered(first);
        for (number, client) in clients {
            let last = after.filter(|last| last.number == number).map(|last| last.open);
            if page.add_opens_of(number, client, last)? {
                return Ok(());
            }
        }
        let all_before = |next| LastUse { number: next - 1, open: u64::MAX };
        page.list.next = next.map(all_before);
        Ok(())
    }

    /// A lock says whose client's it is, not which user's: a user is told of those of clients that serve nobody else.
    fn add_locks(&self, list: &mut UseList, locks: &LockTable, object: u64, sight: Sight) {
        let places = [LockFamily::Range, LockFamily::Flock];
        let places = places.map(|family| Place { object, family });
        let all = |place| locks.held(place).map(move |held| (place, held, false));
        let awaited = |place| locks.awaited(place).map(move |held| (place, held, true));
        let all = places.into_iter().flat_map(all).chain(places.into_iter().flat_map(awaited));
        let (clients, now_s) = (self.clients(), self.now_s());
        let mut known = HashMap::new();
        for (at, (place, held, awaited)) in all.enumerate() {
            if at >= LOCKS_TOLD_MAX {
                list.incomplete = true;
                return;
            }
            let client = held.holder.client;
            let (is_open, number) = *known.entry(client).or_insert_with(|| {
                (clients.is_open_to(client, sight, now_s), clients.number_of(client))
            });
            if is_open {
                list.locks.push(report(number, place, held, awaited));
            }
        }
    }

    /// The object that is asked for. No mode of a directory keeps an administrator from looking.
    fn find(
        &self,
        view: &dyn View,
        asked: &Uses,
        session: &Session,
        client: u64,
    ) -> Result<u64, Errno> {
        let who = match sight_of(session) {
            Sight::All => Credentials::default(),
            Sight::Own(_) => Credentials::from(session),
        };
        let cx = Context {
            tx: &mut Transaction::new(view),
            fs: &self.fs,
            who: &who,
            client,
            now: self.clock.wall(),
            policy: &self.policy(),
            keys: &self.keys(),
            random: &mut Random::new(0),
            busy: None,
            left: Vec::new(),
        };
        Ok(cx.find(&asked.target, true)?.object)
    }

    fn now_s(&self) -> u64 {
        unix_seconds(self.clock.wall())
    }
}

/// A page of who uses an object.
struct UsePage<'a> {
    view: &'a dyn View,
    object: u64,
    sight: Sight,
    looked: usize,
    list: UseList,
}

impl UsePage<'_> {
    /// A client's opens after its number `last`. Whether the page ends with them.
    fn add_opens_of(&mut self, number: u64, client: u64, last: Option<u64>) -> Result<bool, Errno> {
        let all = KeyRange::prefix(&keys::opens(client));
        let rest = match last {
            Some(last) => all.after(&keys::open(client, last)),
            None => all,
        };
        if rest.is_empty() {
            return Ok(false);
        }
        for entry in self.view.scan(&rest) {
            let (key, value) = entry?;
            let opened = open_file(&value)?;
            self.add(Some(number), opened);
            self.looked += 1;
            if self.looked >= ENTRIES_MAX {
                let open = keys::second_number(&key).ok_or(Errno::EIO)?;
                self.list.next = Some(LastUse { number, open });
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens by group handles, of which there are few: one for all ranks of a job.
    fn add_shared_opens(&mut self) -> Result<(), Errno> {
        let mut all = self.view.scan_prefix(&[keys::SHARED]);
        for entry in all.by_ref().take(ENTRIES_MAX) {
            let SharedOpen { object, flags, uid, .. } =
                SharedOpen::decode(&entry?.1).map_err(|_| Errno::EIO)?;
            self.add(None, OpenFile { object, flags, uid });
        }
        self.list.incomplete = all.next().is_some();
        Ok(())
    }

    fn add(&mut self, number: Option<u64>, opened: OpenFile) {
        let OpenFile { object, flags, uid } = opened;
        if object == self.object && self.sight.sees(uid) {
            self.list.opens.push(OpenReport { number, uid, flags });
        }
    }
}

/// An administrator holds the cluster key, as do daemons: both are told everything.
fn sight_of(session: &Session) -> Sight {
    match session.rights.any(SessionRights::ADMIN | SessionRights::DAEMON) {
        true => Sight::All,
        false => Sight::Own(session.uid),
    }
}

fn open_file(value: &[u8]) -> Result<OpenFile, Errno> {
    OpenFile::decode(value).map_err(|_| Errno::EIO)
}

fn report(number: Option<u64>, place: Place, held: &Held, awaited: bool) -> LockReport {
    let family = place.family.of_open(held.holder.by_open);
    LockReport { number, family, lock: held.report(), awaited }
}

/// Entries of the store looked at for one page, about: a few milliseconds of a network thread.
const ENTRIES_MAX: usize = 16 << 10;
