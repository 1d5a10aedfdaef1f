//! The `goldseam` binary. The library holds all code, so that tests can use it.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Returns memory to the system after a burst, which the system's own allocator often does not (ADR 0042).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    goldseam_cli::run()
}
