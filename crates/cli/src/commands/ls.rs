//! `goldseam ls`.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use goldseam::unstable::core::recovery::suspected;
use goldseam::unstable::core::{TagKey, WorkflowName};
use goldseam::{RunId, Seq, Status, Summary};
use goldseam_api::Api;
use goldseam_api::doc::PageDoc;
use goldseam_api::doc::run::{ListOrder, RunsQuery};
use indicatif::ProgressBar;

use super::{LiveWorkflows, pages, search};
use crate::app::App;
use crate::color::{Hue, cell};
use crate::error::{CliError, Exit};
use crate::out::Screen;
use crate::table::TextTable;
use crate::{out, progress, text, time};

/// Maximum number of suspects to explain one by one.
const SUSPECTS_MAX: usize = 50;
/// Default number of runs.
const LIMIT: u32 = 50;
/// Columns of the table.
const HEAD: &[&str] = &["RUN", "WORKFLOW", "STATUS", "STEP", "AGE", "NOTE"];
/// Columns that a narrow terminal does not show, the first to be dropped first.
const OPTIONAL: &[&str] = &["STEP", "WORKFLOW", "AGE", "NOTE"];
/// Maximum number of runs whose last error is read from their logs.
const RETRYING_MAX: usize = 50;

/// List runs, newest first
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam ls --status failed --since 1h\n  goldseam ls --status waiting --workflow order\n  goldseam ls --cause a91f02          runs that failed for the same cause\n  goldseam ls --where 'status in (failed, parked) and region = \"eu\" and created > -2h'\n  goldseam ls --where 'amount > 100' --group-by status\n  goldseam ls -w                      keep the list up to date\n  goldseam ls -q --status parked | xargs -n1 goldseam resume"
)]
pub(crate) struct LsArgs {
    /// Only runs with this status; may be given several times
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<Status>,
    /// Only runs of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only runs with this tag; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::tag)]
    tag: Vec<(String, String)>,
    /// Only runs that this condition selects; goldseam help ls has examples
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Only runs that no other run started
    #[arg(long)]
    roots: bool,
    /// Count the runs instead of listing them
    #[arg(long, conflicts_with_all = ["group_by", "watch", "limit", "after"])]
    count: bool,
    /// Group the runs by cause, workflow, status, version, tag.NAME, or an attribute
    #[arg(long, value_name = "NAME", conflicts_with_all = ["watch", "after"])]
    group_by: Option<String>,
    /// Only runs queued within this time, as in 90s, 1h, 2d
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    since: Option<Duration>,
    /// Only runs that failed or parked for this cause, as shown in the NOTE column
    #[arg(long)]
    cause: Option<String>,
    /// Only children of this run
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,
    /// Maximum number of runs, 0 for all; defaults to 50, or to all runs with -q. Of groups, at most 500
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Oldest first
    #[arg(long, conflicts_with = "order")]
    oldest: bool,
    /// The order; defaults to newest
    #[arg(long, value_name = "ORDER")]
    order: Option<RunsOrder>,
    /// Cursor: the previous page's `next` from --json
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Keep the list up to date
    #[arg(short, long)]
    watch: bool,
}

/// The orders that an index serves.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum RunsOrder {
    /// Latest queued first
    Newest,
    /// Earliest queued first
    Oldest,
    /// Latest recovered first; only recovered runs
    Recovered,
}

impl From<RunsOrder> for ListOrder {
    fn from(order: RunsOrder) -> Self {
        match order {
            RunsOrder::Newest => Self::Newest,
            RunsOrder::Oldest => Self::Oldest,
            RunsOrder::Recovered => Self::Recovered,
        }
    }
}

