//! `cargo xtask kill`: the shipped binary is killed again and again, and now and then the server under it, until a
//! number of kills is reached or something is lost or repeated.
//!
//! It runs `goldseam demo` round after round. Everything about a round is drawn from its seed, and the seeds of rounds
//! are neighbours, so a round is repeated by naming its seed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use goldseam_testbed::postgres::{Cluster, Options, Shutdown};
use goldseam_testbed::s3::Server;
use goldseam_testbed::seaweedfs;

use crate::steps;
use crate::tree;

const USAGE: &str =
    "cargo xtask kill --store sqlite|postgres|s3 --kills N [--seed S] [--workers W] [--server-kills N]";
/// Pause between two looks at a demo.
const LOOK: Duration = Duration::from_millis(20);

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Order {
    store: Store,
    kills: u64,
    seed: u64,
    workers: Option<u64>,
    server_kills: u64,
}

/// What the runs are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Sqlite,
    Postgres,
    S3,
}

impl Store {
    fn named(name: &str) -> Option<Self> {
        [Self::Sqlite, Self::Postgres, Self::S3].into_iter().find(|store| store.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::S3 => "s3",
        }
    }

    /// Fewest and most kills of a round.
    fn kills(self) -> (u64, u64) {
        match self {
            Self::Sqlite => (60, 180),
            Self::Postgres => (30, 90),
            Self::S3 => (10, 40),
        }
    }

    /// From one kill to the next, and how long a worker may be silent: nothing in a bucket tells that a process is dead.
    fn pace(self) -> [&'static str; 4] {
        match self {
            Self::Sqlite | Self::Postgres => ["--every", "40ms", "--silence", "1500ms"],
            Self::S3 => ["--every", "100ms", "--silence", "1500ms"],
        }
    }
}

impl Order {
    fn parse(args: &[&str]) -> Option<Self> {
        let mut order = Self { store: Store::Sqlite, kills: 0, seed: 1, workers: None, server_kills: 0 };
        let mut is_named = false;
        for pair in args.chunks(2) {
            let [name, value] = pair else { return None };
            if *name == "--store" {
                (order.store, is_named) = (Store::named(value)?, true);
                continue;
            }
            let number = value.parse().ok()?;
            match *name {
                "--kills" => order.kills = number,
                "--seed" => order.seed = number,
                "--workers" => order.workers = Some(number).filter(|workers| (1..=64).contains(workers)),
                "--server-kills" => order.server_kills = number,
                _ => return None,
            }
        }
        let has_server = order.store != Store::Sqlite;
        (is_named && order.kills > 0 && (has_server || order.server_kills == 0)).then_some(order)
    }
}

/// What a round is, all of it drawn from its seed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Round {
    seed: u64,
    workers: u64,
    runs: u64,
    kills: u64,
    freezes: u64,
    server_kills: u64,
}

impl Round {
    /// The round of this seed, with no more kills than are wanted.
    fn drawn(order: &Order, seed: u64, done: &Totals) -> Self {
        let mut dice = Dice(seed);
        let workers = dice.between((1, 3));
        // Once enough are dead, only kills of the server are wanting.
        let most = order.kills.saturating_sub(done.kills);
        let kills = dice.between(order.store.kills()).min(if most == 0 { u64::MAX } else { most });
        let runs = (kills * dice.between((80, 160)) / 100).max(3);
        let freezes = dice.between((0, 1)) * dice.between((1, 6));
        let server_kills = dice.between((1, 3)).min(order.server_kills.saturating_sub(done.server_kills));
        Self { seed, workers: order.workers.unwrap_or(workers), runs, kills, freezes, server_kills }
    }

    fn arguments(&self) -> Vec<String> {
        let Self { seed, workers, runs, kills, freezes, .. } = self;
        let pairs =
            [("runs", runs), ("kills", kills), ("workers", workers), ("freezes", freezes), ("seed", seed)];
        pairs.iter().flat_map(|(name, value)| [format!("--{name}"), value.to_string()]).collect()
    }

    /// The command that does it again.
    fn command(&self, order: &Order) -> String {
        let (store, Self { seed, kills, server_kills, .. }) = (order.store.name(), self);
        let mut command = format!("cargo xtask kill --store {store} --kills {kills} --seed {seed}");
        if let Some(workers) = order.workers {
            command += &format!(" --workers {workers}");
        }
        if *server_kills > 0 {
            command += &format!(" --server-kills {server_kills}");
        }
        command
    }
}

/// Numbers from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.next() % (high - low + 1)
    }
}

/// What all rounds came to.
#[derive(Debug, Default)]
struct Totals {
    rounds: u64,
    kills: u64,
    freezes: u64,
    server_kills: u64,
    runs: u64,
    steps: u64,
    lost: u64,
    repeated: u64,
    superseded: u64,
    cut_off: u64,
}

