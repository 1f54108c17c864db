//! What the daemon knows of a connection: the capabilities shown on it, and whether it still exists.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pvfs_net::service::ConnectionId;
use pvfs_wire::Errno;

use crate::capability::CapabilityTable;

/// One connection. Small: there may be ten thousand.
#[derive(Default)]
pub struct Connection {
    gone: AtomicBool,
    capabilities: Mutex<CapabilityTable>,
}

/// All connections.
#[derive(Default)]
pub struct Connections {
    known: RwLock<HashMap<ConnectionId, Arc<Connection>>>,
}

impl Connection {
    /// Refuses to change anything for a client that has left: it may have sent the request again on another
    /// connection and gone on from there, so that running this one would bring old data back (contract F4).
    /// To be asked with the object's lock held.
    pub fn check_present(&self) -> Result<(), Errno> {
        if self.gone.load(SeqCst) { Err(Errno::ECONNABORTED) } else { Ok(()) }
    }

    /// The capabilities shown on it.
    pub fn capabilities(&self) -> MutexGuard<'_, CapabilityTable> {
        self.capabilities.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    /// A client has come.
    pub fn add(&self, id: ConnectionId) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(id, Arc::default());
    }

    /// A connection is over: nothing that has not begun is done for it any more.
    pub fn remove(&self, id: ConnectionId) -> Option<Arc<Connection>> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let connection = known.remove(&id)?;
        connection.gone.store(true, SeqCst);
        Some(connection)
    }

    /// The connection, while it exists.
    pub fn get(&self, id: ConnectionId) -> Option<Arc<Connection>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}
