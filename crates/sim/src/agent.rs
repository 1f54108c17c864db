//! A node's agent: what `pvfs agent` does for idle clients, without its threads.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use crate::client::Client;

/// An agent, until its node is lost.
pub struct Agent {
    host: String,
    future: Pin<Box<dyn Future<Output = ()>>>,
}

impl Agent {
    /// The agent of the host on which `client`, who has the rights of a daemon, works for it.
    pub fn new(client: Client) -> Self {
        client.network().start_agent(&client.host);
        Self { host: client.host.clone(), future: Box::pin(stand_for_all(client)) }
    }

    /// Where it runs.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Does what can be done now.
    pub fn poll(&mut self, context: &mut Context<'_>) {
        let ended = self.future.as_mut().poll(context).is_ready();
        assert!(!ended, "an agent works for ever");
    }
}

async fn stand_for_all(client: Client) {
    let (mut before, mut gone) = (BTreeSet::new(), BTreeSet::new());
    let mut word_due = client.now();
    loop {
        let living = client.network().attending(&client.host);
        gone.extend(before.difference(&living).copied());
        before = living;
        if !gone.is_empty() || word_due <= client.now() {
            let told = gone.iter().copied().collect();
            if client.user.vouch(before.iter().copied().collect(), told).await.is_ok() {
                gone.clear();
                word_due = client.now().after(WORD_EVERY);
            }
        }
        client.sleep(LOOK_EVERY).await;
    }
}

/// As the real one.
const WORD_EVERY: Duration = Duration::from_secs(5);
/// The real one hears at once when a socket closes.
const LOOK_EVERY: Duration = Duration::from_millis(500);
