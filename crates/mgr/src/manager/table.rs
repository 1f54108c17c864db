//! What the manager has to know of an operation before it runs it.

use pvfs_wire::ops::*;
use pvfs_wire::{Effect, Operation, manager_operations};

macro_rules! effects {
    ($($name:ident -> $reply:ident = $code:literal $effect:ident;)*) => {
        /// What a repetition of the operation does; nothing when the manager has no such operation.
        pub fn effect(code: u16) -> Option<Effect> {
            match code {
                $($code => Some(Effect::$effect),)*
                _ => None,
            }
        }
    };
}
manager_operations!(effects);

/// Whether the operation asks the snapshot only. Those that tell of locks do not: locks are the writer's.
pub fn is_query(code: u16) -> bool {
    let tells_of_locks = [TestLock::CODE, Sessions::CODE, Uses::CODE].contains(&code);
    !tells_of_locks && effect(code) == Some(Effect::Query)
}

/// Whether the operation makes the store grow for good (an open only when it creates).
pub fn grows(code: u16) -> bool {
    [Mkdir::CODE, Mknod::CODE, Symlink::CODE, Link::CODE, SetXattr::CODE].contains(&code)
}
