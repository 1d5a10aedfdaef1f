//! Real servers for tests and benchmarks, private and on loopback, which end with the process that started them; and
//! failing disks.
//!
//! A server belongs to a *keeper*: a small shell process that reads orders from a pipe. The system closes that pipe
//! however the owner ends, even by SIGKILL; the keeper then ends the server and removes its folder. No server outlives
//! a test run, and the machine's own servers are never used.
//!
//! ```no_run
//! use goldseam_testbed::postgres::{Cluster, ClusterOptions};
//!
//! # fn main() -> Result<(), goldseam_testbed::TestbedError> {
//! let cluster = Cluster::start(&ClusterOptions::default())?;
//! assert_eq!(cluster.sql("SELECT 1")?, "1");
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`postgres`] | a cluster, and its faults |
//! | [`pgbouncer`] | a transaction pooler in front of a cluster |
//! | [`s3`] | what all S3 servers share: a server, a bucket on it |
//! | [`seaweedfs`], [`moto`] | S3 servers that enforce conditional writes |
//! | [`rclone`] | an S3 server that ignores conditions |
//! | [`promtool`] | tests of Prometheus rules |
//! | [`shells`] | shells, for tests of completion scripts |
//! | [`disk`] | disks under a database: failing, journalling, and after a power loss |
//! | `keeper` | the process that owns a server and its folder |
//! | `programs` | finds and installs programs, and drops root |
//! | [`packages`] | Python and Node packages in pinned versions |
//! | `wheels` | programs from Python packages |

pub mod disk;
mod error;
mod keeper;
pub mod moto;
pub mod packages;
pub mod pgbouncer;
pub mod postgres;
mod programs;
pub mod promtool;
pub mod rclone;
pub mod s3;
pub mod seaweedfs;
pub mod shells;
mod wheels;

pub use error::TestbedError;
