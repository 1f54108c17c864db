//! What this client may answer by itself: names and attributes under the lease that the manager granted.
//!
//! ```text
//! a request begins ── mark ──> asked ──> told: may be cached? ── nothing of it recalled, or changed by this
//!                                                                client, since the mark ──> kept
//! ```
//!
//! Nothing here outlives the lease, and a lease that cannot be renewed simply ends. What this client changes
//! itself is not recalled: it is neither kept nor told from here while the change is under way. What the change's own
//! reply tells is kept, where no other change of this client may have come before or after it unnoticed.
//! Pure: the time is passed in.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use pvfs_net::runtime::Instant;
use pvfs_wire::NAME_BYTES_MAX;
use pvfs_wire::attr::{Attr, Entry, FileKind, SizeState};
use pvfs_wire::ops::{Listing, Recall, RecallKind, Target};

use crate::progress::Progress;

/// Something that may be kept.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
pub enum Key {
    /// Attributes of an object; of a directory also its listing.
    Object(u64),
    /// A name in a directory.
    Name(u64, Vec<u8>),
    /// All names in a directory.
    Names(u64),
    /// Everything.
    All,
}

/// Names and attributes, for all users of this client: whoever asks has to check permissions first.
pub struct Cache {
    is_used: AtomicBool,
    state: Mutex<State>,
}

/// When a request began: what was recalled since does not hold any more.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Mark {
    count: u64,
    at: Instant,
}

/// A change of this client that is under way, until dropped.
pub struct OwnChange<'a> {
    cache: &'a Cache,
    keys: Vec<Key>,
}

/// What the reply to a change tells.
#[derive(Clone, Debug)]
pub(crate) enum Fact {
    /// How an object is since; of a file that its client may write, without those writes.
    Attributes(Attr, Option<Progress>),
    /// What a name means since: the key is one of those that the change touches. What is told of its directory is told as well.
    Name(Key, Named),
    /// A directory has no names yet.
    Empty(u64),
}

/// What a name means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Named {
    /// It is the name of this object.
    Object(u64),
    /// It is no name.
    Absent,
}

#[derive(Default)]
struct State {
    until: Instant,
    /// Counts recalls and changes.
    count: u64,
    /// What was asked before this count is not kept: what was recalled since is not known any more.
    floor: u64,
    /// The like for what this client changed.
    changed_floor: u64,
    recalled: HashMap<Key, u64>,
    changed: HashMap<Key, u64>,
    under_way: HashMap<Key, u32>,
    attributes: HashMap<u64, Kept>,
    names: HashMap<u64, HashMap<Vec<u8>, Named>>,
    names_count: usize,
    pages: HashMap<u64, Vec<Page>>,
    pages_entries: usize,
    /// All names of directories that this client has made or listed, as long as nobody else changes those.
    whole: HashMap<u64, HashSet<Vec<u8>>>,
    whole_names: usize,
}

struct Kept {
    attr: Attr,
    /// What this client has written since.
    progress: Option<Progress>,
}

struct Page {
    cookie: u64,
    entries_max: u32,
    listing: Listing,
}

impl Default for Cache {
    fn default() -> Self {
        Self { is_used: AtomicBool::new(false), state: Mutex::default() }
    }
}

impl Cache {
    /// From now on changes are watched, so that a lease can be made use of. To be called before anything is
    /// asked or changed.
    pub fn enable(&self) {
        self.is_used.store(true, Ordering::SeqCst);
    }

    /// A request begins at this time.
    pub fn mark(&self, now: Instant) -> Mark {
        if !self.is_enabled() {
            return Mark { count: 0, at: now };
        }
        Mark { count: self.lock().count, at: now }
    }

