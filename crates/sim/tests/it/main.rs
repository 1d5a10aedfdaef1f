//! The part of the simulation that runs in every build.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "searches print their counts")]

mod blame;
mod nth_memory;
mod nth_real;
mod nth_requests;
mod pace;
mod seeds;

/// Opens the store at a URL.
fn open(url: &str) -> goldseam_sim::nth::OpeningStore<'_> {
    Box::pin(goldseam::open_store(url))
}
