//! Accepted commands, refused commands, and the events of accepted ones.

mod ending;
mod heal;
mod migrate;
mod outside;
mod owned;
mod prune;
mod remote;
mod size;
mod travel;
