//! A verb on many runs: `--where`.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use clap::Args;
use goldseam::unstable::core::operation::{SpecError, Verb};
use goldseam::{Payload, RunId};
use goldseam_api::doc::operation::{NewOperation, PreviewDoc};

use super::actor::Actor;
use super::operation;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, text, time};

/// Columns of the groups in a preview.
const HEAD: &[&str] = &["RUNS", "CAUSE", "LAST", "EXAMPLE"];

/// Options of a verb on many runs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Many runs")]
pub(crate) struct BulkArgs {
    /// Act on every run that this condition selects, as one durable operation
    #[arg(id = "where", long = "where", value_name = "CONDITION")]
    pub(crate) condition: Option<String>,
    /// How fast, as in 50/s, 10/m or 100/h
    #[arg(long, value_name = "RATE", requires = "where")]
    rate: Option<String>,
    /// Go in stages, each only after all runs of the one before have passed their failed step
    #[arg(long, value_name = "STAGES", requires = "where")]
    canary: Option<String>,
    /// How long the runs of a stage have to pass; defaults to 10m
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span, requires = "where")]
    canary_timeout: Option<Duration>,
    /// Do not ask for confirmation
    #[arg(long, requires = "where")]
    yes: bool,
    /// Print the id of the operation and do not wait for it
    #[arg(long, requires = "where")]
    detach: bool,
}

/// Arguments of a verb on one run or on many: the runs, and the actor.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The run
    run: Option<String>,
    /// Only show what would be done to the selected runs
    #[arg(long, requires = "where")]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    #[command(flatten)]
    actor: Actor,
}

impl TargetArgs {
    /// Returns the one run with its actor, or acts on many runs and returns the exit code.
    pub(crate) async fn one_or_many(self, app: &App, verb: Verb) -> Result<OneOrMany, CliError> {
        match self.bulk.target(verb, self.run.as_deref())? {
            BulkTarget::Run(run) => Ok(OneOrMany::One(run, self.actor)),
            BulkTarget::Many(condition) => {
                let bulk = Bulk::new(verb, condition, self.bulk, self.dry_run);
                Ok(OneOrMany::Many(bulk.run(app, self.actor).await?))
            }
        }
    }
}

/// The one run that a verb acts on, or the exit code of an operation on many runs.
pub(crate) enum OneOrMany {
    One(RunId, Actor),
    Many(Exit),
}

/// What a verb acts on.
pub(crate) enum BulkTarget {
    Run(RunId),
    /// The runs that a condition selects.
    Many(String),
}

impl BulkArgs {
    /// Returns what the verb acts on.
    pub(crate) fn target(&self, verb: Verb, run: Option<&str>) -> Result<BulkTarget, CliError> {
        match (run, &self.condition) {
            (Some(run), None) => Ok(BulkTarget::Run(RunId::new(run)?)),
            (None, Some(condition)) if !condition.trim().is_empty() => {
                Ok(BulkTarget::Many(condition.clone()))
            }
            (Some(_), Some(_)) => Err(CliError {
                code: Some("GS0146".to_owned()),
                message: "a run and --where exclude each other".to_owned(),
                help: Some(format!("goldseam {verb} RUN, or goldseam {verb} --where 'CONDITION'")),
                next: Vec::new(),
                exit: Exit::Usage,
            }),
            (None, _) => {
                let SpecError { code, what, hint } = SpecError::no_condition();
                let help = format!("name one run: goldseam {verb} RUN; or {hint}");
                let code = Some(code.to_owned());
                let help = Some(help);
                Err(CliError { code, message: what, help, next: Vec::new(), exit: Exit::Usage })
            }
        }
    }

    /// Whether the command follows an operation until it ends.
    pub(crate) fn follows(&self) -> bool {
        self.condition.is_some() && !self.detach
    }
}

/// A verb on many runs.
pub(crate) struct Bulk {
    new: NewOperation,
    args: BulkArgs,
    dry_run: bool,
}

