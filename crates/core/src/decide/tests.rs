//! What is accepted, what is refused, and what an accepted command writes.

mod outside;
mod owned;
mod remote;
mod travel;
