//! `pvfs deny`: sessions that are to be believed no longer.

use pvfs_wire::ops::{Denial, OrderKind};
use pvfs_wire::token::CLOCK_SKEW_S;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::order::{give, now_s};

/// Deny sessions that leaked, before they expire
///
/// Every daemon stops believing them at once, also where they are in use, and remembers that until
/// they have expired. A session that is issued later is another matter: to keep a user out, take the
/// user from [agent] uids first. A daemon that does not answer is told so; give the order again when
/// it is back. What was granted to the session goes with it.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[group(id = "who", required = true, multiple = true)]
pub struct Args {
    /// All sessions that this user has now: a name, or a number
    #[arg(long, group = "who", value_name = "USER")]
    pub user: Option<String>,
    /// The session of this number, as pvfs sessions and the agent's log show it
    #[arg(long, group = "who", value_name = "HEX")]
    pub session: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  Whatever was issued to this user so far:
    pvfs deny --user alice
  One session:
    pvfs deny --session 8f3a0c6e5d410b27";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = context.cluster()?;
    let issued_until = now_s();
    let lifetime_s = cluster.security.session.as_secs();
    let denial = Denial {
        session: args.session.as_deref().map(session).transpose()?,
        uid: args.user.as_deref().map(user).transpose()?,
        issued_until,
        // By whatever clock they were issued.
        expiry: issued_until + lifetime_s + CLOCK_SKEW_S,
    };
    give(OrderKind::Deny, Some(denial), &[], context)
}

fn session(text: &str) -> Result<u64, Failure> {
    u64::from_str_radix(text, 16).map_err(|_| {
        Failure::new(Exit::Usage, format!("{text} is no session; it has 16 hexadecimal digits"))
    })
}

fn user(text: &str) -> Result<u32, Failure> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    let known = nix::unistd::User::from_name(text).ok().flatten();
    known
        .map(|user| user.uid.as_raw())
        .ok_or_else(|| Failure::new(Exit::Usage, format!("there is no user {text} on this node")))
}
