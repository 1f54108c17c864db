//! `pvfs sessions`: who uses the file system, or one file of it.

use std::ffi::OsString;

use pvfs_client::credentials::key_ring;
use pvfs_client::{Options, block_on};
use pvfs_wire::ops::{
    ClientReport, HeldLock, LockFamily, LockKind, LockReport, OPENS_COUNTED_MAX, OpenFlags,
    OpenReport, SessionReport,
};
use pvfs_wire::token::SessionRights;
use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::{Connected, Connections, Inner, failure};
use crate::order::now_s;
use crate::show;

/// Show who uses the file system, or a file
///
/// A line for each session of each client that the manager knows, in the order in which they came: the session as
/// `pvfs deny --session` takes it, its user, where the client comes from and for how long it has been here (or that
/// it is gone, and when what it holds is freed), when the session ends, and of the client its open files, locks
/// held and waited for, and names and attributes that it may cache. With a file: who has it open, holds locks
/// on it or waits for one. An open by a group handle has no session. Nobody being there is no failure.
///
/// Whoever may read the cluster key sees everybody, others see what is their own: of a mount that serves other users
/// as well, only opens and their own session. The exit code is 3 if a file has more locks or group opens than are shown.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Who uses this file: pvfs:/PATH, or below a mount
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub path: Option<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  Everybody, before a stop:
    pvfs sessions
  Who holds the lock on a file, or keeps it open:
    pvfs sessions pvfs:/data/big.h5
  For a program:
    pvfs sessions --json";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.path {
        Some(path) => {
            let place = Connections::new(context).inside(path)?;
            list_uses(&place, &administrator(&place.on.cluster, context)?, context)
        }
        None => list_sessions(&administrator(&context.cluster()?, context)?, context),
    }
}

/// With the rights of an administrator where the cluster key may be read.
fn administrator(cluster: &pvfs_config::Cluster, context: &Context) -> Result<Connected, Failure> {
    if key_ring(cluster).is_err() {
        context.note("only what is yours is shown; the rest takes the cluster key");
    }
    let options = Options::of(cluster).named("pvfs sessions");
    Connected::with_rights(cluster.clone(), options, SessionRights::ADMIN)
}

fn list_sessions(connected: &Connected, context: &Context) -> Result<(), Failure> {
    let clients = ask_clients(connected)?;
    if context.json() {
        let values: Vec<Value> = clients.iter().map(client_value).collect();
        return context.value(&values);
    }
    let now_s = now_s();
    context.line(SESSIONS_HEAD)?;
    let lines = clients.iter().flat_map(|client| client_lines(client, now_s));
    lines.into_iter().try_for_each(|line| context.line(line.trim_end()))
}

fn ask_clients(connected: &Connected) -> Result<Vec<ClientReport>, Failure> {
    block_on(connected.user.sessions())
        .map_err(|error| failure("cannot ask the manager for its clients", &error))
}

fn list_uses(place: &Inner, connected: &Connected, context: &Context) -> Result<(), Failure> {
    let target = connected.target(&place.path)?;
    let uses = place.done("ask who uses", block_on(connected.user.uses(target)))?;
    let clients = ask_clients(connected)?;
    let client = |number: Option<u64>| clients.iter().find(|client| Some(client.number) == number);
    let opens = uses.opens.iter().map(|open| Use::of_open(open, client(open.number)));
    let locks = uses.locks.iter().map(|lock| Use::of_lock(lock, client(lock.number)));
    let rows: Vec<Use<'_>> = opens.chain(locks).collect();
    if context.json() {
        context.value(&rows.iter().map(Use::value).collect::<Vec<_>>())?;
    } else {
        context.line(USES_HEAD)?;
        rows.iter().try_for_each(|row| context.line(row.line().trim_end()))?;
    }
    if uses.incomplete {
        let sentence = format!("{place} has more locks or group opens than are shown");
        return Err(Failure::new(Exit::Partial, sentence));
    }
    Ok(())
}

const SESSIONS_HEAD: &str = "session          user         address         here         ends        open  locks  waits  cached  program";

/// The client's figures stand beside its first session.
fn client_lines(client: &ClientReport, now_s: u64) -> Vec<String> {
    let here = match (client.here_s, client.freed_in_s) {
        (Some(here_s), _) => show::duration(here_s),
        (None, left_s) => format!("gone {}s", left_s.unwrap_or(0)),
    };
    let opens = match client.opens {
        OPENS_COUNTED_MAX => format!("{OPENS_COUNTED_MAX}+"),
        opens => opens.to_string(),
    };
    let shown = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
    let held = shown(client.locks.map(|locks| locks.held));
    let awaited = shown(client.locks.map(|locks| locks.awaited));
    let (cached, program) = (shown(client.cached), printable(&client.software));
    let of_session = |session: Option<&SessionReport>, is_first: bool| {
        let id = session.map_or("-".into(), |session| hex(session.id));
        let user = session.map_or("-".into(), |session| show::user(session.uid));
        let ends = session.map_or("-".into(), |s| show::duration(s.expiry.saturating_sub(now_s)));
        let address = if client.address.is_empty() { "-" } else { &client.address };
        let head = format!("{id:<16} {user:<12} {address:<15} {here:<12} {ends:<9}");
        match is_first {
            true => format!("{head} {opens:>6} {held:>6} {awaited:>6} {cached:>7}  {program}"),
            false => head,
        }
    };
    match client.sessions.split_first() {
        None => vec![of_session(None, true)],
        Some((first, others)) => {
            let others = others.iter().map(|session| of_session(Some(session), false));
            [of_session(Some(first), true)].into_iter().chain(others).collect()
        }
    }
}

