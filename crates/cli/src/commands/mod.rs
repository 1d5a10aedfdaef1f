//! One file per verb.

pub(crate) mod demo;

use crate::app::App;
use crate::args::Command;
use crate::fail::{Exit, Fail};

/// Carries out one command.
pub(crate) async fn run(app: &App, command: Command) -> Result<Exit, Fail> {
    match command {
        Command::Demo(args) => demo::run(app, args).await,
        Command::DemoWorker(args) => demo::worker::run(app, args).await,
    }
}
