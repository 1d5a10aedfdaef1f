//! `goldseam ls`.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use goldseam::core::{TagKey, WorkflowName};
use goldseam::{RunId, Seq, Status, Summary};
use goldseam_api::Api;
use goldseam_api::doc::Page;
use goldseam_api::doc::run::{Order, RunsQuery};

use super::{Fleet, pages};
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::out::Screen;
use crate::paint::{Hue, cell};
use crate::table::Table;
use crate::{out, text, when};

/// Suspects of crashing their process that are looked at one by one.
const SUSPECTS_MAX: usize = 50;
/// How `why` says that a suspect waits.
const QUARANTINE: &str = "waits in quarantine";
/// Runs of a list unless told otherwise.
const LIMIT: u32 = 50;
/// Columns of the list.
const HEAD: &[&str] = &["RUN", "WORKFLOW", "STATUS", "STEP", "AGE", "NOTE"];

/// List runs, newest first
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam ls --status failed --since 1h\n  goldseam ls --status waiting --workflow order\n  goldseam ls --cause a91f02          runs that failed for the same reason\n  goldseam ls -w                      live\n  goldseam ls -q --status parked | xargs -n1 goldseam resume"
)]
pub(crate) struct LsArgs {
    /// Only in this status; may be given several times
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<Status>,
    /// Only of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only with this tag
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::tag)]
    tag: Option<(String, String)>,
    /// Only queued within this span, as in 90s, 1h, 2d
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span)]
    since: Option<Duration>,
    /// Only failed or parked for this cause, as the NOTE column names it
    #[arg(long)]
    cause: Option<String>,
    /// Only children of this run
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,
    /// Maximum number of runs; 50 unless given, and with -q all of them
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Oldest first
    #[arg(long)]
    oldest: bool,
    /// Begin after this cursor: `next` of the page before, as --json gives it
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Stay and show changes as they happen
    #[arg(short, long)]
    watch: bool,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: LsArgs) -> Result<Exit, Fail> {
    let query = query(app, &args)?;
    let api = app.api().await?;
    if args.watch {
        return watch(app, &*api, (query, args.limit.unwrap_or(LIMIT))).await;
    }
    let otherwise = if app.quiet && !app.wants_json() { u32::MAX } else { LIMIT };
    let page = list(&*api, &query, args.limit.unwrap_or(otherwise)).await?;
    let seen = Seen { held: quarantined(app, &*api, &page).await, fleet: fleet(app, &*api, &page).await? };
    show(app, &page, &seen);
    pages::tell_cut(app, &page);
    Ok(Exit::Ok)
}

/// What the rows of a table need to know beside the runs.
#[derive(Default)]
struct Seen {
    /// Where suspects of crashing their process wait.
    held: HashMap<RunId, String>,
    /// The workflows that live nodes have, if a row asks for them.
    fleet: Option<Fleet>,
}

/// Where suspects of crashing their process wait: only their tasks tell.
async fn quarantined(app: &App, api: &dyn Api, page: &Page<Summary>) -> HashMap<RunId, String> {
    let mut held = HashMap::new();
    if app.wants_json() || app.quiet {
        return held;
    }
    let suspect = |summary: &&Summary| summary.lived_ms.is_some() && summary.status.is_active();
    for summary in page.items.iter().filter(suspect).take(SUSPECTS_MAX) {
        let Ok(explained) = api.why(&summary.run).await else { continue };
        let waits = explained.links.into_iter().find(|link| link.what.contains(QUARANTINE));
        held.extend(waits.map(|link| (summary.run.clone(), link.what)));
    }
    held
}

/// The workflows that live nodes have, if a row of the table asks for them.
async fn fleet(app: &App, api: &dyn Api, page: &Page<Summary>) -> Result<Option<Fleet>, Fail> {
    let asks = page.items.iter().any(|summary| summary.status == Status::Queued);
    if asks && !app.wants_json() && !app.quiet { Fleet::of(api).await.map(Some) } else { Ok(None) }
}

/// What a run is about right now; of one that no live node can execute, what it waits for.
fn note(app: &App, summary: &Summary, seen: &Seen) -> String {
    if let Some(waits) = seen.held.get(&summary.run) {
        return waits.clone();
    }
    let queued = seen.fleet.as_ref().filter(|_| summary.status == Status::Queued);
    match queued.and_then(|fleet| fleet.missing(&summary.workflow, summary.version)) {
        Some(_) => format!("waits for a worker with {}", summary.needs()),
        None => text::note(summary, app.now()),
    }
}

async fn list(api: &dyn Api, query: &RunsQuery, limit: u32) -> Result<Page<Summary>, Fail> {
    let page = |after, limit| api.runs(RunsQuery { after, limit: Some(limit), ..query.clone() });
    pages::gather(limit, query.after.clone(), page).await
}