impl Totals {
    fn add(&mut self, account: &str) {
        self.rounds += 1;
        let fields = [
            ("kills", &mut self.kills),
            ("freezes", &mut self.freezes),
            ("runs", &mut self.runs),
            ("steps", &mut self.steps),
            ("lost", &mut self.lost),
            ("repeated", &mut self.repeated),
            ("superseded", &mut self.superseded),
            ("cut_off", &mut self.cut_off),
        ];
        for (name, total) in fields {
            *total += number(account, name).unwrap_or_default();
        }
    }

    fn record(&self, store: Store, seconds: u64) -> String {
        let Self { rounds, kills, freezes, server_kills, runs, steps, lost, repeated, superseded, cut_off } =
            self;
        format!(
            "record: store={} kills={kills} freezes={freezes} server_kills={server_kills} rounds={rounds} \
             runs={runs} steps={steps} lost={lost} repeated={repeated} superseded={superseded} \
             cut_off={cut_off} seconds={seconds}",
            store.name()
        )
    }
}

/// A number of an account in JSON, on its first level.
fn number(account: &str, name: &str) -> Option<u64> {
    let rest = account.split(&format!("\"{name}\":")).nth(1)?.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// The server under the store, ours alone.
enum Ground {
    None,
    Postgres(Box<Cluster>),
    S3(Box<Server>),
}

impl Ground {
    /// What an acknowledgement says must be true after a kill of the server, so nothing is switched off for speed.
    fn start(store: Store) -> Result<Self, String> {
        let told = |error: goldseam_testbed::Error| error.to_string();
        let options = Options { durable: true, ..Options::default() };
        Ok(match store {
            Store::Sqlite => Self::None,
            Store::Postgres => Self::Postgres(Box::new(Cluster::start(&options).map_err(told)?)),
            Store::S3 => Self::S3(Box::new(seaweedfs::start().map_err(told)?)),
        })
    }

    /// A store of its own for a round, unless it is a file of the demo's.
    fn url(&self, seed: u64) -> Option<String> {
        match self {
            Self::None => None,
            Self::Postgres(cluster) => Some(format!("{}?schema=kill_{seed}", cluster.url())),
            Self::S3(server) => {
                Some(format!("{}&requests=free", server.bucket().url(&format!("kill-{seed}"))))
            }
        }
    }

    /// Kills the server with SIGKILL, and starts it again after a while.
    #[expect(clippy::disallowed_methods, reason = "the server is away for a span of real time")]
    fn kill(&self, pause: Duration) -> Result<(), String> {
        let told = |error: goldseam_testbed::Error| error.to_string();
        match self {
            Self::None => {}
            Self::Postgres(cluster) => {
                cluster.stop(Shutdown::Kill).map_err(told)?;
                thread::sleep(pause);
                cluster.start_again().map_err(told)?;
            }
            Self::S3(server) => {
                server.stop().map_err(told)?;
                thread::sleep(pause);
                server.start_again().map_err(told)?;
            }
        }
        Ok(())
    }

    /// A round that went well leaves nothing behind where that is cheap.
    fn clear(&self, seed: u64) -> Result<(), String> {
        match self {
            Self::Postgres(cluster) => {
                let drop = format!("DROP SCHEMA IF EXISTS kill_{seed} CASCADE;");
                cluster.sql(&drop).map(|_| ()).map_err(|error| error.to_string())
            }
            Self::None | Self::S3(_) => Ok(()),
        }
    }
}

/// One binary, one server, round after round.
struct Search {
    order: Order,
    binary: PathBuf,
    folder: PathBuf,
    ground: Ground,
}

impl Search {
    /// One round; the account of the demo, and how often the server was killed.
    fn round(&self, round: &Round) -> Result<(String, u64), String> {
        let dir = self.folder.join(format!("{}-{}", self.order.store.name(), round.seed));
        let file = |error: std::io::Error| format!("{}: {error}", dir.display());
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(file)?;
        }
        fs::create_dir_all(&dir).map_err(file)?;
        let account = dir.join("account.json");
        let mut demo = Command::new(&self.binary);
        demo.args(self.ground.url(round.seed).iter().flat_map(|url| ["--store", url.as_str()]));
        demo.args(["demo", "--json", "--dir"])
            .arg(&dir)
            .args(round.arguments())
            .args(self.order.store.pace());
        demo.stdin(Stdio::null()).stdout(File::create(&account).map_err(file)?);
        demo.stderr(File::create(dir.join("errors.txt")).map_err(file)?);
        let (is_well, server_kills) = self.watched(&mut demo, &dir, round)?;
        let said = fs::read_to_string(&account).map_err(file)?;
        if is_well && number(&said, "lost") == Some(0) && number(&said, "repeated") == Some(0) {
            self.ground.clear(round.seed)?;
            fs::remove_dir_all(&dir).map_err(file)?;
            return Ok((said, server_kills));
        }
        self.keep(round, &dir);
        let errors = fs::read_to_string(dir.join("errors.txt")).unwrap_or_default();
        let (kept, again) = (dir.display(), round.command(&self.order));
        Err(format!("{said}{errors}kept in {kept}; the same round again: {again}"))
    }

    /// Runs a demo to its end, and kills the server in the middle; says whether it went well, and how often it did.
    #[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
    fn watched(&self, demo: &mut Command, dir: &Path, round: &Round) -> Result<(bool, u64), String> {
        let mut dice = Dice(round.seed ^ 0x5e17e4);
        let mut demo = demo.spawn().map_err(|error| format!("the demo cannot be started: {error}"))?;
        let mut left = round.server_kills;
        // A demo that finds no server cannot begin: it has once it keeps something besides its two outputs.
        let has_begun = || fs::read_dir(dir).is_ok_and(|kept| kept.count() > 2);
        let mut due = None;
        loop {
            if let Some(status) = demo.try_wait().map_err(|error| error.to_string())? {
                return Ok((status.success(), round.server_kills - left));
            }
            if due.is_none() && has_begun() {
                due = Some(Instant::now() + Duration::from_millis(dice.between((500, 4_000))));
            }
            if left > 0 && due.is_some_and(|due| Instant::now() >= due) {
                if let Err(error) = self.ground.kill(Duration::from_millis(dice.between((0, 800)))) {
                    let _ = demo.kill();
                    let _ = demo.wait();
                    return Err(error);
                }
                left -= 1;
                due = Some(Instant::now() + Duration::from_millis(dice.between((300, 3_000))));
            }
            thread::sleep(LOOK);
        }
    }

    /// The server goes with this process, so what it holds is copied into a file.
    fn keep(&self, round: &Round, dir: &Path) {
        if let Some(url) = self.ground.url(round.seed) {
            let to = format!("sqlite:{}", dir.join("copy.db").display());
            let copied = Command::new(&self.binary).args(["store", "copy", &url, &to]).status();
            println!("the store is copied to {to}: {copied:?}");
        }
    }
}