fn client_value(client: &ClientReport) -> Value {
    let session = |session: &SessionReport| {
        json!({
            "session": hex(session.id), "uid": session.uid, "user": show::user(session.uid),
            "issued_s": session.issued, "expiry_s": session.expiry,
        })
    };
    json!({
        "client": client.number, "kind": kind(&client.software), "program": client.software,
        "address": client.address, "here_s": client.here_s, "freed_in_s": client.freed_in_s,
        "sessions": client.sessions.iter().map(session).collect::<Vec<_>>(),
        "opens": client.opens, "locks_held": client.locks.map(|locks| locks.held),
        "locks_awaited": client.locks.map(|locks| locks.awaited), "cached": client.cached,
    })
}

const USES_HEAD: &str = "use   how                            user         session          address         process  program";

/// One open of a file, or one lock.
struct Use<'a> {
    /// `open`, `lock` or `wait`
    what: &'static str,
    flags: Option<OpenFlags>,
    lock: Option<(HeldLock, LockFamily)>,
    uid: Option<u32>,
    client: Option<&'a ClientReport>,
}

impl<'a> Use<'a> {
    fn of_open(open: &OpenReport, client: Option<&'a ClientReport>) -> Self {
        let (flags, uid) = (Some(open.flags), Some(open.uid));
        Self { what: "open", flags, lock: None, uid, client }
    }

    /// A lock says whose client's it is; its user is known where the client has one only.
    fn of_lock(lock: &LockReport, client: Option<&'a ClientReport>) -> Self {
        let what = if lock.awaited { "wait" } else { "lock" };
        let mut uids = client.iter().flat_map(|client| &client.sessions).map(|known| known.uid);
        let uid = uids.next().filter(|first| uids.all(|uid| uid == *first));
        Self { what, flags: None, lock: Some((lock.lock.clone(), lock.family)), uid, client }
    }

    fn access(&self) -> Vec<&'static str> {
        match (&self.lock, self.flags) {
            (Some((lock, _)), _) if lock.kind == LockKind::Write => vec!["write"],
            (Some(_), _) => vec!["read"],
            (None, flags) => {
                let flags = flags.unwrap_or(OpenFlags::NONE);
                let words = [
                    (OpenFlags::READ, "read"),
                    (OpenFlags::WRITE, "write"),
                    (OpenFlags::EXECUTE, "execute"),
                ];
                words.into_iter().filter(|(bit, _)| flags.has(*bit)).map(|(_, word)| word).collect()
            }
        }
    }

    /// `read,write`, `write 0-99`, `read all (flock)`
    fn how(&self) -> String {
        let access = self.access().join(",");
        match &self.lock {
            None => access,
            Some((_, family)) if family.seen() == LockFamily::Flock => format!("{access} flock"),
            Some((HeldLock { start, end: u64::MAX, .. }, _)) => format!("{access} {start}-"),
            Some((lock, _)) => format!("{access} {}-{}", lock.start, lock.end.saturating_sub(1)),
        }
    }

    /// What its user has shown last on this client.
    fn session(&self) -> Option<String> {
        let own = |session: &&SessionReport| Some(session.uid) == self.uid;
        self.client?.sessions.iter().rfind(own).map(|session| hex(session.id))
    }

    fn line(&self) -> String {
        let user = self.uid.map_or("-".into(), show::user);
        let session = self.session().unwrap_or("-".into());
        let process = self.lock.as_ref().map_or("-".into(), |(lock, _)| lock.pid.to_string());
        let (address, program) = match self.client {
            Some(client) => (client.address.as_str(), printable(&client.software)),
            None => ("-", String::new()),
        };
        let (what, how) = (self.what, self.how());
        format!(
            "{what:<5} {how:<30} {user:<12} {session:<16} {address:<15} {process:>7}  {program}"
        )
    }

    fn value(&self) -> Value {
        let lock = self.lock.as_ref().map(|(lock, _)| lock);
        let end = lock.map(|lock| lock.end).filter(|end| *end < u64::MAX);
        let family = self.lock.as_ref().map(|(_, family)| match family.seen() {
            LockFamily::Flock => "flock",
            _ => "fcntl",
        });
        json!({
            "use": self.what, "access": self.access(), "family": family,
            "start": lock.map(|lock| lock.start), "end": end, "process": lock.map(|lock| lock.pid),
            "uid": self.uid, "user": self.uid.map(show::user), "session": self.session(),
            "client": self.client.map(|client| client.number),
            "address": self.client.map(|client| client.address.as_str()),
            "kind": self.client.and_then(|client| kind(&client.software)),
            "program": self.client.map(|client| client.software.as_str()),
        })
    }
}

