//! The daemon as its clients see it: requests go in, replies come out, no network between.

mod atomicity;
mod bounds;
mod capabilities;
mod crash;
mod data;
mod full;
mod harness;
mod held;
mod malformed;
mod objects;
mod orders;
mod trouble;
mod views;
