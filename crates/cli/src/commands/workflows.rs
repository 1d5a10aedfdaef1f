//! `goldseam workflows`.

use std::collections::BTreeMap;

use clap::Args;
use goldseam::unstable::core::WorkflowName;
use goldseam::unstable::core::summary::Trouble;
use goldseam::{Millis, RunId, Status, Summary};
use goldseam_api::Api;
use goldseam_api::doc::PAGE_MAX;
use goldseam_api::doc::node::NodeDoc;
use goldseam_api::doc::run::RunsQuery;
use serde::Serialize;

use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, text, time};

const HEAD: &[&str] = &["WORKFLOW", "VERSIONS", "NODES", "RUNS", "LAST ERROR"];
/// Columns that a narrow terminal does not show, the first to be dropped first.
const OPTIONAL: &[&str] = &["RUNS", "VERSIONS", "LAST ERROR"];
/// Maximum number of workflows whose last error is read.
const ERRORS_MAX: usize = 50;

/// List the workflows: their versions, the nodes that serve them, and their last error
///
/// Lists workflows of live and former nodes and of the 500 newest runs. VERSIONS and NODES: what live nodes have. RUNS:
/// the 500 newest runs by status. LAST ERROR: of the newest run that failed or is parked.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam workflows\n  goldseam workflows --json | jq '.items[] | select(.nodes == 0) | .name'\n\nThe runs of one: goldseam ls --workflow order. The nodes: goldseam nodes"
)]
pub(crate) struct WorkflowsArgs {}

/// All workflows.
#[derive(Debug, Serialize)]
struct WorkflowList {
    items: Vec<WorkflowItem>,
    /// Runs that `runs` counts.
    counted: u64,
    /// Whether `runs` counts every run.
    complete: bool,
}

/// One workflow.
#[derive(Debug, Serialize)]
struct WorkflowItem {
    name: WorkflowName,
    /// Live nodes that have a version of it.
    nodes: u64,
    /// Names of these nodes.
    node_names: Vec<String>,
    /// Versions of live nodes.
    versions: Vec<u32>,
    /// The newest runs by status.
    runs: BTreeMap<&'static str, u64>,
    /// The newest run that failed or is parked.
    last_error: Option<LastError>,
}

/// The trouble of one run.
#[derive(Debug, Serialize)]
struct LastError {
    run: RunId,
    status: Status,
    at_ms: Millis,
    message: String,
    cause: String,
}

pub(crate) async fn run(app: &App, _: &WorkflowsArgs) -> Result<Exit, CliError> {
    let api = app.api().await?;
    let list = list(&*api).await?;
    match () {
        () if app.json => out::json(&list),
        () if app.jsonl => list.items.iter().for_each(out::jsonl),
        () if app.quiet => list.items.iter().for_each(|item| out::line(item.name.as_str())),
        () => {
            app.table(&table(app, &list.items));
            if list.items.is_empty() {
                app.remark("no workflows: no node has registered one, and there are no runs");
            } else if !list.complete {
                app.remark(&format!("RUNS counts the {} newest runs", text::thousands(list.counted)));
            }
        }
    }
    Ok(Exit::Ok)
}

async fn list(api: &dyn Api) -> Result<WorkflowList, CliError> {
    let nodes = api.nodes().await?.items;
    let page = api.runs(RunsQuery { limit: Some(PAGE_MAX), ..RunsQuery::default() }).await?;
    let mut items: BTreeMap<WorkflowName, WorkflowItem> = BTreeMap::new();
    nodes.iter().for_each(|node| add_node(&mut items, node));
    for summary in &page.items {
        let item = entry(&mut items, &summary.workflow);
        *item.runs.entry(summary.status.as_str()).or_default() += 1;
    }
    for item in items.values_mut().take(ERRORS_MAX) {
        item.last_error = last_error(api, &item.name).await?;
    }
    Ok(WorkflowList {
        items: items.into_values().collect(),
        counted: page.items.len() as u64,
        complete: page.next.is_none(),
    })
}

fn entry<'a>(
    items: &'a mut BTreeMap<WorkflowName, WorkflowItem>,
    name: &WorkflowName,
) -> &'a mut WorkflowItem {
    items.entry(name.clone()).or_insert_with(|| WorkflowItem {
        name: name.clone(),
        nodes: 0,
        node_names: Vec::new(),
        versions: Vec::new(),
        runs: BTreeMap::new(),
        last_error: None,
    })
}

fn add_node(items: &mut BTreeMap<WorkflowName, WorkflowItem>, node: &NodeDoc) {
    for label in &node.workflows {
        let Some((name, version)) = label.rsplit_once('@') else { continue };
        let Ok(name) = WorkflowName::new(name) else { continue };
        let item = entry(items, &name);
        if !node.alive {
            continue;
        }
        if !item.node_names.contains(&node.name) {
            item.nodes += 1;
            item.node_names.push(node.name.clone());
        }
        item.versions.extend(version.parse::<u32>());
        item.versions.sort_unstable();
        item.versions.dedup();
    }
}

/// The trouble of the newest run of a workflow that failed or is parked.
async fn last_error(api: &dyn Api, workflow: &WorkflowName) -> Result<Option<LastError>, CliError> {
    let query = RunsQuery {
        workflow: Some(workflow.to_string()),
        status: Some(format!("{},{}", Status::Failed, Status::Parked)),
        limit: Some(1),
        ..RunsQuery::default()
    };
    let newest = api.runs(query).await?.items.into_iter().next();
    let error = |Summary { run, status, last_event_at, trouble, .. }: Summary| {
        let Trouble { message, cause, .. } = trouble?;
        Some(LastError { run, status, at_ms: last_event_at, message, cause })
    };
    Ok(newest.and_then(error))
}

fn table(app: &App, items: &[WorkflowItem]) -> TextTable {
    let mut table = TextTable::new(HEAD).dropping(OPTIONAL);
    for item in items {
        let versions: Vec<String> = item.versions.iter().map(u32::to_string).collect();
        let nodes = match item.nodes {
            0 => app.colors.apply(Hue::Bad, "none"),
            nodes => nodes.to_string(),
        };
        let runs: Vec<String> =
            item.runs.iter().map(|(status, count)| format!("{} {status}", text::thousands(*count))).collect();
        let error = item.last_error.as_ref().map_or_else(String::new, |error| {
            let age = time::age(error.at_ms, app.now());
            let when = if app.terminal { format!("{age} ago") } else { time::iso(error.at_ms) };
            format!("{} {when}: {}", error.run, text::one_line(&error.message))
        });
        let none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        table.row(vec![
            item.name.to_string(),
            none(versions.join(", ")),
            nodes,
            none(runs.join(" · ")),
            none(error),
        ]);
    }
    table
}
