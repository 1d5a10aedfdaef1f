//! Real servers for tests and benchmarks: private, on loopback, and gone with whoever started them; and disks that fail.
//!
//! A server belongs to a *keeper*: a small shell process that reads orders from a pipe. The system closes
//! that pipe however the owner ends, SIGKILL included; the keeper then ends the server and removes its
//! folder. Nothing outlives a test run, and nothing of the machine's own servers is touched.
//!
//! ```no_run
//! use goldseam_testbed::postgres::{Cluster, Options};
//!
//! # fn main() -> Result<(), goldseam_testbed::Error> {
//! let cluster = Cluster::start(&Options::default())?;
//! assert_eq!(cluster.sql("SELECT 1")?, "1");
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`postgres`] | a cluster, and the faults that tests want of it |
//! | [`pgbouncer`] | a transaction pooler in front of a cluster |
//! | [`s3`] | what the servers that speak S3 have in common: a server, a bucket on it |
//! | [`seaweedfs`], [`moto`] | servers that keep conditions |
//! | [`rclone`] | one that ignores them |
//! | [`disk`] | a disk under a database: one that fails, one that remembers, and what a power loss leaves |
//! | `keeper` | the process that owns a server and its folder |
//! | `programs` | where programs are, how a missing one is installed, as whom they run |
//! | [`packages`] | tools of others, in the exact versions of a list |
//! | `wheels` | programs that come as Python packages |

pub mod disk;
mod error;
mod keeper;
pub mod moto;
pub mod packages;
pub mod pgbouncer;
pub mod postgres;
mod programs;
pub mod rclone;
pub mod s3;
pub mod seaweedfs;
mod wheels;

pub use error::Error;
