//! Accepted commands, refused commands, and the events of accepted ones.

mod branching;
mod children;
mod dialogue;
mod ending;
mod external;
mod heal;
mod migrate;
mod owned;
mod prune;
mod remote;
mod size;
mod timing;
