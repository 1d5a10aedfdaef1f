//! `goldseam preflight`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;
use goldseam::preflight::{Answer, Order, PreflightReport, VARIABLE};
use goldseam::{Hint, RunId};
use goldseam_api::next_step::{NextStepDoc, with_commands};

use crate::app::App;
use crate::error::{CliError, Exit};
use crate::out;

/// How often the program is checked for its end.
const LOOK: Duration = Duration::from_millis(20);

/// Try a build of your program against stored runs
///
/// Runs your program without starting its engine: it replays the stored runs with the workflows that it registers, up
/// to the end of each log, and reports which runs would continue (safe), park or fail, or could not be tried (unknown).
/// No step, wait, question or child begins, and nothing is written. The replay reads the store from --store, not the
/// one that the program opens; the store may be in use.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam preflight --program ./target/release/worker\n  goldseam preflight --program ./worker --workflow order --sample 50\n  goldseam preflight --program ./worker --histories ./histories     in CI, without the store\n\nExit codes: 0 all safe, 20 a run would park or fail, 21 some could not be tried"
)]
pub(crate) struct PreflightArgs {
    /// Only these runs, in any status
    runs: Vec<String>,
    #[command(flatten)]
    program: Program,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// At most this many runs of each workflow and version
    #[arg(long, value_name = "COUNT")]
    sample: Option<usize>,
    /// Also try parked runs, to see whether they would park again
    #[arg(long)]
    parked: bool,
    /// Read exported histories instead of a store: a file or a directory
    #[arg(long, value_name = "PATH")]
    histories: Option<PathBuf>,
}

/// The program with the workflows.
#[derive(Debug, Args)]
pub(crate) struct Program {
    /// Your program, which registers the workflows and starts an engine
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Maximum duration in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// Arguments for your program
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl Program {
    /// Whether --program was given.
    pub(crate) fn is_named(&self) -> bool {
        self.program.is_some()
    }

    /// Runs the program with an order and reads its report.
    pub(crate) async fn answer(&self, mut order: Order) -> Result<PreflightReport, CliError> {
        let Some(program) = &self.program else {
            return Err(CliError::usage(
                "a preflight needs a program",
                "pass the program with your workflows: --program PATH",
            ));
        };
        let cannot = |error: std::io::Error| failed(program, &format!("cannot be started: {error}"));
        let folder = tempfile::tempdir().map_err(cannot)?;
        order.report = folder.path().join("report.json");
        let text = serde_json::to_string(&order).map_err(|error| CliError::plain(error.to_string()))?;
        let mut child = Command::new(program)
            .args(&self.args)
            .env(VARIABLE, text)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(cannot)?;
        let limit = Duration::from_secs(self.timeout);
        let Ok(ended) = tokio::time::timeout(limit, ended(&mut child)).await else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(program, &format!("wrote no report within {} s", self.timeout)));
        };
        let ended = ended.map_err(cannot)?;
        let Ok(answer) = std::fs::read_to_string(&order.report) else {
            return Err(failed(program, &format!("ended without a report ({ended})")));
        };
        match serde_json::from_str(&answer).map_err(|error| failed(program, &error.to_string()))? {
            Answer::Report(report) => Ok(report),
            Answer::Error { code, message, hint, hint_parts } => {
                let exit = match code.as_str() {
                    "GS0104" => Exit::NotFound,
                    code if code.starts_with("GS02") => Exit::Unreachable,
                    _ => Exit::Error,
                };
                let parts: Option<Hint> = hint_parts.and_then(|parts| serde_json::from_value(parts).ok());
                let help = parts.as_ref().map(with_commands).or(hint);
                let next = parts.iter().flat_map(NextStepDoc::of).collect();
                Err(CliError { code: Some(code), message, help, next, exit })
            }
        }
    }
}

/// Waits for the end of the process.
async fn ended(child: &mut Child) -> std::io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn failed(program: &Path, what: &str) -> CliError {
    CliError {
        code: Some("GS0125".to_owned()),
        message: format!("preflight failed: {} {what}", program.display()),
        help: Some(
            "the program must register its workflows and call `start`, as in normal operation".to_owned(),
        ),
        next: Vec::new(),
        exit: Exit::Error,
    }
}

pub(crate) async fn run(app: &App, args: PreflightArgs) -> Result<Exit, CliError> {
    if args.histories.is_none() {
        app.needs_store("preflight")?;
    }
    let runs: Result<Vec<RunId>, _> = args.runs.iter().map(RunId::new).collect();
    let order = Order {
        store: args.histories.is_none().then(|| app.url.clone()),
        histories: args.histories,
        runs: runs?,
        workflow: args.workflow,
        sample: args.sample,
        parked: args.parked,
        ..Order::default()
    };
    let report = args.program.answer(order).await?;
    match () {
        () if app.wants_json() => out::json(&report),
        () if app.quiet => report.findings.iter().for_each(|finding| out::line(finding.run.as_str())),
        () => out::line(report.to_string()),
    }
    Ok(match report.exit_code() {
        PreflightReport::SAFE => Exit::Ok,
        PreflightReport::UNKNOWN => Exit::Untried,
        _ => Exit::WouldPark,
    })
}
