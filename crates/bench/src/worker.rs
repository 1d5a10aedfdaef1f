//! A process of its own, to be killed: it begins runs of two steps and hangs in the second, or ends those of
//! another that was killed. Or to bear a part of a load, once it is told to.
//!
//! Steps leave a byte each in a file beside the store: a witness outside the engine.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use goldseam::prelude::*;
use goldseam::store::Store;

use crate::Fallible;
use crate::raw::Raw;
use crate::throughput::run_all;
use crate::work::Mark;

/// Starts that are on their way at once.
const IN_FLIGHT: u32 = 500;
/// Runs that a worker takes at once.
const SLOTS: u32 = 20_000;

/// What a worker is told.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Orders {
    /// Runs to begin
    #[arg(long, default_value_t = 0)]
    pub(crate) begin: u32,
    /// What their names begin with
    #[arg(long, default_value = "run")]
    pub(crate) name: String,
    /// The second step never ends here
    #[arg(long)]
    pub(crate) hang: bool,
    /// Where steps leave their witnesses
    #[arg(long)]
    pub(crate) witness: Option<PathBuf>,
    /// Runs of five steps to make whenever it is told `go`, instead of anything else
    #[arg(long)]
    pub(crate) load: Option<usize>,
}

/// A worker, as the process that started it sees it. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    ears: ChildStdin,
    words: BufReader<ChildStdout>,
}

impl Worker {
    pub(crate) fn spawn(url: &str, orders: &Orders) -> Fallible<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", "--store", url, "--name", &orders.name]);
        command.args(["--begin", &orders.begin.to_string()]);
        if orders.hang {
            command.arg("--hang");
        }
        if let Some(path) = &orders.witness {
            command.arg("--witness").arg(path);
        }
        if let Some(runs) = orders.load {
            command.args(["--load", &runs.to_string()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let words = BufReader::new(child.stdout.take().ok_or("a worker without a voice")?);
        let ears = child.stdin.take().ok_or("a worker without ears")?;
        Ok(Self { child, ears, words })
    }

    /// Says something to the worker.
    pub(crate) fn tell(&mut self, word: &str) -> Fallible<()> {
        Ok(writeln!(self.ears, "{word}")?)
    }

    /// Waits until the worker says `word`.
    pub(crate) fn wait_for(&mut self, word: &str) -> Fallible<()> {
        let mut line = String::new();
        while line.trim_end() != word {
            line.clear();
            if self.words.read_line(&mut line)? == 0 {
                return Err(format!("a worker ended before it said {word:?}").into());
            }
        }
        Ok(())
    }

    /// SIGKILL, and nothing else.
    pub(crate) fn kill(&mut self) -> Fallible<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// How often the steps `a` and `b` were executed to their end, by the witnesses.
pub(crate) fn witnessed(path: &Path) -> Fallible<(u64, u64)> {
    Ok((std::fs::metadata(witness(path, "a"))?.len(), std::fs::metadata(witness(path, "b"))?.len()))
}

fn witness(path: &Path, step: &str) -> PathBuf {
    path.with_extension(step)
}

/// Returns once at most `count` runs are open: how long after `began` each one was over that was not before.
pub(crate) async fn wait_until_open(
    raw: &mut dyn Raw,
    count: u32,
    began: Instant,
) -> Fallible<Vec<Duration>> {
    let mut times = Vec::new();
    let mut before = None;
    loop {
        let open = raw.open_runs().await?;
        let over = before.map_or(0, |before: u32| before.saturating_sub(open));
        times.extend((0..over).map(|_| began.elapsed()));
        if open <= count {
            return Ok(times);
        }
        before = Some(open);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What a worker does until it is killed: it ends by itself only if it fails.
pub(crate) async fn work(url: &str, orders: Orders) -> Fallible<Infallible> {
    if let Some(runs) = orders.load {
        return bear(url, &orders.name, runs).await;
    }
    let path = orders.witness.clone().ok_or("a worker without --witness")?;
    let append = |step: &str| File::options().create(true).append(true).open(witness(&path, step));
    let (a, b) = (Arc::new(append("a")?), Arc::new(append("b")?));
    let store = goldseam::open_store(url).await?;
    println!("open");
    let engine = Arc::new(engine(store, orders.clone(), (a, b)).await?);
    println!("up");
    for first in (0..orders.begin).step_by(IN_FLIGHT as usize) {
        let starts = (first..orders.begin.min(first + IN_FLIGHT)).map(|index| {
            let (engine, id) = (Arc::clone(&engine), format!("{}-{index}", orders.name));
            tokio::spawn(async move { engine.run("two", &id, &()).await.map(|_| ()) })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await??;
        }
    }
    std::future::pending().await
}

/// Makes so many runs whenever it is told to.
async fn bear(url: &str, name: &str, runs: usize) -> Fallible<Infallible> {
    let engine = Arc::new(crate::work::engine(url, Mark::default()).await?);
    println!("up");
    for (turn, word) in std::io::stdin().lines().enumerate() {
        if word? == "go" {
            run_all(&engine, &format!("{name}-{turn}"), runs).await?;
            println!("done");
        }
    }
    std::future::pending().await
}

async fn engine(store: Arc<dyn Store>, orders: Orders, (a, b): (Arc<File>, Arc<File>)) -> Fallible<Engine> {
    let begun = Arc::new(AtomicU32::new(0));
    let two = move |ctx: Context, (): ()| {
        let (a, b, begun, orders) = (Arc::clone(&a), Arc::clone(&b), Arc::clone(&begun), orders.clone());
        async move {
            ctx.step("a", || async { mark(&a) }).await?;
            ctx.step("b", || async {
                if orders.hang {
                    if begun.fetch_add(1, Ordering::Relaxed) + 1 == orders.begin {
                        println!("ready");
                    }
                    std::future::pending::<()>().await;
                }
                mark(&b)
            })
            .await
        }
    };
    Ok(Engine::on(store).slots(SLOTS).workflow("two", two).start().await?)
}

fn mark(mut witness: &File) -> Result<(), Error> {
    witness.write_all(b".").map_err(|error| Error::terminal(error.to_string()))
}
