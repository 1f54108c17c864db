//! `pvfs ping`: do the daemons answer, and how fast.

use std::time::{Duration, Instant};

use pvfs_client::{Options, block_on};
use pvfs_config::Endpoint;
use pvfs_net::call::{Patience, Server};
use pvfs_wire::ops::Ping;
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::Connected;
use crate::order::chosen;

/// Measure the round trip to daemons
///
/// Sends small requests to each address of each daemon and prints the shortest, median and longest
/// time, in microseconds. The exit code is 3 if some did not answer, 4 if none did, and 5 if none let us in.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names of daemons [default: all]
    pub servers: Vec<String>,
    /// Requests to each address
    #[arg(short, long, default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// How long to wait for each answer
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    #[arg(value_parser = pvfs_config::parse_duration)]
    pub timeout: Duration,
}

const EXAMPLES: &str = "\
Examples:
  All of them:
    pvfs ping
  One of them, a thousand times:
    pvfs ping io0 --count 1000";

/// What one address of one daemon answered.
#[derive(Serialize)]
struct Trip {
    name: String,
    address: String,
    /// Shortest, median and longest, in microseconds; absent when it did not answer.
    min_us: Option<f64>,
    median_us: Option<f64>,
    max_us: Option<f64>,
    error: Option<String>,
    /// Whether it is up and does not let us in.
    is_refused: bool,
}

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = context.cluster()?;
    let options = Options { status_timeout: args.timeout, ..Options::of(&cluster) };
    let connected = Connected::with(cluster, options)?;
    let names: Vec<String> =
        chosen(&connected, &args.servers)?.iter().map(|server| server.name().to_owned()).collect();
    let described = connected.cluster.managers.iter().chain(&connected.cluster.iods);
    let addresses = described.filter(|server| names.contains(&server.name)).flat_map(|server| {
        server.listen.iter().map(|endpoint| (server.name.clone(), endpoint.clone()))
    });
    let mut trips: Vec<Trip> = Vec::new();
    for (name, endpoint) in addresses {
        trips.push(trip(&connected, &name, &endpoint, args));
    }
    let rows: Vec<String> = trips.iter().map(Trip::row).collect();
    context.report(&trips, rows.join("\n"))?;
    match trips.iter().filter(|trip| trip.error.is_some()).count() {
        0 => Ok(()),
        _ if trips.iter().all(|trip| trip.is_refused) => Err(Failure::told(Exit::Denied)),
        failed if failed == trips.len() => Err(Failure::told(Exit::Unreachable)),
        _ => Err(Failure::told(Exit::Partial)),
    }
}

fn trip(connected: &Connected, name: &str, endpoint: &Endpoint, args: &Args) -> Trip {
    let server = Server::new(name, vec![endpoint.clone()]);
    let patience = Patience { timeout: args.timeout, insist: false };
    // Two connections of one client to one daemon are lanes of one server; here they are to be apart.
    let options = connected.user.filesystem().options().clone();
    let alone = Connected::with(connected.cluster.clone(), options);
    let once = || {
        let start = Instant::now();
        let alone = alone.as_ref().map_err(|failure| (failure.sentence().to_owned(), false))?;
        let call = alone.user.inquire_within(&server, &Ping {}, patience);
        block_on(call)
            .map(|_| start.elapsed())
            .map_err(|error| (error.to_string(), error.is_refusal()))
    };
    let mut trip = Trip {
        name: name.into(),
        address: endpoint.to_string(),
        min_us: None,
        median_us: None,
        max_us: None,
        error: None,
        is_refused: false,
    };
    // The first one also makes the connection and is not counted.
    match once().and_then(|_| (0..args.count).map(|_| once()).collect::<Result<Vec<Duration>, _>>())
    {
        Ok(times) => trip.take(times),
        Err((error, is_refused)) => (trip.error, trip.is_refused) = (Some(error), is_refused),
    }
    trip
}

impl Trip {
    fn take(&mut self, mut times: Vec<Duration>) {
        times.sort();
        let micros = |time: &Duration| time.as_secs_f64() * 1e6;
        self.min_us = times.first().map(micros);
        self.median_us = times.get(times.len() / 2).map(micros);
        self.max_us = times.last().map(micros);
    }

    fn row(&self) -> String {
        let Self { name, address, .. } = self;
        match (self.min_us, self.median_us, self.max_us, &self.error) {
            (Some(min), Some(median), Some(max), _) => {
                format!("{name:<8} {address:<40} {min:8.1} {median:8.1} {max:8.1} us")
            }
            (.., error) => {
                format!("{name:<8} {address:<40} {}", error.as_deref().unwrap_or("no answer"))
            }
        }
    }
}
