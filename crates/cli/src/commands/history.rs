//! `goldseam history`.

use clap::Args;
use goldseam::core::Recorded;
use goldseam::{RunId, Seq};
use serde_json::json;

use crate::app::App;
use crate::describe::describe;
use crate::fail::{Exit, Fail};
use crate::log::{self, Shown};
use crate::paint::Hue;
use crate::table::Table;
use crate::{out, when};

/// Show the events of a run
///
/// The log is the truth about a run: append-only, across all of its branches.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam history ord-7\n  goldseam history ord-7 --branch b2      what that timeline sees\n  goldseam history ord-7 -f --jsonl       follow until the run ends"
)]
pub(crate) struct HistoryArgs {
    /// The run
    run: String,
    /// Only what this branch sees
    #[arg(long, value_name = "BRANCH", conflicts_with = "follow")]
    branch: Option<String>,
    /// Only events from this position on
    #[arg(long, value_name = "POSITION", default_value_t = 1)]
    from: u64,
    /// Stay and show events as they come, until the run ends
    #[arg(short, long)]
    follow: bool,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: HistoryArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let client = app.client().await?;
    let history = client.history(&run).await?;
    let branches = log::branches(&history);
    let seen: Vec<&Recorded> = match &args.branch {
        Some(text) => log::seen_by(&history, &branches, log::branch(&branches, text)?),
        None => history.iter().collect(),
    };
    let seen: Vec<&Recorded> = seen.into_iter().filter(|recorded| recorded.seq.0 >= args.from).collect();
    if args.follow {
        seen.iter().for_each(|recorded| line(app, recorded));
        let last = history.last().map_or(Seq::ZERO, |recorded| recorded.seq);
        return super::watch::stream(app, &client, &run, last).await.map(|_| Exit::Ok);
    }
    match () {
        () if app.json => {
            let items: Vec<Shown<'_>> = seen.iter().map(|recorded| Shown::of(recorded)).collect();
            out::json(&json!({ "run": run, "items": items }));
        }
        () if app.jsonl => seen.iter().for_each(|recorded| out::jsonl(&Shown::of(recorded))),
        () if app.quiet => seen.iter().for_each(|recorded| out::line(recorded.seq.to_string())),
        () => {
            let mut table = Table::new(&["SEQ", "AT", "BRANCH", "EVENT", "WHAT"]);
            seen.iter().for_each(|recorded| table.row(cells(app, recorded)));
            app.table(&table);
        }
    }
    Ok(Exit::Ok)
}

fn cells(app: &App, recorded: &Recorded) -> Vec<String> {
    let at = if app.terminal { when::clock(recorded.at) } else { when::iso(recorded.at) };
    let name = recorded.event.name();
    let hue = match name.rsplit_once('.').map_or(name, |(_, verb)| verb) {
        "completed" => Some(Hue::Good),
        "failed" | "parked" | "timeout" => Some(Hue::Bad),
        "recovered" | "opened" => Some(Hue::Warm),
        _ => None,
    };
    let name = hue.map_or_else(|| name.to_owned(), |hue| app.paint.on(hue, name));
    let (seq, branch) = (recorded.seq.to_string(), recorded.branch.to_string());
    vec![seq, at, branch, name, describe(&recorded.event, app.much())]
}

/// One event of a stream.
pub(crate) fn line(app: &App, recorded: &Recorded) {
    if app.wants_json() {
        return out::jsonl(&Shown::of(recorded));
    }
    if app.quiet {
        return out::line(recorded.seq.to_string());
    }
    let cells = cells(app, recorded);
    match app.terminal {
        true => out::line(format!("{:>4}  {}  {}  {}  {}", cells[0], cells[1], cells[2], cells[3], cells[4])),
        false => out::line(cells.join("\t")),
    }
}
