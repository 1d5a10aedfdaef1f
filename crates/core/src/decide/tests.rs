//! What is accepted, what is refused, and what an accepted command writes.

mod ending;
mod heal;
mod migrate;
mod outside;
mod owned;
mod prune;
mod remote;
mod size;
mod travel;
