//! `goldseam demo`: kills workers and checks that nothing is lost.

mod account;
mod drive;
pub(crate) mod fleet;
mod order;
mod progress;
mod witness;
pub(crate) mod worker;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use goldseam::Client;
use goldseam::unstable::engine::{Entropy, OsEntropy};
use goldseam::unstable::store::RunFilter;

use account::{Account, Evidence, Findings};
use drive::Course;
use fleet::{Fleet, WorkerCommand};
use progress::ProgressLine;

use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::out;
use crate::{text, time};

/// Default silence before other nodes take over.
const SILENCE: Duration = Duration::from_secs(10);
/// The same with freezes.
const SILENCE_WITH_FREEZES: Duration = Duration::from_millis(1_500);
/// Maximum number of violations to print.
const SHOWN_MAX: usize = 10;

/// Kill -9 workers and check that nothing is lost or done twice
///
/// Starts worker processes on a new SQLite store, starts runs of an order workflow (steps, parallel steps, a retry, a
/// sleep, a question that the demo answers, compensation), kills workers with SIGKILL at random times and starts new
/// ones. With --freezes, it also stops workers (SIGSTOP) and continues them later (SIGCONT), half of them after other
/// nodes took over. At the end it compares the log with an independent witness file that every step writes to.
#[derive(Debug, Args)]
#[command(
    after_help = "With --store on the command line, it uses that store, which must be empty, and keeps its runs there.\n\n\
Exit code 1 if anything was lost or repeated, or a run did not end.\n\n\
Examples:\n  goldseam demo\n  goldseam demo --store 'postgres://ada@db.example/orders?schema=demo'\n  goldseam demo --store 's3://my-bucket/demo?region=eu-west-1'\n  goldseam demo --runs 500 --kills 40 --workers 4\n  goldseam demo --kills 4 --freezes 10\n  goldseam demo --json | jq .recovery_ms"
)]
pub(crate) struct DemoArgs {
    /// Number of orders
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = in_range::<1, 9_999>)]
    pub(crate) runs: usize,
    /// Number of kills
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = in_range::<0, 10_000>)]
    pub(crate) kills: usize,
    /// Number of freezes
    #[arg(long, value_name = "F", default_value_t = 0, value_parser = in_range::<0, 10_000>)]
    pub(crate) freezes: usize,
    /// Average time between two kills
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span, default_value = "250ms")]
    pub(crate) every: Duration,
    /// How long a worker may be silent before other nodes take over; defaults to 10s, or to 1500ms with --freezes
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    silence: Option<Duration>,
    /// Number of worker processes
    #[arg(long, value_name = "W", default_value_t = 3, value_parser = in_range::<1, 64>)]
    workers: usize,
    /// Seed for the orders and the times of kills; random by default
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Folder for the files; defaults to a new temporary folder
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep the files even with --json
    #[arg(long)]
    keep: bool,
}

impl DemoArgs {
    /// How long a worker may be silent before other nodes take over.
    pub(crate) fn silence(&self) -> Duration {
        self.silence.unwrap_or(if self.freezes == 0 { SILENCE } else { SILENCE_WITH_FREEZES })
    }
}

fn in_range<const LOW: usize, const HIGH: usize>(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (LOW..=HIGH).contains(number));
    number.ok_or_else(|| format!("write a number from {LOW} to {HIGH}"))
}

#[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
pub(crate) async fn run(app: &App, args: DemoArgs) -> Result<Exit, CliError> {
    app.needs_store("demo")?;
    let began = Instant::now();
    let seed = args.seed.unwrap_or_else(|| OsEntropy.next() % 1_000_000);
    let files = DemoFiles::create(app, &args, seed)?;
    let silence = format!("{}ms", args.silence().as_millis());
    let options =
        vec!["--witness".into(), files.witness().into_os_string(), "--silence".into(), silence.into()];
    let plan = WorkerCommand { url: files.url(), options, log: files.dir.join("workers.log") };
    let client = Client::new(goldseam::open_store(&plan.url).await?);
    must_be_empty(&client, &plan.url).await?;
    witness::WitnessWriter::open(&files.witness()).map_err(file_error)?;
    if !app.wants_json() {
        introduce(app, &args, seed);
    }
    let mut fleet = Fleet::start(plan, args.workers).map_err(file_error)?;
    let progress = ProgressLine::new(app, &args);
    let acknowledged = Course::new(&args, seed, &client, &mut fleet, &progress).run().await?;
    progress.clear();
    fleet.stop_all();
    let seconds = (began.elapsed().as_secs_f64() * 100.0).round() / 100.0;
    let seen = witness::read(&files.witness()).map_err(file_error)?;
    let evidence = Evidence {
        client: &client,
        acknowledged: &acknowledged,
        seen: &seen,
        kills: &fleet.kills,
        freezes: &fleet.freezes,
    };
    let (account, mut findings) = account::settle(evidence, seconds).await?;
    let Account { runs, kills, freezes, .. } = &account;
    if *runs < args.runs || *kills < args.kills || *freezes < args.freezes {
        let done = format!("{runs} starts, {kills} kills and {freezes} freezes");
        findings.wrong.push(format!("gave up after {done}, because nothing moved"));
    }
    let well = findings.wrong.is_empty() && account.lost == 0 && account.repeated == 0;
    show(app, &account, &findings);
    if app.wants_json() && well && files.temporary && !args.keep {
        drop(client);
        let _ = std::fs::remove_dir_all(&files.dir);
    } else if !app.wants_json() {
        print_next_commands(&files, findings.example.as_ref().map_or("ord-0001", |(_, run)| run.as_str()));
    }
    Ok(if well { Exit::Ok } else { Exit::Error })
}

