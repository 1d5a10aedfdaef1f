//! The engine and its healing, on stores in memory.

mod by_hand;
mod changed;
mod doctor;
mod feed;
mod following;
mod healing;
mod preflight;
mod sweeping;
mod why;
