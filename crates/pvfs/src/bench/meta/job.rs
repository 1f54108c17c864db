//! What one client does in one step, and what it leaves to the next.

use super::Step;
use super::names::Names;
use crate::bench::crew::{Job, Next};
use crate::bench::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a client has made.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    directories: AtomicU64,
}

/// A client's part in a step that has `turns` turns.
pub fn job<N: Names + 'static>(
    names: Arc<N>,
    progress: Arc<Progress>,
    step: Step,
    turns: u64,
) -> Result<Job> {
    let name = |names: &N, number: u64| format!("{}{number}", names.prefix());
    Ok(match step {
        Step::Create => Box::new(move || {
            let number = progress.files.load(Ordering::Relaxed);
            names.create(&name(&names, number))?;
            progress.files.store(number + 1, Ordering::Relaxed);
            Ok(Next::Done)
        }),
        Step::Mkdir => Box::new(move || {
            let number = progress.directories.load(Ordering::Relaxed);
            names.mkdir(&format!("{}d", name(&names, number)))?;
            progress.directories.store(number + 1, Ordering::Relaxed);
            Ok(Next::Done)
        }),
        Step::Stat => {
            let (made, mut number) = (progress.files.load(Ordering::Relaxed).max(1), 0);
            Box::new(move || {
                names.stat(&name(&names, number % made))?;
                number += 1;
                Ok(Next::Done)
            })
        }
        Step::Rename => renaming(names)?,
        Step::Unlink => {
            let made = progress.files.load(Ordering::Relaxed);
            removing(made, turns, move |number| names.unlink(&name(&names, number)))
        }
        Step::Rmdir => {
            let made = progress.directories.load(Ordering::Relaxed);
            removing(made, turns, move |number| names.rmdir(&format!("{}d", name(&names, number))))
        }
    })
}

/// One file goes to and fro between two names.
fn renaming<N: Names + 'static>(names: Arc<N>) -> Result<Job> {
    let mut pair = [format!("{}here", names.prefix()), format!("{}there", names.prefix())];
    names.create(&pair[0])?;
    Ok(Box::new(move || {
        names.rename(&pair[0], &pair[1])?;
        pair.swap(0, 1);
        Ok(Next::Done)
    }))
}

/// Removes an equal share in each turn, whatever else there is time for.
fn removing(
    made: u64,
    turns: u64,
    mut remove: impl FnMut(u64) -> Result<()> + Send + 'static,
) -> Job {
    let share = (made / turns).max(1);
    let (mut number, mut left) = (0, share);
    Box::new(move || {
        if left == 0 || number == made {
            left = share;
            return Ok(Next::Exhausted);
        }
        remove(number)?;
        number += 1;
        left -= 1;
        Ok(Next::Done)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn removal_is_spread_over_the_turns() {
        let removed = Arc::new(Mutex::new(Vec::new()));
        let seen = removed.clone();
        let mut job = removing(10, 3, move |number| {
            seen.lock().unwrap().push(number);
            Ok(())
        });
        for turn in 1..=3 {
            while job().unwrap() == Next::Done {}
            assert_eq!(removed.lock().unwrap().len(), turn * 3);
        }
    }
}