/// As an order to deny takes it.
fn hex(session: u64) -> String {
    format!("{session:016x}")
}

/// What a client says of itself is believed by nobody, and does nothing to a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// By the names that our own programs give themselves.
fn kind(software: &str) -> Option<&'static str> {
    let kinds = ["mount", "preload", "library"];
    kinds.into_iter().find(|kind| {
        let rest = software.strip_prefix("pvfs ").and_then(|rest| rest.strip_prefix(kind));
        rest.is_some_and(|rest| rest.starts_with(' '))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_wire::ops::LockCounts;

    fn client() -> ClientReport {
        let session = |id, uid, expiry| SessionReport { id, uid, issued: 0, expiry };
        ClientReport {
            number: 7,
            software: "pvfs mount 1.0 on node3, process 9\x1b[2J".into(),
            address: "10.0.0.3".into(),
            here_s: Some(10_931),
            freed_in_s: None,
            sessions: vec![session(0xab, 4_000_000_001, 1060), session(1, 4_000_000_002, 4600)],
            opens: 3,
            locks: Some(LockCounts { held: 1, awaited: 0 }),
            cached: None,
        }
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn a_client_has_a_line_for_each_session_and_its_figures_once() {
        let lines = client_lines(&client(), 1000);
        let first = "00000000000000ab 4000000001 10.0.0.3 3:02:11 0:01:00 3 1 0 - pvfs mount 1.0 on node3, process 9?[2J";
        assert_eq!(words(&lines[0]), words(first));
        assert_eq!(words(&lines[1]), words("0000000000000001 4000000002 10.0.0.3 3:02:11 1:00:00"));
        let gone = ClientReport {
            sessions: vec![],
            here_s: None,
            freed_in_s: Some(24),
            opens: OPENS_COUNTED_MAX,
            locks: None,
            software: String::new(),
            address: String::new(),
            ..client()
        };
        assert_eq!(words(&client_lines(&gone, 0)[0]), words("- - - gone 24s - 16384+ - - -"));
    }

    #[test]
    fn columns_stand_below_their_names() {
        let line = &client_lines(&client(), 1000)[0];
        for (name, value) in [("user", "4000000001"), ("address", "10.0.0.3"), ("here", "3:02:11")]
        {
            assert_eq!(SESSIONS_HEAD.find(name), line.find(value), "{name}");
        }
        assert_eq!(SESSIONS_HEAD.find("program"), line.find("pvfs mount"));
        assert_eq!(SESSIONS_HEAD.find("ends"), line.find("0:01:00"));
        let line = Use::of_open(&open(), Some(&client())).line();
        for (name, value) in
            [("how", "read"), ("user", "4000000001"), ("session", "00000000000000ab")]
        {
            assert_eq!(USES_HEAD.find(name), line.find(value), "{name}");
        }
        assert_eq!(USES_HEAD.find("address"), line.find("10.0.0.3"));
        assert_eq!(USES_HEAD.find("program"), line.find("pvfs mount"));
    }

    fn open() -> OpenReport {
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
        OpenReport { number: Some(7), uid: 4_000_000_001, flags }
    }

    fn lock(family: LockFamily, start: u64, end: u64) -> LockReport {
        let lock = HeldLock { kind: LockKind::Write, start, end, pid: 5 };
        LockReport { number: Some(7), family, lock, awaited: false }
    }

    #[test]
    fn a_use_says_how_and_whose() {
        let client = client();
        let opened = Use::of_open(&open(), Some(&client));
        assert_eq!(opened.how(), "read,write");
        assert_eq!(opened.session().as_deref(), Some("00000000000000ab"));
        let locked = Use::of_lock(&lock(LockFamily::OpenRange, 10, 20), Some(&client));
        assert_eq!((locked.what, locked.how().as_str(), locked.uid), ("lock", "write 10-19", None));
        let alone = ClientReport { sessions: client.sessions[..1].to_vec(), ..client };
        let rest = Use::of_lock(&lock(LockFamily::Range, 10, u64::MAX), Some(&alone));
        assert_eq!((rest.how().as_str(), rest.uid), ("write 10-", Some(4_000_000_001)));
        let whole = Use::of_lock(&lock(LockFamily::Flock, 0, u64::MAX), None);
        assert_eq!((whole.how().as_str(), whole.session()), ("write flock", None));
        assert_eq!(whole.value()["end"], Value::Null);
    }

    #[test]
    fn a_client_is_of_the_kind_that_our_programs_say() {
        assert_eq!(kind("pvfs mount 0.1.0 on a, process 1"), Some("mount"));
        assert_eq!(kind("pvfs preload 0.1.0"), Some("preload"));
        assert_eq!([kind("pvfs mounts"), kind("pvfs"), kind("mount 1")], [None; 3]);
    }
}
