//! What one client does, on either side.

use super::files::{FILE_BYTES, Files, number};
use super::{Case, Transfer};
use crate::bench::crew::{Job, Next};
use crate::bench::error::{Doing, Error, Result};
use crate::bench::limit::client::Client;
use crate::bench::testbed::Testbed;
use pvfs_client::block_on;
use pvfs_net::buffer::{Buffer, Pool};

/// Clients of the file system.
pub fn product(testbed: &Testbed, files: &Files, case: &Case) -> Result<Vec<Job>> {
    (0..case.clients).map(|client| product_job(testbed, files, case, client)).collect()
}

/// Clients of the bare servers.
pub fn bare(testbed: &Testbed, case: &Case) -> Result<Vec<Job>> {
    (0..case.clients).map(|client| bare_job(testbed, case, client)).collect()
}

fn product_job(testbed: &Testbed, files: &Files, case: &Case, client: u32) -> Result<Job> {
    let user = testbed.client(case.transport)?;
    let file = files.open(&user, number(client, case.sharing))?;
    let mut walk = Walk::new(case, client);
    let mut buffer = buffer(case);
    Ok(match case.transfer {
        Transfer::Read => Box::new(move || {
            let got = block_on(user.read_at(&file, walk.next(), &mut buffer)).doing("read")?;
            whole(got, buffer.len())
        }),
        Transfer::Write => Box::new(move || {
            block_on(user.write_at(&file, walk.next(), &buffer, false)).doing("write")?;
            Ok(Next::Done)
        }),
    })
}

fn bare_job(testbed: &Testbed, case: &Case, client: u32) -> Result<Job> {
    let servers = testbed.bare(case.transport);
    let connected = Client::connect(servers, testbed.strip_bytes(), case.medium);
    let mut bare = connected.doing("connect to the bare servers")?;
    let (transfer, file) = (case.transfer, number(client, case.sharing));
    let mut walk = Walk::new(case, client);
    let mut buffer = buffer(case);
    Ok(Box::new(move || {
        bare.transfer(transfer, file, walk.next(), &mut buffer)
            .doing("exchange with a bare server")?;
        Ok(Next::Done)
    }))
}

/// Page-aligned on both sides, as programs that move much data have it: how fast the kernel copies depends on it.
fn buffer(case: &Case) -> Buffer {
    let mut buffer = Pool::new().take(case.bytes as usize);
    buffer.fill(7);
    buffer
}

fn whole(got: usize, wanted: usize) -> Result<Next> {
    match got == wanted {
        true => Ok(Next::Done),
        false => Err(Error::Wrong(format!("a read of {wanted} bytes within the file gave {got}"))),
    }
}

/// Through the file and round again, each client from its own part of it.
struct Walk {
    at: u64,
    step: u64,
}

impl Walk {
    fn new(case: &Case, client: u32) -> Self {
        let part = FILE_BYTES / u64::from(case.clients);
        Self { at: part * u64::from(client) / case.bytes * case.bytes, step: case.bytes }
    }

    fn next(&mut self) -> u64 {
        let at = self.at;
        self.at = (self.at + self.step) % FILE_BYTES;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::io::Case;

    #[test]
    fn a_walk_stays_within_the_file_and_visits_all_of_it() {
        for case in Case::all() {
            for client in 0..case.clients {
                let mut walk = Walk::new(&case, client);
                let steps = FILE_BYTES / case.bytes;
                let visited: std::collections::HashSet<u64> =
                    (0..steps).map(|_| walk.next()).collect();
                assert_eq!(visited.len() as u64, steps);
                assert!(visited.iter().all(|at| at + case.bytes <= FILE_BYTES));
            }
        }
    }
}