    /// A change of these begins.
    pub fn change(&self, keys: impl IntoIterator<Item = Key>) -> OwnChange<'_> {
        let mut change = OwnChange { cache: self, keys: Vec::new() };
        keys.into_iter().for_each(|key| change.touches(key));
        change
    }

    /// How long what was told about this may be believed, when the reply allows `leased_ms`.
    pub fn until(&self, mark: Mark, key: &Key, leased_ms: u32) -> Instant {
        if leased_ms == 0 {
            return Instant(0);
        }
        self.lock().until(mark, key, leased_ms)
    }

    /// Whether nothing of the object was recalled since the mark, in the same lease. Who was told something then
    /// that may be cached knows by this that it still holds.
    pub fn holds_since(&self, mark: Mark, object: u64, now: Instant) -> bool {
        self.valid(now).is_some_and(|state| !state.is_recalled(mark, &Key::Object(object)))
    }

    /// The like, where changes of this client count as well: they end what others would be asked to give back.
    pub fn is_untouched_since(&self, mark: Mark, object: u64, now: Instant) -> bool {
        let key = Key::Object(object);
        let holds = |state: MutexGuard<'_, State>| {
            !state.is_recalled(mark, &key) && state.may_keep(mark, &key)
        };
        self.valid(now).is_some_and(holds)
    }

    /// Keeps attributes; returns until when they may be believed.
    pub fn keep_attributes(&self, mark: Mark, attr: &Attr, leased_ms: u32) -> Instant {
        self.keep_known(mark, attr, None, leased_ms)
    }

    /// The like of a file that this client alone may be writing.
    pub(crate) fn keep_known(
        &self,
        mark: Mark,
        attr: &Attr,
        progress: Option<Progress>,
        leased_ms: u32,
    ) -> Instant {
        if leased_ms == 0 || !is_settled(attr) {
            return Instant(0);
        }
        self.lock().keep_attributes(mark, attr, progress, leased_ms)
    }

    /// Keeps what a name means; returns until when it may be believed.
    pub fn keep_name(
        &self,
        mark: Mark,
        dir: u64,
        name: &[u8],
        named: Named,
        leased_ms: u32,
    ) -> Instant {
        if leased_ms == 0 {
            return Instant(0);
        }
        self.lock().keep_name(mark, dir, name, named, leased_ms)
    }

    /// Keeps a page of a directory with all that it tells.
    pub fn keep_page(
        &self,
        mark: Mark,
        dir: u64,
        asked: (u64, u32),
        listing: &Listing,
        leased_ms: u32,
    ) {
        if leased_ms == 0 {
            return;
        }
        let mut state = self.lock();
        for entry in &listing.entries {
            state.keep_name(mark, dir, &entry.name, Named::Object(entry.handle.object), leased_ms);
            if let Some(attr) = entry.attr.as_ref().filter(|attr| is_settled(attr)) {
                state.keep_attributes(mark, attr, None, leased_ms);
            }
        }
        state.keep_page(mark, dir, asked, listing, leased_ms);
    }

    /// The attributes, and until when they hold.
    pub fn attributes(&self, object: u64, now: Instant) -> Option<(Attr, Instant)> {
        let state = self.valid(now)?;
        let attr = state.attributes(object)?;
        Some((attr, state.until))
    }

    /// What a name means, and until when that holds.
    pub fn name(&self, dir: u64, name: &[u8], now: Instant) -> Option<(Named, Instant)> {
        let state = self.valid(now)?;
        let named = *state.names.get(&dir)?.get(name)?;
        Some((named, state.until))
    }

    /// Whether a name means nothing, because all names of its directory are known. It is not to be believed for any time: its
    /// coming is not announced, but that of a change of the directory.
    pub fn is_absent(&self, dir: u64, name: &[u8], now: Instant) -> bool {
        let Some(state) = self.valid(now) else { return false };
        let Some(names) = state.whole.get(&dir) else { return false };
        let is_known = !names.contains(name) && name.len() <= NAME_BYTES_MAX;
        let key = || Key::Name(dir, name.to_vec());
        is_known && !ancestors(&key()).any(|key| state.under_way.contains_key(&key))
    }

    /// A page of a directory, with the attributes that hold now; nothing if too many do not.
    pub fn page(&self, dir: u64, asked: (u64, u32), now: Instant) -> Option<Listing> {
        let state = self.valid(now)?;
        let is_that = |page: &&Page| (page.cookie, page.entries_max) == asked;
        let mut listing = state.pages.get(&dir)?.iter().find(is_that)?.listing.clone();
        let mut missing = 0;
        for entry in &mut listing.entries {
            entry.attr = state.attributes(entry.handle.object);
            missing += usize::from(entry.attr.is_none());
        }
        (missing <= MISSING_MAX).then_some(listing)
    }

    /// When the lease ends, as far as is known.
    pub fn lease_until(&self) -> Instant {
        self.lock().until
    }

    /// A lease begins; what was asked before is not under it.
    pub(crate) fn begin_lease(&self, until: Instant) {
        let mut state = self.lock();
        state.drop_all();
        state.until = until;
    }

    /// The lease goes on.
    pub(crate) fn renew_lease(&self, until: Instant) {
        let mut state = self.lock();
        state.until = state.until.max(until);
    }

    /// There is no lease any more.
    pub(crate) fn lose_lease(&self) {
        let mut state = self.lock();
        state.drop_all();
        state.until = Instant(0);
    }

    /// Drops what is recalled.
    pub(crate) fn recall(&self, recalls: &[Recall]) {
        let mut state = self.lock();
        for recall in recalls {
            let key = match recall.kind {
                RecallKind::Name => Key::Name(recall.object, recall.name.0.clone()),
                RecallKind::Names => Key::Names(recall.object),
                RecallKind::Attributes | RecallKind::Data => Key::Object(recall.object),
            };
            state.drop_key(&key);
            if let Key::Object(object) = key {
                state.drop_whole(object);
            }
            let count = state.next();
            note(&mut state.recalled, key, count);
            state.forget_old_recalls();
        }
    }

    fn is_enabled(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    fn valid(&self, now: Instant) -> Option<MutexGuard<'_, State>> {
        if !self.is_enabled() {
            return None;
        }
        let state = self.lock();
        (now < state.until).then_some(state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the cache")
    }
}