pub(crate) async fn run(app: &App, args: LsArgs) -> Result<Exit, CliError> {
    let query = query(app, &args)?;
    let grouping = (args.count || args.group_by.is_some())
        .then(|| search::grouping(app, &args.group_by, &query, args.limit));
    let grouping = grouping.transpose()?;
    let api = app.api().await?;
    if let Some(grouping) = grouping {
        return search::groups(app, &*api, grouping).await;
    }
    let limit = args.limit.map(|limit| if limit == 0 { u32::MAX } else { limit });
    if args.watch {
        return watch(app, &*api, query, limit.unwrap_or(LIMIT)).await;
    }
    let default = if app.quiet && !app.wants_json() { u32::MAX } else { LIMIT };
    // A page of a search may be empty and still have a next one.
    let line = query.condition.as_ref().map(|_| progress::line(app, None, "{spinner} searching  {elapsed}"));
    let page = list(&*api, &query, limit.unwrap_or(default)).await;
    line.iter().for_each(ProgressBar::finish_and_clear);
    let page = page?;
    let context = RowContext {
        quarantined: quarantined(app, &*api, &page).await,
        live: live_workflows(app, &*api, &page).await?,
        retrying: retrying(app, &*api, &page).await,
    };
    show(app, &page, &context);
    if let Some(note) = page.note.as_ref().filter(|_| !app.json) {
        app.warn(note);
    }
    pages::warn_if_cut(app, &page);
    Ok(Exit::Ok)
}

/// What the NOTE column needs besides the runs.
#[derive(Default)]
struct RowContext {
    /// Suspects in quarantine, and where each waits.
    quarantined: HashMap<RunId, String>,
    /// The workflows of live nodes, if a row needs them.
    live: Option<LiveWorkflows>,
    /// The last error of runs that retry a step.
    retrying: HashMap<RunId, String>,
}

/// Finds the last error of runs that retry a step, which only their logs record. Reads the end of each log.
async fn retrying(app: &App, api: &dyn Api, page: &PageDoc<Summary>) -> HashMap<RunId, String> {
    let mut found = HashMap::new();
    if app.wants_json() || app.quiet {
        return found;
    }
    for summary in page.items.iter().filter(|summary| text::may_retry(summary)).take(RETRYING_MAX) {
        if let Some(error) = super::history::last_error(api, summary).await {
            found.insert(summary.run.clone(), error);
        }
    }
    found
}

/// Finds suspects in quarantine, which only their tasks record.
async fn quarantined(app: &App, api: &dyn Api, page: &PageDoc<Summary>) -> HashMap<RunId, String> {
    let mut quarantined = HashMap::new();
    if app.wants_json() || app.quiet {
        return quarantined;
    }
    let suspect = |summary: &&Summary| summary.lived_ms.is_some() && summary.status.is_active();
    for summary in page.items.iter().filter(suspect).take(SUSPECTS_MAX) {
        let Ok(explained) = api.why(&summary.run).await else { continue };
        let Some(quarantine) = explained.quarantine else { continue };
        let died = format!("its process died while it was executing, {}", suspected(summary));
        let note = format!("it waits in quarantine {}: {died}", quarantine.place);
        quarantined.insert(summary.run.clone(), note);
    }
    quarantined
}

/// Lists the workflows of live nodes, if a row needs them.
async fn live_workflows(
    app: &App,
    api: &dyn Api,
    page: &PageDoc<Summary>,
) -> Result<Option<LiveWorkflows>, CliError> {
    let needed = page.items.iter().any(|summary| summary.status == Status::Queued);
    match needed && !app.wants_json() && !app.quiet {
        true => LiveWorkflows::of(api).await.map(Some),
        false => Ok(None),
    }
}

/// The NOTE column of a run.
fn note(app: &App, summary: &Summary, context: &RowContext) -> String {
    if let Some(waits) = context.quarantined.get(&summary.run) {
        return waits.clone();
    }
    if let Some(error) = context.retrying.get(&summary.run) {
        return error.clone();
    }
    let is_due = summary.status == Status::Queued && summary.ready_at(app.now()) <= app.now();
    let queued = context.live.as_ref().filter(|_| is_due);
    match queued.and_then(|live| live.missing(&summary.workflow, summary.version, &summary.queue)) {
        Some(missing) => format!("waits for {}", missing.split(';').next().unwrap_or_default()),
        None => text::note(summary, app.now()),
    }
}

async fn list(api: &dyn Api, query: &RunsQuery, limit: u32) -> Result<PageDoc<Summary>, CliError> {
    let page = |after, limit| api.runs(RunsQuery { after, limit: Some(limit), ..query.clone() });
    pages::gather(limit, query.after.clone(), page).await
}

