//! The `pvfs` executable.

fn main() {}
