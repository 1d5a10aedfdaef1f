//! Reaching a bucket: on real servers, as they are and as they should not be.

mod accepted;
mod damage;
mod faults;
mod refused;
mod support;
