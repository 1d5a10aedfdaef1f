//! `goldseam nodes`.

use clap::Args;
use goldseam::unstable::engine::stats::UnservedRuns;
use goldseam_api::doc::ItemsDoc;
use goldseam_api::doc::node::NodeDoc;
use serde::Serialize;

use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, text, time};

const HEAD: &[&str] = &["NODE", "NAME", "ALIVE", "STATE", "RUNNING", "LAST BEAT", "RELEASE", "WORKFLOWS"];
/// Columns that a narrow terminal does not show, the first to be dropped first.
const OPTIONAL: &[&str] = &["RELEASE", "NAME", "STATE", "LAST BEAT", "WORKFLOWS"];

/// List the nodes: the processes that execute workflows
///
/// Shows live nodes, or with --all also those that left or died. ALIVE: whether the node is up, and neither gone nor
/// silent for longer than its record allows; otherwise why not. RUNNING: runs that it executes now, of its slots. Below
/// the table, the command names runs that could go on now, but whose workflow, version or queue no live node serves.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 1 if no live node takes a run that could go on.\n\nExamples:\n  goldseam nodes\n  goldseam nodes --all\n  goldseam nodes --json | jq '.items[] | select(.alive) | .name'\n\nWhich workflow runs where: goldseam workflows"
)]
pub(crate) struct NodesArgs {
    /// Also list nodes that left or died
    #[arg(long)]
    all: bool,
}

/// The nodes, and the work that none of them serves.
#[derive(Debug, Serialize)]
struct NodesList {
    #[serde(flatten)]
    nodes: ItemsDoc<NodeDoc>,
    /// Work that no live node serves.
    unserved: Vec<UnservedRuns>,
}

pub(crate) async fn run(app: &App, args: NodesArgs) -> Result<Exit, CliError> {
    let api = app.api().await?;
    let mut nodes = api.nodes().await?;
    let hidden = nodes.items.len();
    nodes.items.retain(|node| args.all || node.alive || node.state == "leaving");
    let hidden = hidden - nodes.items.len();
    nodes.items.sort_by(|one, other| (!one.alive, &one.name).cmp(&(!other.alive, &other.name)));
    let found = api.queues().await?.unserved;
    let is_known = found.is_some();
    let unserved = found.unwrap_or_default();
    let exit = if unserved.is_empty() { Exit::Ok } else { Exit::Error };
    match () {
        () if app.json => out::json(&NodesList { nodes, unserved }),
        () if app.jsonl => nodes.items.iter().for_each(out::jsonl),
        () if app.quiet => nodes.items.iter().for_each(|node| out::line(node.id.as_str())),
        () => {
            app.table(&table(app, &nodes.items));
            unserved.iter().for_each(|work| app.text(None, &line(app, work)));
            app.remark(&footer(&nodes.items, hidden));
            if !is_known {
                app.remark("the server is of an older release: it does not report unserved runs");
            }
        }
    }
    Ok(exit)
}

fn table(app: &App, nodes: &[NodeDoc]) -> TextTable {
    let mut table = TextTable::new(HEAD).dropping(OPTIONAL);
    for node in nodes {
        let alive = match &node.why {
            None if node.alive => app.colors.apply(Hue::Good, "yes"),
            None => app.colors.apply(Hue::Bad, "no"),
            Some(why) => app.colors.apply(Hue::Bad, format!("no: {}", text::one_line(why))),
        };
        let running = node.running.map_or_else(|| "-".to_owned(), |running| running.to_string());
        let beat = match app.terminal {
            true => format!("{} ago", time::age(node.beat_at, app.now())),
            false => time::iso(node.beat_at),
        };
        table.row(vec![
            node.id.to_string(),
            node.name.clone(),
            alive,
            node.state.clone(),
            format!("{running}/{}", node.slots),
            beat,
            node.release.clone().unwrap_or_else(|| "-".to_owned()),
            if node.workflows.is_empty() { "-".to_owned() } else { node.workflows.join(", ") },
        ]);
    }
    table
}

fn footer(nodes: &[NodeDoc], hidden: usize) -> String {
    let alive = nodes.iter().filter(|node| node.alive).count();
    let hidden = match hidden {
        0 => String::new(),
        hidden => format!("; {hidden} left or died: goldseam nodes --all"),
    };
    match nodes.is_empty() {
        true => format!("no node is running: start your program, or goldseam serve{hidden}"),
        false => format!("{} alive{hidden}", text::count(alive as u64, "node")),
    }
}

pub(super) fn line(app: &App, work: &UnservedRuns) -> String {
    let runs: Vec<&str> = work.runs.iter().map(goldseam::RunId::as_str).collect();
    let word = app.colors.apply(Hue::Bad, "unserved");
    let age = time::age(work.since_ms, app.now());
    let queues: Vec<&str> = work.queues.iter().map(goldseam::queue::QueueName::as_str).collect();
    let text = format!(
        "{word}: {} of {} in queue {}, oldest {age} ({}): waits for {}",
        text::count(work.queued, "run"),
        work.needs,
        queues.join(", "),
        runs.join(", "),
        work.waits_for
    );
    crate::color::cell(&text)
}
