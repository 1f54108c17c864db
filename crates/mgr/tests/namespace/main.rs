//! The name space against its promises: rules of POSIX, a model in memory, Linux, cookies, sizes.

mod act;
mod adopt;
mod basics;
mod cases;
mod cookies;
mod hostile;
mod linux;
mod managed;
mod model;
mod nameless;
mod random;
mod shared;
mod side;
mod sizes;
mod world;
mod xattrs;