/// Kills until enough are dead, or until something is wrong.
#[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let Some(order) = Order::parse(args) else { return Err(format!("usage: {USAGE}")) };
    let root = tree::root()?;
    steps::cargo(&root, "build --quiet --release --package goldseam-cli", &[])?;
    let ground = Ground::start(order.store)?;
    let target = tree::target(&root);
    let search =
        Search { binary: target.join("release/goldseam"), folder: target.join("kill"), ground, order };
    let (order, began, mut totals) = (&search.order, Instant::now(), Totals::default());
    let mut seed = order.seed;
    while totals.kills < order.kills || totals.server_kills < order.server_kills {
        let round = Round::drawn(order, seed, &totals);
        let from = Instant::now();
        let (account, server_kills) = search.round(&round)?;
        totals.add(&account);
        totals.server_kills += server_kills;
        let Round { workers, runs, kills, freezes, .. } = round;
        let (took, rate) = (from.elapsed(), totals.kills as f64 / began.elapsed().as_secs_f64());
        println!(
            "seed {seed}: workers {workers}, runs {runs}, kills {kills}, freezes {freezes}, kills of the server \
             {server_kills}, {:.1} s; {} of {} kills, {rate:.1} a second",
            took.as_secs_f64(),
            totals.kills,
            order.kills
        );
        seed += 1;
    }
    println!("{}", totals.record(order.store, began.elapsed().as_secs()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_repeated_by_its_command() {
        let args = ["--store", "postgres", "--kills", "40", "--seed", "7", "--server-kills", "2"];
        let order = Order::parse(&args).unwrap();
        let done = Totals { kills: 15, server_kills: 1, ..Totals::default() };
        let round = Round::drawn(&order, 9, &done);
        let command = round.command(&order);
        let words: Vec<&str> = command.split(' ').skip(3).collect();
        let again = Order::parse(&words).unwrap();
        assert_eq!(Round::drawn(&again, again.seed, &Totals::default()), round);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(Order::parse(&["--store", "sqlite"]), None);
        assert_eq!(Order::parse(&["--kills", "3"]), None);
        assert_eq!(Order::parse(&["--store", "sqlite", "--kills", "3", "--server-kills", "1"]), None);
        assert_eq!(Order::parse(&["--store", "tape", "--kills", "3"]), None);
        assert!(Order::parse(&["--store", "s3", "--kills", "3", "--workers", "2"]).is_some());
    }

    #[test]
    fn numbers_are_taken_from_an_account() {
        let account = r#"{"runs":12,"kills": 4,"recovery_ms":{"p50":9},"seconds":1.5}"#;
        assert_eq!((number(account, "runs"), number(account, "kills")), (Some(12), Some(4)));
        assert_eq!(number(account, "lost"), None);
    }
}
