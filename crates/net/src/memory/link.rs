//! One direction of one connection: bytes on their way, in order, each chunk with its time of arrival.

use std::collections::VecDeque;
use std::time::Duration;

use crate::runtime::Instant;

/// How long TCP repeats what nobody acknowledges before it breaks the connection.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(25);

/// One direction of one connection.
#[derive(Default)]
pub struct Pipe {
    chunks: VecDeque<Chunk>,
    /// Bytes of the first chunk that were already received.
    taken_bytes: usize,
    /// Sent and not yet received.
    bytes: usize,
    /// When the last chunk arrives: none overtakes another.
    last_at: Instant,
    /// What follows the last byte, and when.
    end: Option<(Instant, End)>,
    /// Nothing sent from now on arrives.
    is_lost: bool,
}

struct Chunk {
    at: Instant,
    bytes: Vec<u8>,
}

/// What a receiver finds behind the last byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The peer closed.
    Closed,
    /// The connection broke.
    Broken,
}

/// What a receiver finds now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// This many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// Nothing ever again.
    End(End),
}

impl Pipe {
    /// Sends bytes that arrive at `at`, or right behind those before them.
    pub fn push(&mut self, at: Instant, bytes: Vec<u8>) -> Instant {
        self.bytes += bytes.len();
        if self.is_lost {
            // They fill the sender's buffer for ever, as unacknowledged bytes do.
            return Instant(u64::MAX);
        }
        self.last_at = self.last_at.max(at);
        self.chunks.push_back(Chunk { at: self.last_at, bytes });
        self.last_at
    }

    /// What arrived by `now`; while the direction is held, what arrived before that.
    pub fn found(&self, now: Instant, held_since: Option<Instant>) -> Found {
        let horizon = held_since.map_or(now, |since| since.min(now));
        let arrived = self.chunks.iter().take_while(|chunk| chunk.at <= horizon);
        let bytes: usize = arrived.map(|chunk| chunk.bytes.len()).sum();
        match self.end {
            _ if bytes > self.taken_bytes => Found::Bytes(bytes - self.taken_bytes),
            Some((at, end)) if self.chunks.is_empty() && at <= horizon => Found::End(end),
            _ => Found::Nothing,
        }
    }

    /// Takes bytes that have arrived.
    pub fn take(&mut self, into: &mut [u8]) {
        let mut filled = 0;
        while filled < into.len() {
            let chunk = self.chunks.front().expect("no more is taken than was found");
            let rest = &chunk.bytes[self.taken_bytes..];
            let count = rest.len().min(into.len() - filled);
            into[filled..filled + count].copy_from_slice(&rest[..count]);
            filled += count;
            self.taken_bytes += count;
            if self.taken_bytes == chunk.bytes.len() {
                self.chunks.pop_front();
                self.taken_bytes = 0;
            }
        }
        self.bytes -= filled;
    }

    /// Sent and not yet received.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts an end behind everything sent so far. A break overrules a close.
    pub fn finish(&mut self, at: Instant, end: End) -> Instant {
        let at = at.max(self.last_at);
        if self.end.is_none() || end == End::Broken {
            self.end = Some((at, end));
        }
        at
    }

    /// Loses all but the first `kept` of the bytes that are under way after `now`, and all later ones.
    /// Those kept arrive by `latest`.
    pub fn sever(&mut self, now: Instant, kept: usize, latest: Instant) {
        self.is_lost = true;
        let arrived: usize = self
            .chunks
            .iter()
            .take_while(|chunk| chunk.at <= now)
            .map(|chunk| chunk.bytes.len())
            .sum();
        let mut left = arrived + kept;
        for chunk in &mut self.chunks {
            chunk.bytes.truncate(left);
            left -= chunk.bytes.len();
            chunk.at = chunk.at.min(latest.max(now));
        }
        self.chunks.retain(|chunk| !chunk.bytes.is_empty());
        self.last_at = self.chunks.back().map_or(now, |chunk| chunk.at);
        self.bytes =
            self.chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>() - self.taken_bytes;
    }

    /// Delays the bytes under way after `now` so that they arrive spread up to `latest`.
    pub fn delay_until(&mut self, now: Instant, latest: Instant) {
        let late = self.chunks.iter_mut().filter(|chunk| chunk.at > now);
        let late: Vec<&mut Chunk> = late.collect();
        let count = late.len() as u64;
        for (number, chunk) in (1..).zip(late) {
            let share = (latest.0 - now.0) / count * number;
            chunk.at = chunk.at.max(Instant(now.0 + share));
        }
        self.last_at = self.chunks.back().map_or(self.last_at, |chunk| chunk.at);
    }

    /// After a hold: what would have arrived since `since` arrives from `at` on.
    pub fn resume(&mut self, since: Instant, at: Instant) -> Instant {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.at > since) {
            chunk.at = chunk.at.max(at);
        }
        self.last_at = self.last_at.max(self.chunks.back().map_or(Instant(0), |chunk| chunk.at));
        if let Some((end_at, _)) = &mut self.end
            && *end_at > since
        {
            *end_at = (*end_at).max(at).max(self.last_at);
        }
        self.last_at.max(at)
    }

    /// How much has not arrived by `now`.
    pub fn flying_bytes(&self, now: Instant) -> usize {
        self.chunks.iter().filter(|chunk| chunk.at > now).map(|chunk| chunk.bytes.len()).sum()
    }
}
