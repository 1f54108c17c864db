//! One at a time, in the order of coming: whoever waits inside lets others in between.
//!
//! A mutex alone would not do: who leaves it and takes it again at once keeps all others out.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Something that one thread at a time uses.
pub struct Turns<T> {
    line: Mutex<Line>,
    moved: Condvar,
    value: Mutex<T>,
}

#[derive(Default)]
struct Line {
    next: u64,
    served: u64,
}

/// The use of it.
pub struct Turn<'a, T> {
    turns: &'a Turns<T>,
    value: Option<MutexGuard<'a, T>>,
}

impl<T> Turns<T> {
    /// Nobody uses it yet.
    pub fn new(value: T) -> Self {
        Self { line: Mutex::default(), moved: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits until all who came before have left; `hurry` is to make that soon.
    pub fn take(&self, hurry: impl FnOnce()) -> Turn<'_, T> {
        let mut line = lock(&self.line);
        let own = line.next;
        line.next += 1;
        if line.served != own {
            hurry();
        }
        while line.served != own {
            line = self.moved.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        drop(line);
        Turn { turns: self, value: Some(lock(&self.value)) }
    }
}

impl<T> Turn<'_, T> {
    /// Whether somebody waits to be next.
    pub fn is_awaited(&self) -> bool {
        let line = lock(&self.turns.line);
        line.next > line.served + 1
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_deref().expect(HELD)
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect(HELD)
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        lock(&self.turns.line).served += 1;
        self.turns.moved.notify_all();
    }
}

/// What a panic left behind is as good as anything: the next call finds out.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const HELD: &str = "a turn holds the value until it is dropped";

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn who_takes_turn_after_turn_keeps_nobody_out() {
        let turns = Turns::new(0u64);
        let (is_over, hurried) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mut turn = turns.take(|| {});
                    // As a wait that only `hurry` ends.
                    for _ in 0..2000 {
                        if hurried.swap(false, Ordering::SeqCst) {
                            assert!(turn.is_awaited());
                            break;
                        }
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    *turn += 1;
                }
            });
            let mut before = 0;
            for _ in 0..20 {
                let turn = turns.take(|| hurried.store(true, Ordering::SeqCst));
                assert!(*turn <= before + 2, "the other one had more than its turns");
                before = *turn;
            }
            is_over.store(true, Ordering::Relaxed);
            hurried.store(true, Ordering::SeqCst);
        });
    }
}