/// Builds the query, and checks names before the store is opened.
fn query(app: &App, args: &LsArgs) -> Result<RunsQuery, CliError> {
    for (key, _) in &args.tag {
        TagKey::new(key)?;
    }
    args.workflow.as_ref().map(WorkflowName::new).transpose()?;
    args.parent.as_ref().map(RunId::new).transpose()?;
    let statuses: Vec<&str> = args.status.iter().map(|status| status.as_str()).collect();
    Ok(RunsQuery {
        status: (!statuses.is_empty()).then(|| statuses.join(",")),
        workflow: args.workflow.clone(),
        tag: args.tag.first().map(|(key, value)| format!("{key}={value}")),
        condition: search::condition(
            app,
            args.condition.as_deref(),
            args.roots,
            args.tag.get(1..).unwrap_or_default(),
        )?,
        since_ms: args.since.map(|span| (app.now() - span).0),
        cause: args.cause.clone(),
        parent: args.parent.clone(),
        order: args.order.map(ListOrder::from).or(args.oldest.then_some(ListOrder::Oldest)),
        after: args.after.clone(),
        limit: None,
    })
}

fn show(app: &App, page: &PageDoc<Summary>, context: &RowContext) {
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
            app.table(&table(app, page, context));
            app.remark(&footer(summaries, page.next.is_some()));
            if !page.unreadable.is_empty() {
                app.remark("unreadable: the cached row is lost or damaged; goldseam doctor --fix rebuilds it from the log");
            }
        }
    }
}

fn table(app: &App, page: &PageDoc<Summary>, context: &RowContext) -> TextTable {
    let mut table = TextTable::new(HEAD).dropping(OPTIONAL);
    for summary in &page.items {
        table.row(row(app, summary, context));
    }
    for item in &page.unreadable {
        let status = match app.terminal {
            true => app.colors.apply(Hue::Bad, format!("✖ {}", item.status)),
            false => app.colors.apply(Hue::Bad, &item.status),
        };
        let none = || "-".to_owned();
        table.row(vec![item.id.clone(), none(), status, none(), none(), item.reason.clone()]);
    }
    table
}

fn row(app: &App, summary: &Summary, context: &RowContext) -> Vec<String> {
    let now = app.now();
    let step = summary.step.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    let branch = if summary.branch.0 > 1 { format!(" ({})", summary.branch) } else { String::new() };
    let status = match app.terminal {
        true => app.colors.status(summary.status),
        false => app.colors.word(summary.status),
    };
    let age = match app.terminal {
        true => time::age(summary.created_at, now),
        false => time::iso(summary.created_at),
    };
    vec![
        summary.run.to_string(),
        summary.workflow.to_string(),
        status,
        format!("{step}{branch}"),
        age,
        note(app, summary, context),
    ]
}

/// Prints one row of a watched list without a terminal.
fn line(app: &App, summary: &Summary, context: &RowContext) {
    let cells: Vec<String> = row(app, summary, context).iter().map(|text| cell(text)).collect();
    out::line(cells.join("\t"));
}

fn footer(summaries: &[Summary], more: bool) -> String {
    if summaries.is_empty() {
        return "no runs; start one with goldseam start WORKFLOW, or try goldseam demo".to_owned();
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

/// Redraws the list after every change; without a terminal, prints the rows that changed.
async fn watch(app: &App, api: &dyn Api, query: RunsQuery, limit: u32) -> Result<Exit, CliError> {
    let mut known: HashMap<RunId, Seq> = HashMap::new();
    let mut mark = 0;
    let screen = (app.screen && !app.wants_json() && !app.quiet).then(Screen::enter);
    loop {
        let page = list(api, &query, limit).await?;
        let context = RowContext { live: live_workflows(app, api, &page).await?, ..RowContext::default() };
        let is_fresh = |summary: &&Summary| known.get(&summary.run) != Some(&summary.as_of);
        let fresh: Vec<&Summary> = page.items.iter().filter(is_fresh).collect();
        match &screen {
            Some(screen) => {
                screen.clear();
                show(app, &page, &context);
            }
            None if app.wants_json() => fresh.iter().for_each(out::jsonl),
            None if app.quiet => fresh.iter().for_each(|summary| out::line(summary.run.as_str())),
            None => fresh.iter().for_each(|summary| line(app, summary, &context)),
        }
        known.extend(page.items.iter().map(|summary| (summary.run.clone(), summary.as_of)));
        mark = api.changed(pages::changes(mark)).await?.mark;
    }
}