/// Refuses a store with runs, whose ids could collide with those of the demo.
async fn must_be_empty(client: &Client, url: &str) -> Result<(), CliError> {
    let filter = RunFilter { limit: 1, ..RunFilter::default() };
    if client.list(filter).await?.items.is_empty() {
        return Ok(());
    }
    let message = format!("{} already contains runs", goldseam::shown_url(url));
    Err(CliError::usage(
        message,
        "use an empty store: another --dir, another file, another schema=NAME, or another prefix",
    ))
}

/// The demo's folder and its store.
struct DemoFiles {
    dir: PathBuf,
    temporary: bool,
    /// The store from the command line.
    store: Option<String>,
}

impl DemoFiles {
    fn create(app: &App, args: &DemoArgs, seed: u64) -> Result<Self, CliError> {
        let name = || format!("goldseam-demo-{}-{seed}", std::process::id());
        let dir = args.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(name()));
        std::fs::create_dir_all(&dir).map_err(file_error)?;
        let store = app.names_store.then(|| app.url.clone());
        Ok(Self { dir, temporary: args.dir.is_none(), store })
    }

    fn url(&self) -> String {
        self.store.clone().unwrap_or_else(|| format!("sqlite:{}", self.dir.join("demo.db").display()))
    }

    fn witness(&self) -> PathBuf {
        self.dir.join("witness.tsv")
    }
}

fn file_error(error: std::io::Error) -> CliError {
    CliError::plain(format!("cannot use the files of the demo: {error}"))
}

fn introduce(app: &App, args: &DemoArgs, seed: u64) {
    let freezes = match args.freezes {
        0 => String::new(),
        freezes => format!(" and {freezes} freezes"),
    };
    out::note(format!(
        "{} orders on {} worker processes, with {} kills (kill -9){freezes} (seed {seed})",
        args.runs, args.workers, args.kills
    ));
    app.remark(match app.names_store {
        true => "every result is committed before it is acknowledged",
        false => "every result is on disk before it is acknowledged (SQLite, synchronous=FULL)",
    });
}

fn show(app: &App, account: &Account, findings: &Findings) {
    if app.wants_json() {
        out::json(account);
    } else {
        for line in sentences(app, account, findings) {
            out::line(line);
        }
    }
    for wrong in findings.wrong.iter().take(SHOWN_MAX) {
        out::note(format!("wrong: {wrong}"));
    }
    if findings.wrong.len() > SHOWN_MAX {
        out::note(format!("wrong: and {} more", findings.wrong.len() - SHOWN_MAX));
    }
}

fn sentences(app: &App, account: &Account, findings: &Findings) -> Vec<String> {
    let Account { runs, completed, failed, kills, freezes, lost, repeated, .. } = account;
    let Account { superseded, steps, cut_off, recovery_ms, seconds, .. } = account;
    let zero = |count: usize| {
        let hue = if count == 0 { Hue::Good } else { Hue::Bad };
        app.colors.apply(hue, format!("{count:>6}"))
    };
    let Findings { declined, hits, .. } = findings;
    let mut lines = vec![
        String::new(),
        format!("{runs:>6}  runs started and acknowledged"),
        format!("{completed:>6}  completed"),
        format!(
            "{failed:>6}  failed, {declined} of them on purpose: declined, charge and reservation compensated"
        ),
        format!("{kills:>6}  workers killed with SIGKILL, {hits} of them while they owned runs"),
        format!("{}  acknowledged results lost", zero(*lost)),
        format!("{}  completed steps executed again ({steps} steps completed)", zero(*repeated)),
        format!("{cut_off:>6}  steps interrupted by a kill and begun again, with the same key"),
        format!(
            "{:>6}  ms from a kill to progress (p50); p99 {}, max {}",
            recovery_ms.p50, recovery_ms.p99, recovery_ms.max
        ),
        format!("{seconds:>6}  seconds"),
    ];
    if *freezes > 0 {
        let frozen = [
            format!("{freezes:>6}  workers frozen with SIGSTOP and continued"),
            format!("{superseded:>6}  steps begun again by a frozen worker that had lost its run"),
        ];
        let after = lines.len() - 2;
        lines.splice(after..after, frozen);
    }
    lines
}

/// Prints commands to explore the store, with the path of this program.
fn print_next_commands(files: &DemoFiles, run: &str) {
    let program = std::env::args().next().unwrap_or_else(|| "goldseam".to_owned());
    let url = files.url();
    let shown = goldseam::shown_url(&url);
    let start = format!("{} --store {}", text::quoted(&program), text::quoted(&shown));
    out::note(if shown == url {
        "\nexplore the store:"
    } else {
        "\nexplore the store, with your secret in place of ***:"
    });
    for words in ["ls --status failed".to_owned(), format!("show {run}"), format!("history {run}")] {
        out::note(format!("  {start} {words}"));
    }
    out::note(format!("begin and end of each step: {}", files.witness().display()));
}
