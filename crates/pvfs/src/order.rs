//! Orders to daemons: stop, estop, resume and deny, signed with the cluster key and delivered to each daemon
//! itself, so that they work with a dead manager. Each is for one start of one daemon, which is asked first.

use std::time::{SystemTime, UNIX_EPOCH};

use pvfs_client::block_on;
use pvfs_client::credentials::key_ring;
use pvfs_net::call::{CallError, Server};
use pvfs_net::runtime::all;
use pvfs_wire::Bytes;
use pvfs_wire::ops::{Control, DaemonState, Denial, Order, OrderKind, Ping};
use serde_json::json;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::{Connected, exit_of};

type Daemon = Server<pvfs_client::Blocking>;

/// The daemons that these names mean: none, `all` or the file system's name mean all.
pub fn chosen<'a>(connected: &'a Connected, names: &[String]) -> Result<Vec<&'a Daemon>, Failure> {
    let filesystem = connected.user.filesystem();
    let servers: Vec<&Daemon> =
        [filesystem.manager()].into_iter().chain(filesystem.iods()).collect();
    let everything = |name: &String| name == "all" || *name == connected.cluster.filesystem().name;
    if names.is_empty() || names.iter().any(everything) {
        return Ok(servers);
    }
    names.iter().map(|name| one(&servers, name)).collect()
}

fn one<'a>(servers: &[&'a Daemon], name: &str) -> Result<&'a Daemon, Failure> {
    let found = servers.iter().find(|server| server.name() == name).copied();
    found.ok_or_else(|| {
        let known: Vec<&str> = servers.iter().map(|server| server.name()).collect();
        let sentence =
            format!("there is no daemon {name}; the cluster file has {}", known.join(", "));
        Failure::new(Exit::Usage, sentence)
    })
}

/// Gives an order to daemons, to all of them at once, and reports what each answered.
pub fn give(
    kind: OrderKind,
    denial: Option<Denial>,
    names: &[String],
    context: &Context,
) -> Result<(), Failure> {
    let connected = Connected::new(context, None)?;
    let ring = key_ring(&connected.cluster).map_err(|error| {
        Failure::new(Exit::Denied, format!("an order must be signed with the cluster key: {error}"))
    })?;
    let servers = chosen(&connected, names)?;
    let give_one = async |server: &Daemon| {
        let start = connected.user.inquire(server, &Ping {}).await?.start;
        let order = ring.sign_order(&order(kind, start, denial.clone()));
        connected.user.inquire(server, &Control { order: Bytes(order) }).await
    };
    let answers = block_on(all(servers.iter().map(|server| give_one(server))));
    for (server, answer) in servers.iter().zip(&answers) {
        report(server.name(), answer.as_ref().map(|done| done.state), context)?;
    }
    let failed: Vec<CallError> = answers.into_iter().filter_map(Result::err).collect();
    match failed.first() {
        None => Ok(()),
        Some(error) if failed.len() == servers.len() => {
            Err(Failure::told(exit_of(&error.clone().into())))
        }
        Some(_) => Err(Failure::told(Exit::Partial)),
    }
}

fn report(
    name: &str,
    state: Result<DaemonState, &CallError>,
    context: &Context,
) -> Result<(), Failure> {
    match state {
        Ok(state) => context.report(
            &json!({ "name": name, "state": word(state) }),
            format!("{name}: {}", word(state)),
        ),
        Err(error) => context.report(
            &json!({ "name": name, "error": error.to_string() }),
            format!("{name}: {error}"),
        ),
    }
}

fn order(kind: OrderKind, start: u64, denial: Option<Denial>) -> Order {
    let mut nonce = [0; 8];
    getrandom::fill(&mut nonce).expect("the kernel gives random bytes");
    Order { kind, issued: now_s(), nonce: u64::from_le_bytes(nonce), start, denial }
}

/// Unix seconds.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

/// A state as it is printed.
pub fn word(state: DaemonState) -> &'static str {
    match state {
        DaemonState::Ok => "OK",
        DaemonState::Degraded => "DEGRADED",
        DaemonState::ReadOnly => "READONLY",
        DaemonState::Down => "DOWN",
    }
}
