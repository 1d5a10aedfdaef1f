//! `goldseam show`.

use clap::Args;
use goldseam::unstable::core::branch::Branches;
use goldseam::unstable::core::{Event, Recorded, version};
use goldseam::{Millis, RunId, Status, Summary};
use goldseam_api::Api;
use goldseam_api::doc::ending::PendingDoc;
use goldseam_api::doc::run::{DetailQuery, OpenQuestionDoc, RunDoc, WaitQuery};
use goldseam_api::view::describe::{PayloadLength, short};
use goldseam_api::view::log;
use goldseam_api::view::timeline::{self, OperationDoc};

use super::LiveWorkflows;
use crate::app::App;
use crate::color::{Hue, cell, columns, cut};
use crate::error::{CliError, Exit};
use crate::table::{TextTable, hanging};
use crate::timeline::{Range, draw, mark, tree};
use crate::{damage, out, text, time};

/// Show a run: its steps, what it waits for, and how it ended
///
/// Bars show steps (█), failures (╳), attempts lost with their worker (▒), waits and sleeps (░) and pauses before a
/// retry (·), scaled to the run's duration. Marks below the bars: ↻ healed or taken over, ┼ a seam where a branch was
/// cut, ⏸ paused.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam show ord-7\n  goldseam show ord-7 --json | jq '.steps[] | {path, state}'\n  goldseam show ord-7 --at 12\n  goldseam show ord-7 --width 100 > picture.txt"
)]
pub(crate) struct ShowArgs {
    /// The run
    run: String,
    /// Draw the timeline with this width, even without a terminal
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Show the state as derived at this event of the log
    #[arg(long, value_name = "POSITION")]
    at: Option<u64>,
    /// Show the steps of this branch
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
}

pub(crate) async fn run(app: &App, args: ShowArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let api = app.api().await?;
    let mut broken = Vec::new();
    let place = DetailQuery { at: args.at, branch: args.branch };
    match (args.width, app.terminal) {
        _ if app.wants_json() => {
            let detail = api.detail_at(&run, place).await?;
            out::json(&detail);
            return Ok(damage::exit(&detail.more.damage));
        }
        _ if app.quiet => out::line(api.result(&run, WaitQuery::default()).await?.run.as_str()),
        (width, is_terminal) => {
            let view = RunPage::load(app, &*api, &run, place).await?;
            match width.or(is_terminal.then(out::width)) {
                Some(width) => out::page(&view.picture(app, width)),
                None => view.facts(app),
            }
            broken.clone_from(&view.detail.more.damage);
        }
    }
    damage::lines(app, &broken);
    Ok(damage::exit(&broken))
}

/// Draws the whole page of a run.
pub(crate) async fn picture(app: &App, api: &dyn Api, run: &RunId, width: usize) -> Result<String, CliError> {
    Ok(RunPage::load(app, api, run, DetailQuery::default()).await?.picture(app, width))
}

/// Everything that the page of a run shows.
struct RunPage {
    detail: RunDoc,
    history: Vec<Recorded>,
    branches: Branches,
    /// The operations, with their spans.
    rows: Vec<OperationDoc>,
    /// The worker that the run needs, if no live node has its workflow.
    missing: Option<String>,
    now: goldseam::Millis,
}

impl RunPage {
    async fn load(app: &App, api: &dyn Api, run: &RunId, place: DetailQuery) -> Result<Self, CliError> {
        let (mut history, _) = super::history::recorded(api, run).await?;
        if let Some(at) = place.at {
            history.retain(|recorded| recorded.seq.0 <= at);
        }
        let branches = Branches::of(&history);
        let branch = place.branch.as_deref().map(|name| log::branch(&branches, name)).transpose()?;
        let detail = api.detail_at(run, place).await?;
        let rows =
            timeline::rows(&log::seen_by(&history, &branches, branch.unwrap_or(detail.summary.branch)));
        let Summary { workflow, version, queue, .. } = &detail.summary;
        let missing = LiveWorkflows::of(api).await?.missing(workflow, *version, queue);
        Ok(Self { detail, history, branches, rows, missing, now: app.now() })
    }

