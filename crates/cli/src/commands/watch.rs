//! `goldseam watch`.

use clap::Args;
use goldseam::{Client, RunId, Seq, Status};

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::out;

/// Follow a run until it ends
///
/// On a terminal the timeline is drawn anew with every change; a program gets events, one per line.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 5 if the run fails or is cancelled.\n\nExamples:\n  goldseam watch ord-7\n  goldseam watch ord-7 --jsonl"
)]
pub(crate) struct WatchArgs {
    /// The run
    run: String,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: WatchArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let client = app.client().await?;
    client.get(&run).await?;
    if !app.terminal || app.wants_json() || app.quiet {
        return stream(app, &client, &run, Seq::ZERO).await.map(exit_of);
    }
    let mut mark = 0;
    loop {
        let picture = super::show::picture(app, &client, &run, out::width()).await?;
        out::clear();
        out::raw(&picture);
        let status = client.get(&run).await?.status;
        if status.is_terminal() {
            return Ok(exit_of(status));
        }
        mark = client.wait_for_change(mark).await?;
    }
}

fn exit_of(status: Status) -> Exit {
    match status {
        Status::Failed | Status::Cancelled => Exit::Ended,
        _ => Exit::Ok,
    }
}

/// Shows events after a position until the run ends; returns how it did.
pub(crate) async fn stream(app: &App, client: &Client, run: &RunId, mut after: Seq) -> Result<Status, Fail> {
    loop {
        let summary = client.get(run).await?;
        if summary.status.is_terminal() && summary.as_of <= after {
            return Ok(summary.status);
        }
        for recorded in client.follow(run, after).await? {
            after = recorded.seq;
            super::history::line(app, &recorded);
        }
    }
}
