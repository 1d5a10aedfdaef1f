//! Everything that can be done to a store, as documents: in the same process, or over HTTP.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`problem`] | errors as they travel |
//! | [`caller`] | who asks for a change, and how a repeat is recognised |
//!
//! The command line and the server speak these documents and no others, so what one shows, the other does too.

pub mod caller;
pub mod problem;

pub use caller::Caller;
pub use problem::Problem;
