//! The engine and its healing, on stores in memory.

mod changed;
mod doctor;
mod feed;
mod following;
mod healing;
mod liveness;
mod preflight;
mod recover;
mod sweeping;
mod why;
