//! `goldseam`, the command. All of it is in the library beside it, so that what it reads can be tested.

use std::process::ExitCode;

fn main() -> ExitCode {
    goldseam_cli::run()
}
