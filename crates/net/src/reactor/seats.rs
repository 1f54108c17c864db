//! Where the connections of a daemon are.
//!
//! A connection is numbered by the board that adopts it, its *home*, and keeps that number wherever it is: the
//! service and other connections of its lane know it by it. A board that has too much to do sends connections to
//! another, as *guests*. Their home keeps their places until they end, and knows where they are: letters go there, and
//! are sent on.

use std::collections::BTreeMap;

use crate::connection::Connection;
use crate::service::ConnectionId;
use crate::stream::Stream;

/// The connections of one board, and where those that it numbered are.
pub struct Seats<S> {
    index: u8,
    places: Vec<Place<S>>,
    free: Vec<u32>,
    serial: u32,
    guests: BTreeMap<ConnectionId, Box<Connection<S>>>,
    /// Those here, and those of them that are [busy](Connection::is_busy).
    count: usize,
    busy_count: usize,
}

enum Place<S> {
    Free,
    Taken(Box<Connection<S>>),
    /// Held for a connection that is with another board.
    Away(ConnectionId, u8),
}

impl<S: Stream> Seats<S> {
    /// None yet, for the board with this number.
    pub fn new(index: u8) -> Self {
        Self {
            index,
            places: Vec::new(),
            free: Vec::new(),
            serial: 0,
            guests: BTreeMap::new(),
            count: 0,
            busy_count: 0,
        }
    }

    /// Seats a new connection, made with the number that it gets.
    pub fn add(&mut self, make: impl FnOnce(ConnectionId) -> Connection<S>) -> ConnectionId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::Free);
            self.places.len() as u32 - 1
        });
        self.serial = self.serial.wrapping_add(1);
        let id = identify(self.index, place, self.serial);
        self.put(Box::new(make(id)));
        id
    }

    /// Seats a connection that another board has sent.
    pub fn put(&mut self, connection: Box<Connection<S>>) {
        self.count += 1;
        self.busy_count += usize::from(connection.is_busy());
        let id = connection.id();
        if home_of(id) == self.index {
            self.places[place_of(id)] = Place::Taken(connection);
        } else {
            self.guests.insert(id, connection);
        }
    }

    /// The connection, if it is here.
    pub fn get(&self, id: ConnectionId) -> Option<&Connection<S>> {
        if home_of(id) != self.index {
            return self.guests.get(&id).map(|guest| &**guest);
        }
        match self.places.get(place_of(id))? {
            Place::Taken(connection) if connection.id() == id => Some(connection),
            _ => None,
        }
    }

    /// The same, to do something with it.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection<S>> {
        if home_of(id) != self.index {
            return self.guests.get_mut(&id).map(|guest| &mut **guest);
        }
        match self.places.get_mut(place_of(id))? {
            Place::Taken(connection) if connection.id() == id => Some(connection),
            _ => None,
        }
    }

    /// All that are here.
    pub fn iter(&self) -> impl Iterator<Item = &Connection<S>> {
        let own = self.places.iter().filter_map(|place| match place {
            Place::Taken(connection) => Some(&**connection),
            _ => None,
        });
        own.chain(self.guests.values().map(|guest| &**guest))
    }

    /// How many are here.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them are busy.
    pub fn busy_count(&self) -> usize {
        self.busy_count
    }

    /// Finds out who is busy; to be called about once a second.
    pub fn count_busy(&mut self) {
        let own = self.places.iter_mut().filter_map(|place| match place {
            Place::Taken(connection) => Some(connection),
            _ => None,
        });
        let busy = own.chain(self.guests.values_mut()).map(|connection| {
            connection.note_busy();
            usize::from(connection.is_busy())
        });
        self.busy_count = busy.sum();
    }

    /// Takes one out that has ended. The home of a guest is to be [told](Self::forget).
    pub fn remove(&mut self, id: ConnectionId) -> Option<Box<Connection<S>>> {
        let removed = self.take(id, Place::Free)?;
        if home_of(id) == self.index {
            self.free.push(place_of(id) as u32);
        }
        Some(removed)
    }

    /// Takes one out to send it to another board. The home of a guest is to be told [where](Self::note_move).
    pub fn send_away(&mut self, id: ConnectionId, to: u8) -> Option<Box<Connection<S>>> {
        self.take(id, Place::Away(id, to))
    }

    fn take(&mut self, id: ConnectionId, place: Place<S>) -> Option<Box<Connection<S>>> {
        self.get(id)?;
        let taken = if home_of(id) == self.index {
            match std::mem::replace(&mut self.places[place_of(id)], place) {
                Place::Taken(connection) => connection,
                _ => unreachable!("it was just seen there"),
            }
        } else {
            self.guests.remove(&id)?
        };
        self.count -= 1;
        self.busy_count -= usize::from(taken.is_busy());
        Some(taken)
    }

    /// One of ours that is away has gone on to this board.
    pub fn note_move(&mut self, id: ConnectionId, to: u8) {
        if let Some(Place::Away(away, board)) = self.places.get_mut(place_of(id))
            && *away == id
        {
            *board = to;
        }
    }

    /// One of ours has ended while it was away.
    pub fn forget(&mut self, id: ConnectionId) {
        let Some(place) = self.places.get_mut(place_of(id)) else { return };
        if matches!(place, Place::Away(away, _) if *away == id) {
            *place = Place::Free;
            self.free.push(place_of(id) as u32);
        }
    }

    /// The board that a letter to a connection that is not here goes to; none when it has ended.
    pub fn whereabouts(&self, id: ConnectionId) -> Option<u8> {
        let home = home_of(id);
        if home != self.index {
            return Some(home);
        }
        match self.places.get(place_of(id)) {
            Some(Place::Away(away, board)) if *away == id => Some(*board),
            _ => None,
        }
    }
}