    fn summary(&self) -> &Summary {
        &self.detail.summary
    }

    /// The number of completed steps; of the declared steps, if there are any.
    fn steps_done(&self) -> String {
        let plan = &self.detail.more.plan;
        let done = plan.iter().filter(|planned| planned.done).count();
        let next = plan.iter().find(|planned| !planned.done);
        match (plan.len(), next) {
            (0, _) => self.summary().steps.to_string(),
            (all, None) => format!("{done} of {all}"),
            (all, Some(next)) => format!("{done} of {all}, next: {}", next.step),
        }
    }

    /// A request that no worker has carried out yet.
    fn pending(&self, pending: &PendingDoc) -> String {
        let what = match &pending.to {
            Some(to) => format!("jump to {to}"),
            None => "cancel request".to_owned(),
        };
        let by = pending.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        let since = pending.since.map_or_else(String::new, |at| format!(", {} ago", time::age(at, self.now)));
        let steps: Vec<&str> = pending.undoes.iter().map(goldseam::Path::as_str).collect();
        let undoes = match steps.is_empty() {
            true => String::new(),
            false => format!(" to compensate {}", steps.join(", ")),
        };
        format!(
            "{what}{by}{since}: waits for a worker{undoes}; goldseam why {} shows which",
            self.summary().run
        )
    }

    fn lasted(&self) -> String {
        let summary = self.summary();
        match summary.finished_at {
            Some(end) => format!("in {}", time::span(end.since(summary.created_at))),
            None => format!("for {}", time::span(self.now.since(summary.created_at))),
        }
    }

    /// A time, and how far away it is.
    fn when(&self, at: Millis) -> String {
        match at <= self.now {
            true => format!("{} ({} ago)", time::iso(at), time::age(at, self.now)),
            false => format!("{} (in {})", time::iso(at), time::span(at.since(self.now))),
        }
    }

    /// The names and values of the header.
    fn header(&self, much: PayloadLength) -> Vec<(&'static str, String)> {
        let summary = self.summary();
        let mut lines = vec![
            ("workflow", version::describe(&summary.workflow, summary.version)),
            (
                "queued",
                format!(
                    "{} ({} ago)",
                    time::iso(summary.created_at),
                    time::age(summary.created_at, self.now)
                ),
            ),
            ("branch", format!("{}, {} events", summary.branch, summary.as_of)),
            ("steps", self.steps_done()),
        ];
        if let Some(lane) = &summary.lane {
            lines.push(("lane", lane.to_string()));
        }
        if let Some(begin) = summary.begins_at() {
            lines.push(("begins", self.when(begin)));
        }
        if let Some(deadline) = summary.deadline.filter(|_| !summary.status.is_terminal()) {
            lines.push(("deadline", self.when(deadline)));
        }
        if let Some(pruned) = &summary.pruned {
            lines.push(("archived", format!("{} to {}", time::iso(pruned.at), pruned.archive)));
        }
        if let Some(owner) = &summary.owner {
            lines.push(("owner", owner.to_string()));
        }
        if summary.recoveries > 0 {
            let times = if summary.recoveries == 1 { "time" } else { "times" };
            lines.push(("recovered", format!("{} {times}", summary.recoveries)));
        }
        if let Some(parent) = &summary.parent {
            lines.push(("parent", parent.to_string()));
        }
        if !summary.tags.is_empty() {
            let tags: Vec<String> =
                summary.tags.iter().map(|(key, value)| format!("{key}={}", cell(value))).collect();
            lines.push(("tags", tags.join(" ")));
        }
        if !summary.attributes.is_empty() {
            let shown = summary.attributes.iter().map(|(name, value)| format!("{name} = {value}"));
            lines.push(("attributes", shown.collect::<Vec<String>>().join(", ")));
        }
        if summary.pruned.is_none() {
            lines.push(("input", short(&self.detail.more.input, much)));
        }
        if let Some(message) = self.history.iter().rev().find_map(progress) {
            lines.push(("progress", text::one_line(message)));
        }
        lines.extend(self.detail.more.pending.iter().map(|pending| ("pending", self.pending(pending))));
        if let Some(left) = &self.detail.more.left_standing {
            let by = left.note.by.as_ref().map_or_else(String::new, |by| format!("by {by}: "));
            lines.push(("terminated", format!("{by}{}", text::one_line(&left.note.reason))));
            lines.extend(super::terminate::left_standing(left).into_iter().map(|line| ("left", line)));
        }
        lines.extend(self.waiting().into_iter().map(|words| ("waits for", words)));
        lines
    }

