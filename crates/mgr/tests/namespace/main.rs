//! The name space against its promises: rules of POSIX, a model in memory, cookies, sizes.

mod basics;
mod world;