/// `home: 8 | place: 24 | serial: 32`
fn identify(home: u8, place: u32, serial: u32) -> ConnectionId {
    ConnectionId(u64::from(home) << 56 | u64::from(place) << 32 | u64::from(serial))
}

/// The board that numbered it.
pub fn home_of(id: ConnectionId) -> u8 {
    (id.0 >> 56) as u8
}

fn place_of(id: ConnectionId) -> usize {
    (id.0 >> 32 & 0x00ff_ffff) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::tests::doorman;
    use crate::gate::{Doorman, Gate, Limits, Now, Origin};
    use crate::runtime::Instant;
    use std::collections::VecDeque;
    use std::io::{self, IoSlice, IoSliceMut};
    use std::sync::Arc;

    use proptest::prelude::*;

    struct Silent;

    impl Stream for Silent {
        fn send(&mut self, _pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn receive(&mut self, _pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn shutdown(&mut self) {}
    }

    fn connection(doorman: &Arc<Doorman>, id: ConnectionId) -> Connection<Silent> {
        let now = Now { instant: Instant(0), wall_s: 0 };
        let gate = Gate::new(doorman.clone(), id, Origin::Unix { uid: 0 }, now);
        Connection::new(Silent, gate, id, false, now)
    }

    /// What boards say to each other of connections; `Close` stands for any letter to a connection.
    enum Letter {
        Take(Box<Connection<Silent>>),
        Moved(ConnectionId, u8),
        Gone(ConnectionId),
        Close(ConnectionId),
    }

    /// Boards whose letters arrive in the order in which each of them gets them, and as late as they like.
    struct Boards {
        doorman: Arc<Doorman>,
        boards: Vec<Seats<Silent>>,
        boxes: Vec<VecDeque<Letter>>,
        closed: Vec<ConnectionId>,
    }

    impl Boards {
        fn new() -> Self {
            Self {
                doorman: doorman(Limits::default()),
                boards: (0..BOARDS).map(Seats::new).collect(),
                boxes: (0..BOARDS).map(|_| VecDeque::new()).collect(),
                closed: Vec::new(),
            }
        }

        fn add(&mut self, board: u8) -> ConnectionId {
            let doorman = &self.doorman;
            self.boards[usize::from(board)].add(|id| connection(doorman, id))
        }

        fn post(&mut self, to: u8, letter: Letter) {
            self.boxes[usize::from(to)].push_back(letter);
        }

        fn send_away(&mut self, from: u8, to: u8, pick: usize) {
            let board = &mut self.boards[usize::from(from)];
            let Some(id) = board.iter().nth(pick).map(Connection::id) else { return };
            let moved = board.send_away(id, to).unwrap();
            if home_of(id) != from {
                self.post(home_of(id), Letter::Moved(id, to));
            }
            self.post(to, Letter::Take(moved));
        }

        /// One board reads one letter; whether there was one.
        fn read(&mut self, board: u8) -> bool {
            let seats = &mut self.boards[usize::from(board)];
            match self.boxes[usize::from(board)].pop_front() {
                None => return false,
                Some(Letter::Take(connection)) => seats.put(connection),
                Some(Letter::Moved(id, to)) => seats.note_move(id, to),
                Some(Letter::Gone(id)) => seats.forget(id),
                Some(Letter::Close(id)) => {
                    if seats.remove(id).is_some() {
                        self.closed.push(id);
                        if home_of(id) != board {
                            self.post(home_of(id), Letter::Gone(id));
                        }
                    } else if let Some(to) = seats.whereabouts(id) {
                        self.post(to, Letter::Close(id));
                    }
                }
            }
            true
        }

        /// Everybody reads until nobody has letters.
        fn settle(&mut self) {
            let mut rounds = 0;
            while (0..BOARDS).filter(|board| self.read(*board)).count() > 0 {
                rounds += 1;
                assert!(rounds < 10_000, "letters go round for ever");
            }
        }
    }

    const BOARDS: u8 = 3;

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8),
        Move(u8, u8, usize),
        Close(usize),
        Read(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..BOARDS).prop_map(Step::Add),
            (0..BOARDS, 1..BOARDS, 0..4usize).prop_map(|(from, far, pick)| Step::Move(
                from,
                (from + far) % BOARDS,
                pick
            )),
            (0..20usize).prop_map(Step::Close),
            (0..BOARDS).prop_map(Step::Read),
            (0..BOARDS).prop_map(Step::Read),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// Whatever moves while letters are under way, each reaches its connection, once.
        #[test]
        fn letters_find_connections_wherever_they_go(steps in steps()) {
            let mut boards = Boards::new();
            let (mut all, mut told) = (Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Add(board) => all.push(boards.add(board)),
                    Step::Move(from, to, pick) => boards.send_away(from, to, pick),
                    Step::Close(which) => {
                        // As a newer connection of the same lane does: it knows the number and no more.
                        if let Some(id) = all.get(which).filter(|id| !told.contains(*id)) {
                            boards.post(home_of(*id), Letter::Close(*id));
                            told.push(*id);
                        }
                    }
                    Step::Read(board) => drop(boards.read(board)),
                }
            }
            boards.settle();
            boards.closed.sort();
            told.sort();
            prop_assert_eq!(&boards.closed, &told);
            for id in &all {
                let here = boards.boards.iter().filter(|board| board.get(*id).is_some()).count();
                prop_assert_eq!(here, usize::from(!told.contains(id)));
            }
            for id in all.iter().filter(|id| !told.contains(id)) {
                boards.post(home_of(*id), Letter::Close(*id));
            }
            boards.settle();
            for board in &boards.boards {
                prop_assert_eq!((board.count(), board.busy_count()), (0, 0));
                prop_assert_eq!(board.free.len(), board.places.len());
            }
        }
    }
}