/// Names are looked at before a store is.
fn query(app: &App, args: &LsArgs) -> Result<RunsQuery, Fail> {
    if let Some((key, _)) = &args.tag {
        TagKey::new(key)?;
    }
    args.workflow.as_ref().map(WorkflowName::new).transpose()?;
    args.parent.as_ref().map(RunId::new).transpose()?;
    let statuses: Vec<&str> = args.status.iter().map(|status| status.as_str()).collect();
    Ok(RunsQuery {
        status: (!statuses.is_empty()).then(|| statuses.join(",")),
        workflow: args.workflow.clone(),
        tag: args.tag.as_ref().map(|(key, value)| format!("{key}={value}")),
        since_ms: args.since.map(|span| (app.now() - span).0),
        cause: args.cause.clone(),
        parent: args.parent.clone(),
        order: args.oldest.then_some(Order::Oldest),
        after: args.after.clone(),
        limit: None,
    })
}

fn show(app: &App, page: &Page<Summary>, seen: &Seen) {
    let summaries = &page.items;
    match () {
        () if app.json => out::json(page),
        () if app.jsonl => {
            summaries.iter().for_each(out::jsonl);
            page.unreadable.iter().for_each(out::jsonl);
        }
        () if app.quiet => {
            summaries.iter().for_each(|summary| out::line(summary.run.as_str()));
            page.unreadable.iter().for_each(|item| out::line(&item.id));
        }
        () => {
            app.table(&table(app, page, seen));
            app.remark(&footer(summaries, page.next.is_some()));
            if !page.unreadable.is_empty() {
                app.remark("unreadable: the row is lost or damaged, the log is the truth; goldseam doctor tells more");
            }
        }
    }
}

fn table(app: &App, page: &Page<Summary>, seen: &Seen) -> Table {
    let mut table = Table::new(HEAD);
    for summary in &page.items {
        table.row(row(app, summary, seen));
    }
    for item in &page.unreadable {
        let status = match app.terminal {
            true => app.paint.on(Hue::Bad, format!("✖ {}", item.status)),
            false => app.paint.on(Hue::Bad, &item.status),
        };
        let [step, age] = ["-", "-"].map(str::to_owned);
        table.row(vec![item.id.clone(), "-".to_owned(), status, step, age, item.reason.clone()]);
    }
    table
}

fn row(app: &App, summary: &Summary, seen: &Seen) -> Vec<String> {
    let now = app.now();
    let step = summary.step.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    let branch = if summary.branch.0 > 1 { format!(" ({})", summary.branch) } else { String::new() };
    let status = match app.terminal {
        true => app.paint.status(summary.status),
        false => app.paint.word(summary.status),
    };
    let age = match app.terminal {
        true => when::age(summary.created_at, now),
        false => when::iso(summary.created_at),
    };
    vec![
        summary.run.to_string(),
        summary.workflow.to_string(),
        status,
        format!("{step}{branch}"),
        age,
        note(app, summary, seen),
    ]
}

/// A row of a list that is watched, for a program.
fn line(app: &App, summary: &Summary, seen: &Seen) {
    let cells: Vec<String> = row(app, summary, seen).iter().map(|text| cell(text)).collect();
    out::line(cells.join("\t"));
}

fn footer(summaries: &[Summary], more: bool) -> String {
    if summaries.is_empty() {
        return "no runs; goldseam start WORKFLOW makes one, goldseam demo shows some".to_owned();
    }
    let count = |status: Status| summaries.iter().filter(|summary| summary.status == status).count();
    let parts: Vec<String> = Status::ALL
        .into_iter()
        .filter(|status| count(*status) > 0)
        .map(|status| format!("{} {status}", count(status)))
        .collect();
    let noun = if summaries.len() == 1 { "run" } else { "runs" };
    let shown = format!("{} {noun}: {}", summaries.len(), parts.join(" · "));
    let failed = summaries.iter().find(|s| matches!(s.status, Status::Failed | Status::Parked));
    let waiting = summaries.iter().find(|s| !s.inputs.is_empty());
    let next = failed.or(waiting).map(|summary| format!("   next: goldseam show {}", summary.run));
    let more = if more { "   (more: --limit)" } else { "" };
    format!("{shown}{more}{}", next.unwrap_or_default())
}

/// Draws the list anew whenever something changed; a program gets the rows that did.
async fn watch(app: &App, api: &dyn Api, (query, limit): (RunsQuery, u32)) -> Result<Exit, Fail> {
    let mut known: HashMap<RunId, Seq> = HashMap::new();
    let mut mark = 0;
    let screen = (app.screen && !app.wants_json() && !app.quiet).then(Screen::enter);
    loop {
        let page = list(api, &query, limit).await?;
        let seen = Seen { fleet: fleet(app, api, &page).await?, ..Seen::default() };
        let is_fresh = |summary: &&Summary| known.get(&summary.run) != Some(&summary.as_of);
        let fresh: Vec<&Summary> = page.items.iter().filter(is_fresh).collect();
        match &screen {
            Some(screen) => {
                screen.clear();
                show(app, &page, &seen);
            }
            None if app.wants_json() => fresh.iter().for_each(out::jsonl),
            None if app.quiet => fresh.iter().for_each(|summary| out::line(summary.run.as_str())),
            None => fresh.iter().for_each(|summary| line(app, summary, &seen)),
        }
        known.extend(page.items.iter().map(|summary| (summary.run.clone(), summary.as_of)));
        mark = api.changed(pages::changes(mark)).await?.mark;
    }
}
