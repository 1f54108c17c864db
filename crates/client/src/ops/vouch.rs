//! An agent's word to the manager: which client processes of its node live.

use pvfs_net::runtime::Runtime;
use pvfs_wire::ops::Vouch;

use crate::error::Result;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// Stands for all these processes for a lease, and says that those have ended. Only for who has the
    /// rights of a daemon.
    pub async fn vouch(&self, living: Vec<u64>, gone: Vec<u64>) -> Result<()> {
        self.ask(&Vouch { living, gone }).await.map(|_| ())
    }
}
