//! A process of its own, to be killed: it begins runs of two steps and hangs in the second, or ends those of
//! another that was killed.
//!
//! Steps leave a byte each in a file beside the store: a witness outside the engine.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use goldseam::prelude::*;
use goldseam::store::Store;
use rusqlite::Connection;

use crate::Fallible;
use crate::work::Place;

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
}

/// A worker, as the process that started it sees it. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
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
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let words = BufReader::new(child.stdout.take().ok_or("a worker without a voice")?);
        Ok(Self { child, words })
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
pub(crate) fn witnessed(url: &str) -> Fallible<(u64, u64)> {
    let path = Place::file(url);
    Ok((std::fs::metadata(witness(&path, "a"))?.len(), std::fs::metadata(witness(&path, "b"))?.len()))
}

fn witness(store: &Path, step: &str) -> PathBuf {
    store.with_extension(step)
}

/// Looks at a store from outside, through the file alone.
pub(crate) struct Onlooker(Connection);

impl Onlooker {
    pub(crate) fn open(url: &str) -> Fallible<Self> {
        let conn = Connection::open(Place::file(url))?;
        conn.busy_timeout(Duration::from_secs(5))?;
        Ok(Self(conn))
    }

    /// Runs that are not over: the append that ends a run, its last step in it, takes its task away.
    pub(crate) fn open_runs(&self) -> Fallible<u32> {
        Ok(self.0.prepare_cached("SELECT COUNT(*) FROM tasks")?.query_row([], |row| row.get(0))?)
    }

    /// Returns once there are at most `count` of them.
    pub(crate) fn wait_until_open(&self, count: u32) -> Fallible<()> {
        while self.open_runs()? > count {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Completions of a step in all logs, and the runs that have one.
    pub(crate) fn completions(&self, step: &str) -> Fallible<(u64, u64)> {
        let sql = "SELECT COUNT(*), COUNT(DISTINCT run) FROM history \
            WHERE type = 'step.completed' AND json_extract(data, '$.path') = ?1";
        let counts =
            self.0.query_row(sql, [step], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        Ok((counts.0.unsigned_abs(), counts.1.unsigned_abs()))
    }
}

/// What a worker does until it is killed: it ends by itself only if it fails.
pub(crate) async fn work(url: &str, orders: Orders) -> Fallible<Infallible> {
    let path = Place::file(url);
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