    /// What the run waits for.
    fn waiting(&self) -> Vec<String> {
        let summary = self.summary();
        let run = &summary.run;
        if summary.status.is_terminal() {
            return Vec::new();
        }
        match summary.status {
            Status::Paused => return vec![format!("an operator   → goldseam resume {run}")],
            Status::Parked => {
                return vec![format!("an operator   → goldseam resume {run}, or goldseam retry {run}")];
            }
            Status::Queued => {
                return vec![self.missing.clone().unwrap_or_else(|| "a free slot on an engine".to_owned())];
            }
            _ => {}
        }
        let mut lines = Vec::new();
        for wait in &summary.waits {
            let mut words = text::waits_for(wait, self.now);
            if let Some(signal) = wait.signals.first() {
                let line = text::signal_command(run, signal, wait.schemas.get(signal));
                words.push_str(&format!("   → {line}"));
            }
            lines.push(words);
        }
        lines.extend(self.missing.clone());
        lines
    }

    /// The fingerprint of the failure, and the command that lists runs with the same one.
    fn cause(&self) -> String {
        let cause = self.summary().trouble.as_ref().map_or("", |trouble| &trouble.cause);
        format!("{cause}   → goldseam ls --cause {cause}")
    }

    /// How the run ended, and the next command.
    fn ending(&self) -> Vec<(&'static str, String)> {
        let summary = self.summary();
        let more = &self.detail.more;
        let run = &summary.run;
        match (&more.output, &more.failure) {
            (Some(output), _) => vec![("result", output.as_str().to_owned())],
            _ if summary.status == Status::Cancelled => {
                let reason = self.history.iter().rev().find_map(cancelled);
                vec![("cancelled", text::one_line(reason.unwrap_or_default()))]
            }
            (None, Some(failure)) if summary.status == Status::Failed => vec![
                ("failure", text::one_line(&failure.to_string())),
                ("cause", self.cause()),
                (
                    "fix",
                    match &summary.pruned {
                        Some(_) => "start the work again under another id".to_owned(),
                        None => format!("goldseam retry {run}   or   goldseam jump {run} STEP"),
                    },
                ),
            ],
            _ => match &summary.trouble {
                Some(trouble) => vec![("trouble", text::one_line(&trouble.message))],
                None => Vec::new(),
            },
        }
    }

    fn range(&self) -> Range {
        let from = self.summary().created_at;
        Range { from, to: self.summary().finished_at.unwrap_or(self.now).max(from) }
    }

