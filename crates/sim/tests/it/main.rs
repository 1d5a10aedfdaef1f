//! The proof, as far as every build makes it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "a search tells what it did")]

mod blame;
mod nth_memory;
mod nth_real;
mod nth_requests;
mod pace;
#[cfg(feature = "planted")]
mod planted;
mod seeds;

/// Opens the store that a URL names.
fn open(url: &str) -> goldseam_sim::nth::Opening<'_> {
    Box::pin(goldseam::open_store(url))
}
