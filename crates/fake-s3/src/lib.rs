//! An object store inside a test: it speaks S3 over HTTP, and fails as it is told.
//!
//! It does what S3 does, with the same traps: equal content has an equal ETag, `If-Match` on a missing key is a
//! 404, a create that was done and whose answer was lost is a 412 when it is tried again. Faults are scripted by
//! the test; everything that was asked is in a log.
//!
//! ```
//! use goldseam_fake_s3::{FakeS3, Fault, Match, Op};
//!
//! # fn main() -> std::io::Result<()> {
//! let fake = FakeS3::start()?;
//! // The third write to the log is done, and its answer is lost.
//! fake.fail(Match::any().op(Op::Put).key("/log/").nth(3), Fault::dropped().after_commit());
//! let url = fake.url("orders");
//! assert!(url.starts_with("s3://goldseam/orders?endpoint=http://127.0.0.1:"));
//! # Ok(())
//! # }
//! ```
//!
//! It runs on a thread of its own and has no async methods, so that any runtime may be a client of it. It ends
//! when it is dropped.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `fake` | the handle: scripts, modes, what is stored, what was asked |
//! | `fault` | what can go wrong with a request, and which requests it goes wrong with |
//! | `request` | what a client asks for |
//! | `objects` | what is stored: conditions, listing |
//! | `answer` | answers as HTTP and XML |
//! | `serve` | the server: a request, its fault, its answer |
//! | `clock` | the time that the server believes in |

mod answer;
mod clock;
mod fake;
mod fault;
mod objects;
mod request;
mod serve;

pub use clock::Clock;
pub use fake::{Conditions, FakeS3, Listing, Logged};
pub use fault::{Fault, Gate, Match, Refusal};
pub use request::{Condition, Op, Request};
