//! Who uses the file system, and who one file: all that the manager tells this user, page by page.

use pvfs_net::runtime::Runtime;
use pvfs_wire::ops::{ClientReport, Sessions, Target, UseList, Uses};

use crate::error::Result;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// The clients that the manager knows, who came first first: all of them for administrators, else this user's.
    pub async fn sessions(&self) -> Result<Vec<ClientReport>> {
        let (mut clients, mut after) = (Vec::new(), None);
        loop {
            let page = self.ask(&Sessions { after }).await?;
            clients.extend(page.clients);
            // A page that does not lead on would be asked for for ever.
            match page.next {
                Some(next) if after.is_none_or(|after| next > after) => after = Some(next),
                _ => return Ok(clients),
            }
        }
    }

    /// Who has an object open, holds locks on it and waits for some; as told by [`Self::sessions`].
    pub async fn uses(&self, target: Target) -> Result<UseList> {
        let mut all = UseList::default();
        loop {
            let page = self.ask(&Uses { target: target.clone(), after: all.next }).await?;
            all.opens.extend(page.opens);
            all.locks.extend(page.locks);
            all.incomplete |= page.incomplete;
            let place = |last: pvfs_wire::ops::LastUse| (last.number, last.open);
            let leads_on = page.next.map(place) > all.next.map(place);
            all.next = page.next.filter(|_| leads_on);
            if all.next.is_none() {
                return Ok(all);
            }
        }
    }
}
