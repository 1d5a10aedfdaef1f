//! `goldseam watch`.

use std::pin::pin;
use std::time::Duration;

use clap::Args;
use goldseam::healer::Found;
use goldseam::healer::follow::Followed;
use goldseam::{Client, RunId, Seq, Status};
use serde_json::json;

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::{out, when};

/// How often the picture is drawn anew while nothing happens: times go on.
const REDRAW: Duration = Duration::from_millis(500);

/// Follow a run until it ends
///
/// On a terminal the timeline is drawn anew with every change; a program gets events, one per line. If nothing
/// happens although it should, that is said once, with the rule and what was seen, and again when the run moves.
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
    let summary = client.get(&run).await?;
    if !app.terminal || app.wants_json() || app.quiet {
        return stream(app, &client, &run, Seq::ZERO).await.map(exit_of);
    }
    let mut follower = client.follower(run.clone(), summary.as_of);
    let mut stalled = None;
    loop {
        draw(app, &client, &run, stalled.as_ref()).await?;
        let status = client.get(&run).await?.status;
        if status.is_terminal() {
            return Ok(exit_of(status));
        }
        let mut next = pin!(follower.next());
        let news = loop {
            tokio::select! {
                news = next.as_mut() => break news?,
                () = tokio::time::sleep(REDRAW) => draw(app, &client, &run, stalled.as_ref()).await?,
            }
        };
        stalled = match news {
            Followed::Events(_) => None,
            Followed::Stalled(found) => Some(found),
        };
    }
}

async fn draw(app: &App, client: &Client, run: &RunId, stalled: Option<&Found>) -> Result<(), Fail> {
    let mut picture = super::show::picture(app, client, run, out::width()).await?;
    if let Some(Found { diagnosis, .. }) = stalled {
        let word = app.paint.on(Hue::Bad, "stalled");
        let (rule, evidence) = (diagnosis.rule, &diagnosis.evidence);
        picture.push_str(&format!("  {word}: rule {rule}, {evidence} → {}\n", diagnosis.remedy.describe()));
        picture.push_str(&format!("  {:<7}  goldseam why {run}\n", ""));
    }
    out::clear();
    out::raw(&picture);
    Ok(())
}

fn exit_of(status: Status) -> Exit {
    match status {
        Status::Failed | Status::Cancelled => Exit::Ended,
        _ => Exit::Ok,
    }
}

/// Shows events after a position until the run ends; returns how it did.
pub(crate) async fn stream(app: &App, client: &Client, run: &RunId, mut after: Seq) -> Result<Status, Fail> {
    let mut follower = client.follower(run.clone(), after);
    loop {
        let summary = client.get(run).await?;
        if summary.status.is_terminal() && summary.as_of <= after {
            return Ok(summary.status);
        }
        let was_stalled = follower.is_stalled();
        match follower.next().await? {
            Followed::Stalled(found) => tell_stalled(app, &found),
            Followed::Events(events) => {
                if was_stalled {
                    tell_moving(app, run);
                }
                for recorded in events {
                    after = recorded.seq;
                    super::history::line(app, &recorded);
                }
            }
        }
    }
}

fn tell_stalled(app: &App, found: &Found) {
    let Found { run, at, diagnosis } = found;
    let (rule, evidence, remedy) = (diagnosis.rule, &diagnosis.evidence, diagnosis.remedy.describe());
    match () {
        () if app.wants_json() => {
            let now = when::iso(app.now());
            out::jsonl(&json!({ "type": "stalled", "run": run, "at": now, "after": at, "rule": rule,
                "evidence": evidence, "remedy": remedy }));
        }
        () if app.quiet => {}
        () => aside(app, "stalled", &format!("rule {rule}: {evidence} → {remedy}")),
    }
}

fn tell_moving(app: &App, run: &RunId) {
    match () {
        () if app.wants_json() => {
            out::jsonl(&json!({ "type": "moving", "run": run, "at": when::iso(app.now()) }));
        }
        () if app.quiet => {}
        () => aside(app, "moving", "it moves again"),
    }
}

/// A line of the stream that is no event: it has no position and no branch.
fn aside(app: &App, word: &str, text: &str) {
    match app.terminal {
        true => out::line(format!(
            "   -  {}  -   {}  {text}",
            when::clock(app.now()),
            app.paint.on(Hue::Warm, word)
        )),
        false => out::line(format!("-\t{}\t-\t{word}\t{text}", when::iso(app.now()))),
    }
}