impl OwnChange<'_> {
    /// The change concerns this too, as has turned out. Which names a directory has is known again when it has ended.
    pub fn touches(&mut self, key: Key) {
        if !self.cache.is_enabled() {
            return;
        }
        let mut state = self.cache.lock();
        state.drop_key(&key);
        *state.under_way.entry(key.clone()).or_default() += 1;
        drop(state);
        self.keys.push(key);
    }

    /// The change is done. What its reply tells of what it touches is kept, if the reply allows that, nothing of it was
    /// recalled since the mark, and no other change of it by this client was under way since.
    pub(crate) fn done(mut self, mark: Mark, leased_ms: u32, facts: impl FnOnce() -> Vec<Fact>) {
        if leased_ms == 0 || self.keys.is_empty() {
            return;
        }
        let keys = std::mem::take(&mut self.keys);
        let mut state = self.cache.lock();
        let holds = |fact: &Fact| {
            let key = fact.key();
            fact.is_certain()
                && keys.contains(&key)
                && state.until(mark, &key, leased_ms) > Instant(0)
                && state.is_changed_by(&keys, mark, &key)
        };
        let (facts, doubtful): (Vec<Fact>, Vec<Fact>) = facts().into_iter().partition(holds);
        let whole: Vec<u64> = facts.iter().filter_map(Fact::directory).collect();
        state.end_change(keys, &whole);
        doubtful.iter().filter_map(Fact::place).for_each(|dir| state.drop_whole(dir));
        facts.into_iter().for_each(|fact| state.put(fact));
    }
}

impl Drop for OwnChange<'_> {
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            self.cache.lock().end_change(std::mem::take(&mut self.keys), &[]);
        }
    }
}

impl Fact {
    fn key(&self) -> Key {
        match self {
            Self::Attributes(attr, _) => Key::Object(attr.handle.object),
            Self::Name(key, _) => key.clone(),
            Self::Empty(object) => Key::Object(*object),
        }
    }

    fn is_certain(&self) -> bool {
        !matches!(self, Self::Attributes(attr, _) if !is_settled(attr))
    }

    /// The directory that it tells of.
    fn directory(&self) -> Option<u64> {
        match self {
            Self::Attributes(attr, _) => Some(attr.handle.object),
            _ => None,
        }
    }

