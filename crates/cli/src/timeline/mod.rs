//! The operations of a run drawn as bars, and its branches as a tree.

mod draw;
mod tree;

pub(crate) use draw::{Range, draw, mark};
pub(crate) use tree::tree;
