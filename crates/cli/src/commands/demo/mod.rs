//! `goldseam demo`: kill -9 the workers again and again, and count what it cost.

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
use goldseam::engine::{Entropy, OsEntropy};
use goldseam::store::RunFilter;

use account::{Account, Evidence, Findings};
use drive::Course;
use fleet::{Fleet, Plan};
use progress::Progress;

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::out;
use crate::paint::Hue;
use crate::{text, when};

/// How long a worker may be silent before others take over, unless it is said: the shorter one with freezes.
const SILENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(1_500));
/// Complaints that are shown one by one.
const SHOWN_MAX: usize = 10;

/// Kill -9 workers again and again, and see that nothing is lost or done twice
///
/// Starts worker processes on a store of its own, a SQLite file, starts runs of an order workflow (steps, parallel
/// steps, a retry, a sleep, a question that the demo answers, compensation), kills workers with
/// SIGKILL at random moments and starts new ones. With --freezes, workers are also stopped (SIGSTOP) and go on later
/// (SIGCONT), half of them after others have taken over. Ends with an account made from the log and from
/// an independent witness file that every step writes to.
#[derive(Debug, Args)]
#[command(
    after_help = "With --store on the command line it uses that store, which must be empty, and leaves its runs there.\n\n\
Exit code 1 if anything was lost or repeated, or a run did not end.\n\n\
Examples:\n  goldseam demo\n  goldseam demo --store 'postgres://ada@db.example/orders?schema=demo'\n  goldseam demo --store 's3://my-bucket/demo?region=eu-west-1'\n  goldseam demo --runs 500 --kills 40 --workers 4\n  goldseam demo --kills 4 --freezes 10\n  goldseam demo --json | jq .recovery_ms"
)]
pub(crate) struct DemoArgs {
    /// How many orders
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = in_range::<1, 9_999>)]
    pub(crate) runs: usize,
    /// How many kills
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = in_range::<0, 10_000>)]
    pub(crate) kills: usize,
    /// How many freezes
    #[arg(long, value_name = "F", default_value_t = 0, value_parser = in_range::<0, 10_000>)]
    pub(crate) freezes: usize,
    /// From one kill to the next, on average
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span, default_value = "250ms")]
    pub(crate) every: Duration,
    /// How long a worker may be silent before others take over; 10s, or 1500ms with --freezes, unless given
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span)]
    silence: Option<Duration>,
    /// How many worker processes at a time
    #[arg(long, value_name = "W", default_value_t = 3, value_parser = in_range::<1, 64>)]
    workers: usize,
    /// Makes the same orders, and kills after the same pauses; random unless given
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Where to put the files; a new folder for temporary files unless given
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep the files even with --json
    #[arg(long)]
    keep: bool,
}

impl DemoArgs {
    /// How long a worker may be silent.
    pub(crate) fn silence(&self) -> Duration {
        self.silence.unwrap_or(if self.freezes == 0 { SILENCE.0 } else { SILENCE.1 })
    }
}

fn in_range<const LOW: usize, const HIGH: usize>(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (LOW..=HIGH).contains(number));
    number.ok_or_else(|| format!("write a number from {LOW} to {HIGH}"))
}

/// Runs the demo.
#[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
pub(crate) async fn run(app: &App, args: DemoArgs) -> Result<Exit, Fail> {
    app.needs_store("demo")?;
    let began = Instant::now();
    let seed = args.seed.unwrap_or_else(|| OsEntropy.next() % 1_000_000);
    let place = Place::make(app, &args, seed)?;
    let silence = format!("{}ms", args.silence().as_millis());
    let options =
        vec!["--witness".into(), place.witness().into_os_string(), "--silence".into(), silence.into()];
    let plan = Plan { url: place.url(), options, log: place.dir.join("workers.log") };
    let client = Client::new(goldseam::open_store(&plan.url).await?);
    must_be_empty(&client, &plan.url).await?;
    witness::Witness::open(&place.witness()).map_err(cannot_write)?;
    if !app.wants_json() {
        introduce(app, &args, seed);
    }
    let mut fleet = Fleet::start(plan, args.workers).map_err(cannot_write)?;
    let progress = Progress::new(app, &args);
    let acknowledged = Course::new((&args, seed), &client, &mut fleet, &progress).run().await?;
    progress.clear();
    fleet.dismiss();
    let seconds = (began.elapsed().as_secs_f64() * 100.0).round() / 100.0;
    let seen = witness::read(&place.witness()).map_err(cannot_write)?;
    let (kills, freezes) = (fleet.kills.as_slice(), fleet.freezes.as_slice());
    let evidence = Evidence { client: &client, acknowledged: &acknowledged, seen: &seen, kills, freezes };
    let (account, mut findings) = account::settle(evidence, seconds).await?;
    let Account { runs, kills, freezes, .. } = &account;
    if *runs < args.runs || *kills < args.kills || *freezes < args.freezes {
        let done = format!("{runs} starts, {kills} kills and {freezes} freezes");
        findings.wrong.push(format!("patience ended after {done}"));
    }
    let well = findings.wrong.is_empty() && account.lost == 0 && account.repeated == 0;
    show(app, &account, &findings);
    if app.wants_json() && well && place.temporary && !args.keep {
        drop(client);
        let _ = std::fs::remove_dir_all(&place.dir);
    } else if !app.wants_json() {
        next_commands(&place, findings.example.as_ref().map_or("ord-0001", |(_, run)| run.as_str()));
    }
    Ok(if well { Exit::Ok } else { Exit::Error })
}

