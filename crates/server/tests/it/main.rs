//! A real server on a real store, asked over HTTP.

mod bad_input;
mod described;
mod desk;
mod followed;
mod fuzzed;
mod guide;
mod healing;
mod keys;
mod matrix;
mod runs;
mod secured;
mod tasks;
mod traced;
