//! A worker process that benchmarks kill: it begins runs of two steps and hangs in the second one, or completes the
//! runs of a killed process. Or a worker that executes a part of a load on command.
//!
//! Each step appends a byte to a file outside the store, which counts the effects.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use goldseam::prelude::*;
use goldseam::unstable::store::Store;

use crate::Fallible;
use crate::raw::Raw;
use crate::throughput::run_all;
use crate::work::FirstStep;

/// Number of concurrent starts.
const IN_FLIGHT: u32 = 500;
/// Number of runs in memory.
const SLOTS: u32 = 20_000;

/// The arguments of a worker.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct BenchWorkerArgs {
    /// Number of runs to begin
    #[arg(long, default_value_t = 0)]
    pub(crate) begin: u32,
    /// Prefix of their ids
    #[arg(long, default_value = "run")]
    pub(crate) name: String,
    /// Never end the second step
    #[arg(long)]
    pub(crate) hang: bool,
    /// File in which steps count their effects
    #[arg(long)]
    pub(crate) witness: Option<PathBuf>,
    /// Execute this many runs of five steps for each `go` on stdin
    #[arg(long)]
    pub(crate) load: Option<usize>,
}

/// A worker process, killed on drop.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl WorkerProcess {
    pub(crate) fn spawn(url: &str, args: &BenchWorkerArgs) -> Fallible<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", "--store", url, "--name", &args.name]);
        command.args(["--begin", &args.begin.to_string()]);
        if args.hang {
            command.arg("--hang");
        }
        if let Some(path) = &args.witness {
            command.arg("--witness").arg(path);
        }
        if let Some(runs) = args.load {
            command.args(["--load", &runs.to_string()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = BufReader::new(child.stdout.take().ok_or("the worker has no stdout")?);
        let stdin = child.stdin.take().ok_or("the worker has no stdin")?;
        Ok(Self { child, stdin, stdout })
    }

    /// Sends a line to the worker.
    pub(crate) fn send(&mut self, word: &str) -> Fallible<()> {
        Ok(writeln!(self.stdin, "{word}")?)
    }

    /// Waits until the worker prints `word`.
    pub(crate) fn wait_for(&mut self, word: &str) -> Fallible<()> {
        let mut line = String::new();
        while line.trim_end() != word {
            line.clear();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err(format!("a worker exited before it printed {word:?}").into());
            }
        }
        Ok(())
    }

    /// Kills the worker with SIGKILL.
    pub(crate) fn kill(&mut self) -> Fallible<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Returns how often the steps `a` and `b` were executed, by the effect files.
pub(crate) fn count_effects(path: &Path) -> Fallible<(u64, u64)> {
    Ok((std::fs::metadata(witness(path, "a"))?.len(), std::fs::metadata(witness(path, "b"))?.len()))
}

fn witness(path: &Path, step: &str) -> PathBuf {
    path.with_extension(step)
}

/// Waits until at most `count` runs are open; returns the time after `began` at which each run ended.
pub(crate) async fn wait_until_open(
    raw: &mut dyn Raw,
    count: u32,
    began: Instant,
) -> Fallible<Vec<Duration>> {
    let mut times = Vec::new();
    let mut before = None;
    loop {
        let open = raw.open_runs().await?;
        let ended = before.map_or(0, |before: u32| before.saturating_sub(open));
        times.extend((0..ended).map(|_| began.elapsed()));
        if open <= count {
            return Ok(times);
        }
        before = Some(open);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Runs a worker until it is killed or fails.
pub(crate) async fn work(url: &str, args: BenchWorkerArgs) -> Fallible<Infallible> {
    if let Some(runs) = args.load {
        return serve_load(url, &args.name, runs).await;
    }
    let path = args.witness.clone().ok_or("a worker needs --witness")?;
    let append = |step: &str| File::options().create(true).append(true).open(witness(&path, step));
    let files = EffectFiles { a: Arc::new(append("a")?), b: Arc::new(append("b")?) };
    let store = goldseam::open_store(url).await?;
    println!("open");
    let engine = Arc::new(engine(store, args.clone(), files).await?);
    println!("up");
    for first in (0..args.begin).step_by(IN_FLIGHT as usize) {
        let starts = (first..args.begin.min(first + IN_FLIGHT)).map(|index| {
            let engine = Arc::clone(&engine);
            let id = format!("{}-{index}", args.name);
            tokio::spawn(async move { engine.start("two", &id, &()).await.map(|_| ()) })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await??;
        }
    }
    std::future::pending().await
}

/// Executes this many runs for each `go` on stdin.
async fn serve_load(url: &str, name: &str, runs: usize) -> Fallible<Infallible> {
    let engine = Arc::new(crate::work::engine(url, FirstStep::default()).await?);
    println!("up");
    for (turn, word) in std::io::stdin().lines().enumerate() {
        if word? == "go" {
            run_all(&engine, &format!("{name}-{turn}"), runs).await?;
            println!("done");
        }
    }
    std::future::pending().await
}

/// The files that count the effects of the steps `a` and `b`.
#[derive(Clone)]
struct EffectFiles {
    a: Arc<File>,
    b: Arc<File>,
}

async fn engine(store: Arc<dyn Store>, args: BenchWorkerArgs, files: EffectFiles) -> Fallible<Engine> {
    let begun = Arc::new(AtomicU32::new(0));
    let two = move |ctx: Context, (): ()| {
        let EffectFiles { a, b } = files.clone();
        let begun = Arc::clone(&begun);
        let args = args.clone();
        async move {
            ctx.step("a", || async { count_effect(&a) }).await?;
            ctx.step("b", || async {
                if args.hang {
                    if begun.fetch_add(1, Ordering::Relaxed) + 1 == args.begin {
                        println!("ready");
                    }
                    std::future::pending::<()>().await;
                }
                count_effect(&b)
            })
            .await
        }
    };
    Ok(Engine::on(store).slots(SLOTS).workflow("two", two).start().await?)
}

fn count_effect(mut witness: &File) -> Result<(), Error> {
    witness.write_all(b".").map_err(|error| Error::terminal(error.to_string()))
}