/// Its runs have names that others may have, too.
async fn must_be_empty(client: &Client, url: &str) -> Result<(), Fail> {
    let filter = RunFilter { limit: 1, ..RunFilter::default() };
    if client.list(filter).await?.items.is_empty() {
        return Ok(());
    }
    let what = format!("{} holds runs already", goldseam::shown_url(url));
    Err(Fail::usage(
        what,
        "name a store that is empty: another --dir, another file, another schema=NAME, or another prefix",
    ))
}

/// Where the demo's files and its store are.
struct Place {
    dir: PathBuf,
    temporary: bool,
    given: Option<String>,
}

impl Place {
    fn make(app: &App, args: &DemoArgs, seed: u64) -> Result<Self, Fail> {
        let named = || format!("goldseam-demo-{}-{seed}", std::process::id());
        let dir = args.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(named()));
        std::fs::create_dir_all(&dir).map_err(cannot_write)?;
        let given = app.names_store.then(|| app.url.clone());
        Ok(Self { dir, temporary: args.dir.is_none(), given })
    }

    fn url(&self) -> String {
        self.given.clone().unwrap_or_else(|| format!("sqlite:{}", self.dir.join("demo.db").display()))
    }

    fn witness(&self) -> PathBuf {
        self.dir.join("witness.tsv")
    }
}

fn cannot_write(error: std::io::Error) -> Fail {
    Fail::plain(format!("the demo's files cannot be used: {error}"))
}

fn introduce(app: &App, args: &DemoArgs, seed: u64) {
    let freezes = match args.freezes {
        0 => String::new(),
        freezes => format!(", {freezes} times one is frozen for a while"),
    };
    out::note(format!(
        "{} orders on {} worker processes; {} times one of them dies by kill -9{freezes} (seed {seed})",
        args.runs, args.workers, args.kills
    ));
    app.remark(match app.names_store {
        true => "every result is committed before it counts",
        false => "every result is on disk before it counts (SQLite, synchronous=FULL)",
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
        app.paint.on(hue, format!("{count:>6}"))
    };
    let Findings { declined, hits, .. } = findings;
    let mut lines = vec![
        String::new(),
        format!("{runs:>6}  runs started and acknowledged"),
        format!("{completed:>6}  completed"),
        format!(
            "{failed:>6}  failed, {declined} of them on purpose: declined, charge and reservation undone"
        ),
        format!("{kills:>6}  workers killed with SIGKILL, {hits} of them while they had runs"),
        format!("{}  acknowledged results lost", zero(*lost)),
        format!("{}  completed steps executed again ({steps} steps completed)", zero(*repeated)),
        format!("{cut_off:>6}  steps cut off in the middle by a kill and begun again, with the same key"),
        format!(
            "{:>6}  ms from a kill to progress (p50); p99 {}, max {}",
            recovery_ms.p50, recovery_ms.p99, recovery_ms.max
        ),
        format!("{seconds:>6}  seconds"),
    ];
    if *freezes > 0 {
        let frozen = [
            format!("{freezes:>6}  workers frozen with SIGSTOP, and let go on"),
            format!("{superseded:>6}  steps begun again by a worker that was frozen and superseded"),
        ];
        let after = lines.len() - 2;
        lines.splice(after..after, frozen);
    }
    lines
}

/// What to type next, as this shell would find the program.
fn next_commands(place: &Place, run: &str) {
    let program = std::env::args().next().unwrap_or_else(|| "goldseam".to_owned());
    let (url, shown) = (place.url(), goldseam::shown_url(&place.url()));
    let start = format!("{} --store {}", text::quoted(&program), text::quoted(&shown));
    out::note(if shown == url {
        "\nlook around:"
    } else {
        "\nlook around, with your secret in place of ***:"
    });
    for words in ["ls --status failed".to_owned(), format!("show {run}"), format!("history {run}")] {
        out::note(format!("  {start} {words}"));
    }
    out::note(format!("what each step did and when: {}", place.witness().display()));
}