impl Bulk {
    pub(crate) fn new(verb: Verb, condition: String, args: BulkArgs, dry_run: bool) -> Self {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let new = NewOperation {
            verb,
            condition,
            rate: args.rate.clone(),
            canary: args.canary.clone(),
            canary_timeout_ms: args.canary_timeout.map(millis),
            signal: None,
            payload: None,
            by: None,
            reason: String::new(),
        };
        Self { new, args, dry_run }
    }

    /// Sets the signal to send.
    pub(crate) fn sending(mut self, name: String, payload: Payload) -> Self {
        self.new.signal = Some(name);
        self.new.payload = Some(payload);
        self
    }

    /// Shows what would be done, asks, begins the operation and follows it.
    pub(crate) async fn run(mut self, app: &App, actor: Actor) -> Result<Exit, CliError> {
        let caller = actor.caller();
        self.new.reason = actor.reason;
        let api = app.api().await?;
        if self.dry_run || !self.args.yes {
            let preview = api.preview_operation(self.new.clone()).await?;
            if self.dry_run {
                show(app, &preview);
                return Ok(if preview.would_act == 0 { Exit::Unchanged } else { Exit::Ok });
            }
            if preview.matched == 0 {
                out::note("no run matches; nothing was changed");
                return Ok(Exit::Unchanged);
            }
            if !confirm(app, &preview)? {
                out::note("nothing was changed");
                return Ok(Exit::Ok);
            }
        }
        let begun = api.begin_operation(&caller, self.new).await?;
        if self.args.detach {
            let text = format!("{}: goldseam operation watch {} follows it", begun.id, begun.id);
            if app.remote()?.is_none() && !operation::is_executed(app).await? {
                app.warn(&format!(
                    "no engine of this release runs on this store; goldseam operation watch {} executes the operation",
                    begun.id
                ));
            }
            return Ok(app.print_result(&begun.id, &begun, &text));
        }
        operation::follow(app, &begun.id).await
    }
}

/// Asks for confirmation on the terminal.
fn confirm(app: &App, preview: &PreviewDoc) -> Result<bool, CliError> {
    let runs = text::count(preview.would_act, "run");
    let what = format!("{} would be carried out on {runs}", preview.verb);
    if !std::io::stdin().is_terminal() || app.wants_json() {
        return Err(CliError {
            code: Some("GS0150".to_owned()),
            message: format!("{what}; nothing was changed"),
            help: Some("confirm with --yes, or look first with --dry-run".to_owned()),
            next: Vec::new(),
            exit: Exit::Usage,
        });
    }
    for line in lines(preview) {
        out::note(line);
    }
    out::note("Continue? [y/N]");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn show(app: &App, preview: &PreviewDoc) {
    match () {
        () if app.wants_json() => out::json(preview),
        () if app.quiet => preview.samples.iter().for_each(|run| out::line(run.as_str())),
        () => {
            if !preview.groups.is_empty() {
                let mut table = TextTable::new(HEAD);
                for group in &preview.groups {
                    table.row(vec![
                        group.count.to_string(),
                        group.key.clone().unwrap_or_else(|| "-".to_owned()),
                        time::iso(group.last),
                        group.example.to_string(),
                    ]);
                }
                app.table(&table);
            }
            lines(preview).into_iter().for_each(out::line);
        }
    }
}

fn lines(preview: &PreviewDoc) -> Vec<String> {
    let mut lines = vec![format!(
        "{} would be carried out on {} of {} that match: {}",
        preview.verb,
        preview.would_act,
        text::count(preview.matched, "run"),
        preview.condition
    )];
    for (reason, skipped) in &preview.skipped {
        lines.push(format!("skipped: {}: {reason}", text::count(skipped.count, "run")));
    }
    if preview.stages.len() > 1 {
        let stages: Vec<String> = preview.stages.iter().map(u64::to_string).collect();
        lines.push(format!("stages: after {} runs", stages.join(", ")));
    }
    if !preview.samples.is_empty() {
        let samples: Vec<&str> = preview.samples.iter().map(RunId::as_str).collect();
        lines.push(format!("for example: {}", samples.join(" ")));
    }
    if !preview.unreadable.is_empty() {
        let rows = text::count(preview.unreadable.len() as u64, "unreadable row");
        lines.push(format!("left out: {rows}; goldseam doctor --fix rebuilds them"));
    }
    lines
}
