//! Every operation of the tables, and every reply, decodes to what was encoded; and some bytes are fixed for ever.

mod any;
mod vectors;

use any::{Any, Chance};
use pvfs_wire::{DecodeError, Operation, Wire};

fn round_trip<T: Wire + Any + PartialEq + std::fmt::Debug>(name: &str) {
    for seed in 0..200 {
        let value = T::any(&mut Chance::new(seed));
        let bytes = value.to_bytes();
        assert_eq!(T::from_bytes(&bytes).as_ref(), Ok(&value), "{name}, seed {seed}");
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(T::from_bytes(&longer), Err(DecodeError::Trailing), "{name}, seed {seed}");
        if let Some((_, shorter)) = bytes.split_last() {
            assert!(T::from_bytes(shorter).is_err(), "{name}, seed {seed}: cut short");
        }
    }
}

/// What decodes from damaged bytes is a value like any other: it travels on unchanged.
fn travels_on<T: Wire + Any + PartialEq + std::fmt::Debug>(name: &str) {
    for seed in 0..300 {
        let mut chance = Chance::new(seed);
        let mut bytes = T::any(&mut chance).to_bytes();
        if bytes.is_empty() {
            return;
        }
        for _ in 0..chance.below(3) + 1 {
            let at = chance.below(bytes.len() as u64) as usize;
            bytes[at] = chance.number() as u8;
        }
        if let Ok(value) = T::from_bytes(&bytes) {
            assert_eq!(T::from_bytes(&value.to_bytes()), Ok(value), "{name}, seed {seed}");
        }
    }
}

macro_rules! every_operation {
    ($($name:ident -> $reply:ident = $code:literal $effect:ident;)*) => {$({
        use pvfs_wire::ops::{$name, $reply};
        round_trip::<$name>($name::NAME);
        round_trip::<$reply>(stringify!($reply));
        travels_on::<$name>($name::NAME);
        travels_on::<$reply>(stringify!($reply));
    })*};
}

#[test]
fn what_all_daemons_understand_decodes_to_itself() {
    pvfs_wire::daemon_operations!(every_operation);
}

#[test]
fn what_managers_understand_decodes_to_itself() {
    pvfs_wire::manager_operations!(every_operation);
}

#[test]
fn what_iods_understand_decodes_to_itself() {
    pvfs_wire::iod_operations!(every_operation);
}

#[test]
fn tokens_decode_to_themselves() {
    use pvfs_wire::ops::Order;
    use pvfs_wire::token::{Capability, Session};
    round_trip::<Session>("Session");
    round_trip::<Capability>("Capability");
    round_trip::<Order>("Order");
}
