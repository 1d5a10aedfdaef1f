//! `cargo xtask kill`: kills the shipped binary repeatedly, and sometimes the server under its store, until the number
//! of kills is reached or an effect is lost or repeated.
//!
//! It runs `goldseam demo` in rounds. The seed of a round determines its parameters, and rounds use consecutive seeds,
//! so `--seed` repeats a round.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use goldseam_testbed::postgres::{Cluster, ClusterOptions, Shutdown};
use goldseam_testbed::s3::S3Server;
use goldseam_testbed::seaweedfs;

use crate::cargo;
use crate::tree;

const USAGE: &str =
    "cargo xtask kill --store sqlite|postgres|s3 --kills N [--seed S] [--workers W] [--server-kills N]";
/// The interval for polling a demo.
const LOOK: Duration = Duration::from_millis(20);

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Order {
    store: Store,
    kills: u64,
    seed: u64,
    workers: Option<u64>,
    server_kills: u64,
}

/// The kind of store.
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

    /// The minimum and maximum number of kills per round.
    fn kills(self) -> (u64, u64) {
        match self {
            Self::Sqlite => (60, 180),
            Self::Postgres => (30, 90),
            Self::S3 => (10, 40),
        }
    }

    /// The interval between kills, and the silence after which a worker counts as dead. A bucket cannot report that a
    /// process died.
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

/// The parameters of a round, all drawn from its seed.
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
    /// Draws the round of this seed, with no more kills than are left.
    fn drawn(order: &Order, seed: u64, done: &Totals) -> Self {
        let mut dice = Dice(seed);
        let workers = dice.between((1, 3));
        // Once the kills are reached, rounds go on until the server kills are reached.
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

    /// The command that repeats the round.
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

/// The sums over all rounds.
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

/// A top-level number of a JSON document.
fn number(account: &str, name: &str) -> Option<u64> {
    let rest = account.split(&format!("\"{name}\":")).nth(1)?.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// The private server under the store.
enum Ground {
    None,
    Postgres(Box<Cluster>),
    S3(Box<S3Server>),
}

impl Ground {
    /// Starts the server with full durability: an acknowledged write must survive a kill of the server.
    fn start(store: Store) -> Result<Self, String> {
        let message = |error: goldseam_testbed::TestbedError| error.to_string();
        let options = ClusterOptions { durable: true, ..ClusterOptions::default() };
        Ok(match store {
            Store::Sqlite => Self::None,
            Store::Postgres => Self::Postgres(Box::new(Cluster::start(&options).map_err(message)?)),
            Store::S3 => Self::S3(Box::new(seaweedfs::start().map_err(message)?)),
        })
    }

    /// A separate store for each round; none for SQLite, where the demo creates its own file.
    fn url(&self, seed: u64) -> Option<String> {
        match self {
            Self::None => None,
            Self::Postgres(cluster) => Some(format!("{}?schema=kill_{seed}", cluster.url())),
            Self::S3(server) => {
                Some(format!("{}&requests=free", server.bucket().url(&format!("kill-{seed}"))))
            }
        }
    }

    /// Kills the server with SIGKILL and restarts it after `pause`.
    #[expect(clippy::disallowed_methods, reason = "the server is away for a span of real time")]
    fn kill(&self, pause: Duration) -> Result<(), String> {
        let message = |error: goldseam_testbed::TestbedError| error.to_string();
        match self {
            Self::None => {}
            Self::Postgres(cluster) => {
                cluster.stop(Shutdown::Kill).map_err(message)?;
                thread::sleep(pause);
                cluster.start_again().map_err(message)?;
            }
            Self::S3(server) => {
                server.stop().map_err(message)?;
                thread::sleep(pause);
                server.start_again().map_err(message)?;
            }
        }
        Ok(())
    }

    /// Drops the store of a successful round where that is cheap.
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

/// The binary, the server and the folder of all rounds.
struct Search {
    order: Order,
    binary: PathBuf,
    folder: PathBuf,
    ground: Ground,
}

impl Search {
    /// Runs one round; returns the demo's report and the number of server kills.
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
        let printed = fs::read_to_string(&account).map_err(file)?;
        if is_well && number(&printed, "lost") == Some(0) && number(&printed, "repeated") == Some(0) {
            self.ground.clear(round.seed)?;
            fs::remove_dir_all(&dir).map_err(file)?;
            return Ok((printed, server_kills));
        }
        self.keep(round, &dir);
        let errors = fs::read_to_string(dir.join("errors.txt")).unwrap_or_default();
        let kept = dir.display();
        let again = round.command(&self.order);
        Err(format!("{printed}{errors}kept in {kept}; repeat the round with: {again}"))
    }

    /// Runs a demo to its end and kills the server meanwhile; returns whether the demo succeeded and the number of
    /// server kills.
    #[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
    fn watched(&self, demo: &mut Command, dir: &Path, round: &Round) -> Result<(bool, u64), String> {
        let mut dice = Dice(round.seed ^ 0x5e17e4);
        let mut demo = demo.spawn().map_err(|error| format!("cannot start the demo: {error}"))?;
        let mut left = round.server_kills;
        // A demo cannot start without the server; it has started once its folder has more than its two output files.
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

    /// Copies the store of a failed round into a file: the server ends with this process.
    fn keep(&self, round: &Round, dir: &Path) {
        if let Some(url) = self.ground.url(round.seed) {
            let to = format!("sqlite:{}", dir.join("copy.db").display());
            let copied = Command::new(&self.binary).args(["store", "copy", &url, &to]).status();
            println!("the store is copied to {to}: {copied:?}");
        }
    }
}

/// Runs rounds until the kills are reached or a round fails.
#[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let Some(order) = Order::parse(args) else { return Err(format!("usage: {USAGE}")) };
    let root = tree::root()?;
    cargo::run(&root, "build --quiet --release --package goldseam-cli", &[])?;
    let ground = Ground::start(order.store)?;
    let target = tree::target(&root);
    let search =
        Search { binary: target.join("release/goldseam"), folder: target.join("kill"), ground, order };
    let order = &search.order;
    let began = Instant::now();
    let mut totals = Totals::default();
    let mut seed = order.seed;
    while totals.kills < order.kills || totals.server_kills < order.server_kills {
        let round = Round::drawn(order, seed, &totals);
        let from = Instant::now();
        let (account, server_kills) = search.round(&round)?;
        totals.add(&account);
        totals.server_kills += server_kills;
        let Round { workers, runs, kills, freezes, .. } = round;
        let took = from.elapsed();
        let rate = totals.kills as f64 / began.elapsed().as_secs_f64();
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
    fn the_command_repeats_the_round() {
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
    fn rejects_invalid_arguments() {
        assert_eq!(Order::parse(&["--store", "sqlite"]), None);
        assert_eq!(Order::parse(&["--kills", "3"]), None);
        assert_eq!(Order::parse(&["--store", "sqlite", "--kills", "3", "--server-kills", "1"]), None);
        assert_eq!(Order::parse(&["--store", "tape", "--kills", "3"]), None);
        assert!(Order::parse(&["--store", "s3", "--kills", "3", "--workers", "2"]).is_some());
    }

    #[test]
    fn reads_numbers_from_a_report() {
        let account = r#"{"runs":12,"kills": 4,"recovery_ms":{"p50":9},"seconds":1.5}"#;
        assert_eq!((number(account, "runs"), number(account, "kills")), (Some(12), Some(4)));
        assert_eq!(number(account, "lost"), None);
    }
}