    fn picture(&self, app: &App, width: usize) -> String {
        let colors = app.colors;
        let summary = self.summary();
        let title = colors.apply(Hue::Bold, format!("{} {}", summary.workflow, summary.run));
        // Without a terminal, --width applies to the bars only.
        let page = if app.terminal { width } else { usize::MAX };
        let state = format!("{} {}", colors.status(summary.status), self.lasted());
        let mut lines = match columns(&title) + columns(&state) + 2 <= page {
            true => vec![format!("{title}  {state}")],
            false => vec![cut(&title, page), format!("  {state}")],
        };
        let fact = |(name, value): (&str, String)| {
            let before = format!("  {} ", colors.apply(Hue::Dim, format!("{name:<10}")));
            hanging(&before, &cell(&value), page)
        };
        lines.extend(self.header(PayloadLength::Short).into_iter().flat_map(fact));
        lines.push(String::new());
        lines.extend(draw(&self.rows, &self.detail.more.seams, self.range(), colors, width));
        for row in self.rows.iter().filter(|row| row.note.is_some()) {
            let note = text::one_line(row.note.as_deref().unwrap_or_default());
            let before = format!("  {} ", colors.apply(Hue::Bad, "╳"));
            lines.extend(hanging(&before, &format!("{}: {note}", row.path), page));
        }
        for (row, child) in self.rows.iter().filter_map(|row| Some((row, row.child.as_deref()?))) {
            let before = format!("  {} ", colors.apply(Hue::Dim, "→"));
            lines.extend(hanging(&before, &format!("{}: child run {child}", row.path), page));
        }
        for seam in &self.detail.more.seams {
            let mark = colors.apply(Hue::Warm, mark(seam).to_string());
            let what = text::one_line(&seam.what);
            let before = format!("  {mark} {} ", time::clock(seam.at));
            lines.extend(hanging(&before, &format!("{} {what}", seam.kind), page));
        }
        let tree = tree(&self.history, &self.branches, colors);
        if !tree.is_empty() {
            lines.push(String::new());
            lines.extend(tree.iter().map(|line| cut(line, page)));
        }
        for OpenQuestionDoc { input, command } in &self.detail.more.questions {
            lines.push(String::new());
            let prompt = format!("{}  ({})", text::one_line(&input.prompt), text::form(&input.form));
            lines.extend(hanging(&format!("  {} ", colors.apply(Hue::Warm, "?")), &cell(&prompt), page));
            lines.extend(hanging("    → ", command, page));
        }
        let ending = self.ending();
        if !ending.is_empty() {
            lines.push(String::new());
            lines.extend(ending.into_iter().flat_map(fact));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// Prints the page as tab-separated lines.
    fn facts(&self, app: &App) {
        out::line(format!("run\t{}", self.summary().run));
        out::line(format!("status\t{}", self.summary().status));
        for (name, value) in self.header(PayloadLength::Full).into_iter().chain(self.ending()) {
            out::line(format!("{name}\t{}", cell(&value)));
        }
        for OpenQuestionDoc { input, command } in &self.detail.more.questions {
            out::line(format!("question\t{}\t{}\t{command}", input.path, text::one_line(&input.prompt)));
        }
        for (row, child) in self.rows.iter().filter_map(|row| Some((row, row.child.as_deref()?))) {
            out::line(format!("child\t{}\t{child}", row.path));
        }
        for seam in &self.detail.more.seams {
            let what = text::one_line(&seam.what);
            out::line(format!("seam\t{}\t{}\t{what}", time::iso(seam.at), seam.kind));
        }
        out::line("");
        let mut table = TextTable::new(&["STEP", "KIND", "STATE", "ATTEMPTS", "BEGAN", "MS", "NOTE"]);
        for row in &self.rows {
            table.row(vec![
                row.path.clone(),
                row.kind.as_str().to_owned(),
                row.state.as_str().to_owned(),
                row.attempts.to_string(),
                time::iso(row.began),
                row.ended.unwrap_or(self.now).since(row.began).as_millis().to_string(),
                text::one_line(row.note.as_deref().unwrap_or_default()),
            ]);
        }
        app.table(&table);
    }
}

fn progress(recorded: &Recorded) -> Option<&str> {
    match &recorded.event {
        Event::ProgressEmitted { message, .. } => Some(message),
        _ => None,
    }
}

fn cancelled(recorded: &Recorded) -> Option<&str> {
    let event = match &recorded.event {
        Event::RunPruned(pruned) => &pruned.ended,
        event => event,
    };
    match event {
        Event::RunCancelled { reason, .. } => Some(reason),
        _ => None,
    }
}
