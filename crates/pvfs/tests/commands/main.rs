//! Every documented command, run on a real file system as its help and the README show it.

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod agent;
mod documented;
mod errors;
mod files;
mod local;
mod sessions;
mod striping;