    /// The directory of the name that it tells of.
    fn place(&self) -> Option<u64> {
        match self {
            Self::Name(Key::Name(dir, _), _) => Some(*dir),
            _ => None,
        }
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn until(&self, mark: Mark, key: &Key, leased_ms: u32) -> Instant {
        if self.is_recalled(mark, key) {
            return Instant(0);
        }
        let told = mark.at.after(std::time::Duration::from_millis(u64::from(leased_ms)));
        self.until.min(told)
    }

    /// Whether it was recalled since the mark, or that is not known any more.
    fn is_recalled(&self, mark: Mark, key: &Key) -> bool {
        mark.count < self.floor || is_since(&self.recalled, key, mark)
    }

    /// Whether it may be kept here: nothing of it is, or was since the mark, being changed by this client.
    fn may_keep(&self, mark: Mark, key: &Key) -> bool {
        let is_under_way = ancestors(key).any(|key| self.under_way.contains_key(&key));
        let is_changed = mark.count < self.changed_floor || is_since(&self.changed, key, mark);
        !is_under_way && !is_changed
    }

    /// Whether, since the mark, the change of these keys was the only one of this client that may have changed this one.
    fn is_changed_by(&self, keys: &[Key], mark: Mark, key: &Key) -> bool {
        let under_way = |key: &Key| self.under_way.get(key).copied().unwrap_or(0);
        let own = |key: &Key| keys.iter().filter(|own| *own == key).count() as u32;
        let is_alone = ancestors(key).all(|key| under_way(&key) == own(&key));
        is_alone && mark.count >= self.changed_floor && !is_since(&self.changed, key, mark)
    }

    /// A change of these ends; of these objects it is known what it did.
    fn end_change(&mut self, keys: Vec<Key>, known: &[u64]) {
        for key in keys {
            if let Some(count) = self.under_way.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.under_way.remove(&key);
                }
            }
            self.drop_key(&key);
            if let Key::Object(object) = key
                && !known.contains(&object)
            {
                self.drop_whole(object);
            }
            let count = self.next();
            note(&mut self.changed, key, count);
        }
        self.forget_old_changes();
    }

    fn put(&mut self, fact: Fact) {
        match fact {
            Fact::Attributes(attr, progress) => self.put_attributes(attr, progress),
            Fact::Name(Key::Name(dir, name), named) => {
                self.put_whole(dir, &name, named);
                self.put_name(dir, &name, named);
            }
            Fact::Name(..) => {}
            Fact::Empty(dir) => self.keep_whole(dir, HashSet::new()),
        }
    }

    fn keep_whole(&mut self, dir: u64, names: HashSet<Vec<u8>>) {
        self.drop_whole(dir);
        self.whole_names += names.len();
        self.whole.insert(dir, names);
        self.limit_whole();
    }

    fn put_whole(&mut self, dir: u64, name: &[u8], named: Named) {
        let Some(names) = self.whole.get_mut(&dir) else { return };
        let before = names.len();
        match named {
            Named::Object(_) => drop(names.insert(name.to_vec())),
            Named::Absent => drop(names.remove(name)),
        }
        self.whole_names = self.whole_names + names.len() - before;
        self.limit_whole();
    }

    fn limit_whole(&mut self) {
        if self.whole_names + self.whole.len() > NAMES_MAX {
            (self.whole, self.whole_names) = (HashMap::new(), 0);
        }
    }

    fn drop_whole(&mut self, dir: u64) {
        let names = self.whole.remove(&dir);
        self.whole_names -= names.map_or(0, |names| names.len());
    }

    fn attributes(&self, object: u64) -> Option<Attr> {
        let kept = self.attributes.get(&object)?;
        match &kept.progress {
            Some(progress) => progress.applied_to(kept.attr),
            None => Some(kept.attr),
        }
    }

    fn keep_attributes(
        &mut self,
        mark: Mark,
        attr: &Attr,
        progress: Option<Progress>,
        leased_ms: u32,
    ) -> Instant {
        let key = Key::Object(attr.handle.object);
        let until = self.until(mark, &key, leased_ms);
        if until == Instant(0) || !self.may_keep(mark, &key) {
            return Instant(0);
        }
        self.put_attributes(*attr, progress);
        until
    }

    fn put_attributes(&mut self, attr: Attr, progress: Option<Progress>) {
        if self.attributes.len() >= OBJECTS_MAX {
            self.attributes.clear();
        }
        // Replies may overtake one another.
        let object = attr.handle.object;
        if self.attributes.get(&object).is_none_or(|kept| kept.attr.change <= attr.change) {
            self.attributes.insert(object, Kept { attr, progress });
        }
    }

    fn keep_name(
        &mut self,
        mark: Mark,
        dir: u64,
        name: &[u8],
        named: Named,
        leased_ms: u32,
    ) -> Instant {
        let key = Key::Name(dir, name.to_vec());
        let until = self.until(mark, &key, leased_ms);
        if until == Instant(0) || !self.may_keep(mark, &key) {
            return Instant(0);
        }
        self.put_name(dir, name, named);
        until
    }

    fn put_name(&mut self, dir: u64, name: &[u8], named: Named) {
        if self.names_count >= NAMES_MAX {
            self.names.clear();
            self.names_count = 0;
        }
        let before = self.names.entry(dir).or_default().insert(name.to_vec(), named);
        self.names_count += usize::from(before.is_none());
    }

    fn keep_page(
        &mut self,
        mark: Mark,
        dir: u64,
        (cookie, entries_max): (u64, u32),
        listing: &Listing,
        leased_ms: u32,
    ) {
        let key = Key::Object(dir);
        if self.until(mark, &key, leased_ms) == Instant(0) || !self.may_keep(mark, &key) {
            return;
        }
        if cookie == 0 && listing.end {
            let names = listing.entries.iter().map(|entry| entry.name.0.clone());
            self.keep_whole(dir, names.collect());
        }
        if self.pages_entries + listing.entries.len() > NAMES_MAX {
            self.pages.clear();
            self.pages_entries = 0;
        }
        let bare = |entry: &Entry| Entry { attr: None, placement: None, ..entry.clone() };
        let entries: Vec<Entry> = listing.entries.iter().map(bare).collect();
        let listing = Listing { entries, ..*listing };
        let pages = self.pages.entry(dir).or_default();
        let is_that = |page: &Page| (page.cookie, page.entries_max) == (cookie, entries_max);
        for older in pages.extract_if(.., |page| is_that(page)) {
            self.pages_entries -= older.listing.entries.len() + 1;
        }
        self.pages_entries += listing.entries.len() + 1;
        pages.push(Page { cookie, entries_max, listing });
    }

    fn drop_key(&mut self, key: &Key) {
        match key {
            Key::Object(object) => {
                self.attributes.remove(object);
                for page in self.pages.remove(object).into_iter().flatten() {
                    self.pages_entries -= page.listing.entries.len() + 1;
                }
            }
            Key::Name(dir, name) => {
                let names = self.names.get_mut(dir);
                let before = names.and_then(|names| names.remove(name));
                self.names_count -= usize::from(before.is_some());
            }
            Key::Names(dir) => {
                let before = self.names.remove(dir);
                self.names_count -= before.map_or(0, |names| names.len());
                self.drop_whole(*dir);
            }
            Key::All => self.drop_all(),
        }
    }

    fn drop_all(&mut self) {
        self.attributes = HashMap::new();
        self.names = HashMap::new();
        self.pages = HashMap::new();
        self.whole = HashMap::new();
        (self.names_count, self.pages_entries, self.whole_names) = (0, 0, 0);
        self.floor = self.next();
        self.recalled.clear();
        self.changed.clear();
    }

    /// What is forgotten counts as recalled: whatever was asked before now is not kept.
    fn forget_old_recalls(&mut self) {
        if self.recalled.len() > RECENT_MAX {
            self.recalled.clear();
            self.floor = self.next();
        }
    }

    fn forget_old_changes(&mut self) {
        if self.changed.len() > RECENT_MAX {
            self.changed.clear();
            self.changed_floor = self.next();
        }
    }
}

