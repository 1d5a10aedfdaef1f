//! Everything that can be done to a store, as documents: in the same process, or over HTTP.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`doc`] | the documents, asked and answered |
//! | [`api`] | the trait: every operation |
//! | [`local`] | it, over a store in this process |
//! | `remote` | it, over HTTP (feature `remote`) |
//! | [`view`] | what is made of a run's log for somebody to look at |
//! | [`problem`], [`codes`] | errors as they travel, and the pages of their codes |
//! | [`caller`] | who asks for a change, and how a repeat is recognised |
//! | [`moment`] | moments as text |
//!
//! The command line and the server speak these documents and no others, so what one shows, the other does too.

pub mod api;
pub mod caller;
pub mod codes;
pub mod doc;
pub mod local;
pub mod moment;
pub mod problem;
#[cfg(feature = "remote")]
pub mod remote;
pub mod view;

pub use api::{Answer, Api, Following};
pub use caller::Caller;
pub use local::{Local, open_queue};
pub use problem::Problem;
#[cfg(feature = "remote")]
pub use remote::Remote;
