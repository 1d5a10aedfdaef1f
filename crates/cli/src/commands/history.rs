//! `goldseam history`.

use clap::Args;
use goldseam::unstable::core::{Event, Recorded};
use goldseam::{EngineError, RunId, Seq, Summary};
use goldseam_api::Api;
use goldseam_api::doc::DamageDoc;
use goldseam_api::doc::event::{EventDoc, HistoryDoc, HistoryQuery};
use goldseam_api::view::describe::describe;

use crate::app::App;
use crate::color::{Hue, cell};
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{damage, out, text, time};

/// Show the events of a run
///
/// Shows the log, across all branches. If the log is damaged, the command shows the readable events, marks each damaged
/// position, and exits with 10.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam history ord-7\n  goldseam history ord-7 --branch b2      events that branch b2 sees\n  goldseam history ord-7 -f --jsonl       follow until the run ends"
)]
pub(crate) struct HistoryArgs {
    /// The run
    run: String,
    /// Only events that this branch sees
    #[arg(long, value_name = "BRANCH", conflicts_with = "follow")]
    branch: Option<String>,
    /// Only events from this position
    #[arg(long, value_name = "POSITION", default_value_t = 1)]
    from: u64,
    /// Keep showing new events until the run ends
    #[arg(short, long)]
    follow: bool,
}

pub(crate) async fn run(app: &App, args: HistoryArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let api = app.api().await?;
    let after = Seq(args.from).before();
    let (events, damage) = events(&*api, &run, args.branch, after).await?;
    if args.follow {
        for event in &events {
            line(app, event)?;
        }
        let last = events.last().map_or(after, |event| event.seq);
        return super::watch::stream(app, &*api, &run, last).await.map(|_| Exit::Ok);
    }
    match () {
        () if app.json => {
            out::json(&HistoryDoc { items: events, next: None, run, damage: damage.clone() });
        }
        () if app.jsonl => {
            events.iter().for_each(out::jsonl);
            damage.iter().for_each(|place| out::jsonl(&serde_json::json!({ "damage": place })));
        }
        () if app.quiet => events.iter().for_each(|event| out::line(event.seq.to_string())),
        () => {
            let mut table =
                TextTable::new(&["SEQ", "AT", "BRANCH", "EVENT", "WHAT"]).dropping(&["BRANCH", "AT"]);
            let mut places = damage.iter().peekable();
            for event in &events {
                while let Some(place) = places.next_if(|place| place.seq <= event.seq) {
                    table.row(damaged_row(app, place));
                }
                table.row(cells(app, event)?);
            }
            places.for_each(|place| table.row(damaged_row(app, place)));
            app.table(&table);
        }
    }
    Ok(damage::exit(&damage))
}

/// The table row of a damaged position.
fn damaged_row(app: &App, place: &DamageDoc) -> Vec<String> {
    let name = if place.newer { "(newer)" } else { "(damaged)" };
    vec![
        place.seq.to_string(),
        "-".to_owned(),
        "-".to_owned(),
        app.colors.apply(Hue::Bad, name),
        place.reason.clone(),
    ]
}

/// Reads the log of a run after a position.
pub(super) async fn events(
    api: &dyn Api,
    run: &RunId,
    branch: Option<String>,
    after: Seq,
) -> Result<(Vec<EventDoc>, Vec<DamageDoc>), CliError> {
    let mut events = Vec::new();
    let mut damage = Vec::new();
    let mut after = after;
    loop {
        let query = HistoryQuery { branch: branch.clone(), after: Some(after.0), limit: None };
        let page = api.history(run, query).await?;
        events.extend(page.items);
        damage.extend(page.damage);
        match page.next {
            Some(next) => after = next,
            None => return Ok((events, damage)),
        }
    }
}

/// Events at the end of a log that are searched for the error of a step.
const TAIL: u64 = 6;

/// Returns the error of the step that a run retries, from the end of its log.
pub(super) async fn last_error(api: &dyn Api, summary: &Summary) -> Option<String> {
    let after = summary.as_of.0.saturating_sub(TAIL);
    let query = HistoryQuery { branch: None, after: Some(after), limit: None };
    let events = api.history(&summary.run, query).await.ok()?.items;
    let step = summary.step.as_ref()?;
    for event in events.iter().rev() {
        match Recorded::try_from(event).ok()?.event {
            Event::StepCompleted(done) if done.path == *step => return None,
            Event::StepFailed(failed) if failed.path == *step => {
                let message = text::one_line(&failed.failure.message);
                return Some(format!("retries {step} after attempt {}: {message}", failed.attempt));
            }
            Event::StepTimeout { path, attempt, reason } if path == *step => {
                return Some(format!("retries {step} after attempt {attempt}: {reason}"));
            }
            _ => {}
        }
    }
    None
}

/// Reads the whole log of a run. The documents do not contain write-ids.
pub(crate) async fn recorded(
    api: &dyn Api,
    run: &RunId,
) -> Result<(Vec<Recorded>, Vec<DamageDoc>), CliError> {
    let (events, damage) = events(api, run, None, Seq::ZERO).await?;
    let recorded = events.iter().map(|event| read(run, event)).collect::<Result<_, CliError>>()?;
    Ok((recorded, damage))
}

fn read(run: &RunId, event: &EventDoc) -> Result<Recorded, CliError> {
    let corrupt = |corrupt| EngineError::Corrupt { run: run.clone(), corrupt }.into();
    Recorded::try_from(event).map_err(corrupt)
}

fn cells(app: &App, event: &EventDoc) -> Result<Vec<String>, CliError> {
    let recorded = Recorded::try_from(event).map_err(|corrupt| CliError::plain(corrupt.to_string()))?;
    let at = if app.terminal { time::clock(recorded.at) } else { time::iso(recorded.at) };
    let name = recorded.event.name();
    let hue = match name.rsplit_once('.').map_or(name, |(_, verb)| verb) {
        "completed" => Some(Hue::Good),
        "failed" | "parked" | "timeout" => Some(Hue::Bad),
        "recovered" | "opened" => Some(Hue::Warm),
        _ => None,
    };
    let name = hue.map_or_else(|| name.to_owned(), |hue| app.colors.apply(hue, name));
    Ok(vec![
        recorded.seq.to_string(),
        at,
        recorded.branch.to_string(),
        name,
        cell(&describe(&recorded.event, app.payload_length())),
    ])
}

/// Prints one event of a stream.
pub(crate) fn line(app: &App, event: &EventDoc) -> Result<(), CliError> {
    match () {
        () if app.wants_json() => out::jsonl(event),
        () if app.quiet => out::line(event.seq.to_string()),
        () => {
            let cells = cells(app, event)?;
            out::line(match app.terminal {
                true => format!("{:>4}  {}  {}  {}  {}", cells[0], cells[1], cells[2], cells[3], cells[4]),
                false => cells.join("\t"),
            });
        }
    }
    Ok(())
}
