//! `goldseam watch`.

use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use goldseam::{RunId, Seq, Status};
use goldseam_api::Api;
use goldseam_api::doc::event::{NewsDoc, StalledNewsDoc};
use goldseam_api::doc::run::WaitQuery;

use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::out::Screen;
use crate::{out, time};

/// How often the picture is redrawn while nothing happens, because it shows ages.
const REDRAW: Duration = Duration::from_millis(500);

/// Follow a run until it ends
///
/// On a terminal, redraws the timeline after every change; otherwise prints events, one per line. If the run stalls,
/// prints the rule and the evidence once, and prints again when the run moves.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 5 if the run fails or is cancelled.\n\nExamples:\n  goldseam watch ord-7\n  goldseam watch ord-7 --jsonl"
)]
pub(crate) struct WatchArgs {
    /// The run
    run: String,
}

pub(crate) async fn run(app: &App, args: WatchArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let api = app.api().await?;
    if !app.screen || app.wants_json() || app.quiet {
        return stream(app, &*api, &run, Seq::ZERO).await.map(exit_of);
    }
    let seen = api.result(&run, WaitQuery::default()).await?.event;
    let mut following = api.follow(&run, seen).await?;
    let mut stalled = None;
    let screen = Screen::enter();
    loop {
        draw(app, &*api, &screen, &run, stalled.as_ref()).await?;
        let news = loop {
            tokio::select! {
                news = following.next() => break news,
                () = tokio::time::sleep(REDRAW) => draw(app, &*api, &screen, &run, stalled.as_ref()).await?,
            }
        };
        stalled = match news.transpose()? {
            None => break,
            Some(NewsDoc::Event(_) | NewsDoc::Moving(_)) => None,
            Some(NewsDoc::Stalled(found)) => Some(found),
        };
    }
    drop(screen);
    out::page(&super::show::picture(app, &*api, &run, out::width()).await?);
    Ok(exit_of(api.result(&run, WaitQuery::default()).await?.status))
}

async fn draw(
    app: &App,
    api: &dyn Api,
    screen: &Screen,
    run: &RunId,
    stalled: Option<&StalledNewsDoc>,
) -> Result<(), CliError> {
    let mut picture = super::show::picture(app, api, run, out::width()).await?;
    if let Some(StalledNewsDoc { rule, evidence, remedy, .. }) = stalled {
        let word = app.colors.apply(Hue::Bad, "stalled");
        picture.push_str(&format!("  {word}: rule {}, {evidence} → {remedy}\n", rule.label()));
        picture.push_str(&format!("  {:<7}  goldseam why {run}\n", ""));
    }
    screen.clear();
    out::page(&picture);
    Ok(())
}

fn exit_of(status: Status) -> Exit {
    match status {
        Status::Failed | Status::Cancelled => Exit::Ended,
        _ => Exit::Ok,
    }
}

/// Prints events after a position until the run ends; returns its status.
pub(crate) async fn stream(app: &App, api: &dyn Api, run: &RunId, after: Seq) -> Result<Status, CliError> {
    let mut following = api.follow(run, after).await?;
    while let Some(news) = following.next().await {
        match news? {
            NewsDoc::Event(event) => super::history::line(app, &event)?,
            news if app.wants_json() => out::jsonl(&news),
            _ if app.quiet => {}
            NewsDoc::Stalled(StalledNewsDoc { rule, evidence, remedy, .. }) => {
                aside(app, "stalled", &format!("rule {}: {evidence} → {remedy}", rule.label()));
            }
            NewsDoc::Moving(_) => aside(app, "moving", "the run moves again"),
        }
    }
    Ok(api.result(run, WaitQuery::default()).await?.status)
}

/// Prints a line of the stream that is not an event and has no position and no branch.
fn aside(app: &App, word: &str, text: &str) {
    match app.terminal {
        true => out::line(format!(
            "   -  {}  -   {}  {text}",
            time::clock(app.now()),
            app.colors.apply(Hue::Warm, word)
        )),
        false => out::line(format!("-\t{}\t-\t{word}\t{text}", time::iso(app.now()))),
    }
}
