//! An S3 server for tests, with scripted faults.
//!
//! It behaves like S3, with the same traps: equal content has an equal ETag, `If-Match` on a missing key is a 404, and
//! a create whose response was lost is a 412 when it is sent again. Tests script faults; a log records all requests.
//!
//! ```
//! use goldseam_fake_s3::{FakeS3, RequestFault, Match, RequestKind};
//!
//! # fn main() -> std::io::Result<()> {
//! let fake = FakeS3::start()?;
//! // The third write to the log is done, and its response is lost.
//! fake.fail(Match::any().op(RequestKind::Put).key("/log/").nth(3), RequestFault::dropped().after_commit());
//! let url = fake.url("orders");
//! assert!(url.starts_with("s3://goldseam/orders?endpoint=http://127.0.0.1:"));
//! # Ok(())
//! # }
//! ```
//!
//! It runs on its own thread and has no async methods, so clients may use any runtime. It ends when it is dropped.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `fake` | [`FakeS3`]: scripts, modes, stored objects, the log of requests |
//! | `fault` | faults, and which requests they apply to |
//! | `request` | parsed requests |
//! | `objects` | stored objects: conditions, lists |
//! | `answer` | responses as HTTP and XML |
//! | `serve` | the server: applies faults to requests |
//! | `clock` | the clock of the server |

mod answer;
mod clock;
mod fake;
mod fault;
mod objects;
mod request;
mod serve;

pub use clock::ServerClock;
pub use fake::{Conditions, FakeS3, Listing, Logged};
pub use fault::{ErrorReply, Match, RequestFault, RequestGate};
pub use request::{Precondition, RequestKind, S3Request};
