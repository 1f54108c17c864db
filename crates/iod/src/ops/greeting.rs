//! Hello and Auth: the network's gate answers them; one that comes this far is out of place.

use pvfs_wire::Errno;
use pvfs_wire::ops::{Auth, Hello};

use super::{Execute, Outcome};
use crate::call::Call;
use crate::shared::Shared;

impl Execute for Hello {
    fn execute(self, _: &Shared, _: &Call<'_>) -> Outcome {
        Err(Errno::EPROTO)
    }
}

impl Execute for Auth {
    fn execute(self, _: &Shared, _: &Call<'_>) -> Outcome {
        Err(Errno::EPROTO)
    }
}