/// The key and those that include it.
fn ancestors(key: &Key) -> impl Iterator<Item = Key> {
    let names = match key {
        Key::Name(dir, _) => Some(Key::Names(*dir)),
        _ => None,
    };
    [key.clone(), Key::All].into_iter().chain(names)
}

fn is_since(noted: &HashMap<Key, u64>, key: &Key, mark: Mark) -> bool {
    !noted.is_empty()
        && ancestors(key).any(|key| noted.get(&key).is_some_and(|count| *count > mark.count))
}

fn note(noted: &mut HashMap<Key, u64>, key: Key, count: u64) {
    noted.insert(key, count);
}

/// Whether the manager knows the size, so that nobody can change it unnoticed.
fn is_settled(attr: &Attr) -> bool {
    attr.kind != FileKind::Regular || attr.size_state == SizeState::Settled
}

/// The key of a name; of a path with several components nobody knows what it touches.
pub(crate) fn name_of(target: &Target) -> Key {
    if target.path.is_empty() {
        return Key::Object(target.dir.object);
    }
    if target.path.contains(&b'/') {
        return Key::All;
    }
    Key::Name(target.dir.object, target.path.0.clone())
}

/// What a change of a name touches: the name, and its directory.
pub(crate) fn place_of(target: &Target) -> [Key; 2] {
    [name_of(target), Key::Object(target.dir.object)]
}

const OBJECTS_MAX: usize = 256 << 10;
const NAMES_MAX: usize = 256 << 10;

/// Entries of a page whose attributes are not known any more; beyond that one question for all is better.
const MISSING_MAX: usize = 8;

/// Recalls, and changes, remembered for requests that are under way.
const RECENT_MAX: usize = 8 << 10;

#[cfg(test)]
#[path = "cache/tests.rs"]
pub(crate) mod tests;
