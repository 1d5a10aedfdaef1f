//! One order on a store, worker processes that crash at a point, and what must hold afterwards.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use goldseam::client::By;
use goldseam::unstable::core::{Event, Recorded};
use goldseam::{Client, Limits, Path, Payload, RunId, Status};
use goldseam_store_object::testing::fresh_prefix;
use goldseam_store_postgres::testing::Schema;
use goldseam_testbed::seaweedfs;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;

use crate::support::{Guarded, Place, Ran, eventually};

/// `all`: every store; else SQLite only.
const STORES: &str = "GOLDSEAM_CRASH_STORES";
/// The variable that names the point.
pub(crate) const POINT: &str = "GOLDSEAM_CRASH_POINT";
/// The run of most stories.
pub(crate) const RUN: &str = "r";
/// The steps of a shipped order.
const STEPS: [&str; 5] = ["charge", "pick:lamp", "pick:rope", "reserve", "ship"];

/// One line of the witness.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) ended: bool,
    pub(crate) run: String,
    pub(crate) path: String,
    pub(crate) key: String,
}

/// What was complete at the time of a crash.
#[derive(Debug)]
pub(crate) struct Moment {
    /// Completed steps and compensations, by run.
    done: BTreeMap<String, BTreeSet<String>>,
    /// The number of lines in the witness.
    lines: usize,
}

/// A store with a run.
pub(crate) struct Story {
    pub(crate) place: Place,
    pub(crate) client: Client,
    runtime: Runtime,
    /// The answer to the question of an order.
    answer: Cell<&'static str>,
    kind: Kind,
}

/// The kind of a store.
enum Kind {
    File,
    Database(Schema),
    Bucket,
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::File => "sqlite",
            Self::Database(_) => "postgres",
            Self::Bucket => "s3",
        }
    }
}

/// Runs a test on every selected store, once for each point, in parallel.
pub(crate) fn each(points: &[&str], test: impl Fn(&Story, &str) + Sync) {
    each_of(stories, points, test);
}

/// Like [`each`], on stores with migrations; a bucket has none.
pub(crate) fn each_database(points: &[&str], test: impl Fn(&Story, &str) + Sync) {
    let databases = || stories().into_iter().filter(|story| !matches!(story.kind, Kind::Bucket)).collect();
    each_of(databases, points, test);
}

fn each_of(stories: impl Fn() -> Vec<Story>, points: &[&str], test: impl Fn(&Story, &str) + Sync) {
    std::thread::scope(|scope| {
        for point in points {
            for story in stories() {
                let test = &test;
                scope.spawn(move || {
                    test(&story, point);
                    survived(point, story.kind.name());
                });
            }
        }
    });
}

/// Prints the line that `cargo xtask crash` counts.
#[expect(clippy::print_stdout, reason = "`cargo xtask crash` counts these lines")]
pub(crate) fn survived(point: &str, store: &str) {
    println!("crash: {store} {point}");
}

/// Whether the long version is selected.
pub(crate) fn is_all() -> bool {
    std::env::var(STORES).is_ok_and(|stores| stores == "all")
}

fn stories() -> Vec<Story> {
    let mut stories = vec![Story::on_sqlite()];
    if is_all() {
        let schema = Schema::fresh();
        stories.push(Story::on(schema.url(), Kind::Database(schema)));
        stories.push(Story::in_bucket(free_prefix()));
    }
    stories
}

/// A fresh prefix of the shared bucket.
fn free_prefix() -> String {
    format!("{}&requests=free", seaweedfs::shared().unwrap().url(&fresh_prefix()))
}

impl Story {
    pub(crate) fn on_sqlite() -> Self {
        let mut place = Place::new();
        let url = place.url();
        place.store = Some(url.clone());
        Self::at(place, &url, Kind::File)
    }

    pub(crate) fn in_bucket(url: String) -> Self {
        Self::on(url, Kind::Bucket)
    }

    fn on(url: String, kind: Kind) -> Self {
        Self::at(Place::with_store(url.clone()), &url, kind)
    }

    fn at(place: Place, url: &str, kind: Kind) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = runtime.block_on(goldseam::open_store(url)).unwrap();
        Self { place, client: Client::new(store), runtime, answer: Cell::new("ship"), kind }
    }

    pub(crate) fn block<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    pub(crate) fn order(&self, step_ms: u64) -> String {
        format!(r#"{{"customer":"ana","lines":["lamp","rope"],"cents":500,"step_ms":{step_ms}}}"#)
    }

    /// Declines orders.
    pub(crate) fn declines(&self) {
        self.answer.set("decline");
    }

    /// Answers no questions; the test answers them.
    pub(crate) fn stays_silent(&self) {
        self.answer.set("");
    }

    /// The URL of a store of the same kind that does not exist yet.
    pub(crate) fn fresh_store(&self) -> String {
        match &self.kind {
            Kind::File => "sqlite:fresh.db".to_owned(),
            Kind::Database(schema) => schema.url().replace("schema=", "schema=m"),
            Kind::Bucket => free_prefix(),
        }
    }

    /// Starts the run.
    pub(crate) fn begin(&self) {
        self.begin_as(RUN, 5);
    }

    pub(crate) fn begin_as(&self, run: &str, step_ms: u64) {
        self.place.run(&["start", "order", "--id", run, "--input", &self.order(step_ms)]).ok();
    }

    pub(crate) fn worker_command(&self) -> Command {
        let witness = self.place.path("witness.tsv").display().to_string();
        let mut command = self.place.command(&["demo-worker", "--silence", "500ms", "--witness", &witness]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts a worker.
    pub(crate) fn worker(&self) -> Guarded {
        Guarded(self.worker_command().spawn().unwrap())
    }

    /// Starts a worker that crashes at this point.
    pub(crate) fn doomed(&self, point: &str) -> Guarded {
        Guarded(self.worker_command().env(POINT, point).spawn().unwrap())
    }

    /// Runs a worker until it crashes at this point, and returns what was complete then.
    pub(crate) fn dies_at(&self, point: &str) -> Moment {
        let mut worker = self.doomed(point);
        self.death(&mut worker.0, point);
        self.moment()
    }

    /// Waits until a process crashes. Fails if the point is never reached.
    pub(crate) fn death(&self, child: &mut Child, point: &str) {
        let status: ExitStatus = eventually(&format!("the worker dies at {point}"), || {
            self.answer_all();
            child.try_wait().unwrap()
        });
        assert_eq!(status.signal(), Some(9), "{point}: {status}");
    }

    /// Runs a command that crashes at this point.
    pub(crate) fn command_dies(&self, args: &[&str], point: &str) {
        let output = self.place.command(args).env(POINT, point).output().unwrap();
        let ran = Ran::of(&output);
        assert_eq!(output.status.signal(), Some(9), "{point}: {} {}", ran.out, ran.err);
    }

    pub(crate) fn kill(&self, child: &mut Child, signal: Signal) {
        kill_process(Pid::from_child(child), signal).unwrap();
        if signal == Signal::KILL {
            child.wait().unwrap();
        }
    }

    pub(crate) fn witnessed(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(self.place.path("witness.tsv")).unwrap_or_default();
        let parse = |line: &str| {
            let parts: Vec<&str> = line.split('\t').collect();
            let [run, path, key] = [1, 2, 4].map(|at: usize| parts[at].to_owned());
            Line { ended: parts[0] == "end", run, path, key }
        };
        text.lines().map(parse).collect()
    }

    pub(crate) fn begins(&self, path: &str) -> usize {
        self.witnessed().iter().filter(|line| !line.ended && line.path == path).count()
    }

    pub(crate) fn history(&self, run: &str) -> Vec<Recorded> {
        self.block(self.client.history(&RunId::new(run).unwrap())).unwrap_or_default()
    }

    pub(crate) fn count(&self, run: &str, name: &str) -> usize {
        self.history(run).iter().filter(|recorded| recorded.event.name() == name).count()
    }

    fn runs(&self) -> Vec<goldseam::Summary> {
        let filter = goldseam::unstable::store::RunFilter { limit: 100, ..Default::default() };
        let page = self.block(self.client.list(filter)).unwrap();
        page.items.into_iter().map(|row| row.summary).collect()
    }

    /// Answers every open question.
    pub(crate) fn answer_all(&self) {
        for run in self.runs() {
            if run.inputs.is_empty() || run.status.is_terminal() || self.answer.get().is_empty() {
                continue;
            }
            let answer = Payload::of(self.answer.get(), &Limits::default()).unwrap();
            let by = By { who: None, reason: String::new(), id: Some(format!("answer-{}", run.run)) };
            let question = Path::new("release").unwrap();
            // The question may already be answered.
            let _ = self.block(self.client.answer(&run.run, &question, answer, by));
        }
    }

    pub(crate) fn moment(&self) -> Moment {
        let done = self.runs().into_iter().map(|run| {
            let run = run.run.as_str();
            (run.to_owned(), completed(&self.history(run)).into_iter().collect())
        });
        Moment { done: done.collect(), lines: self.witnessed().len() }
    }

    /// Waits until every run has ended.
    pub(crate) fn all_end(&self) {
        eventually("every run ends", || {
            self.answer_all();
            let runs = self.runs();
            (!runs.is_empty() && runs.iter().all(|run| run.status.is_terminal())).then_some(())
        });
    }

    /// Lets another worker complete every run, and checks that nothing complete at that time is repeated.
    pub(crate) fn goes_on_after(&self, moment: &Moment) {
        let worker = self.worker();
        self.all_end();
        drop(worker);
        self.is_well_after(moment);
    }

    /// Checks that nothing is lost or repeated.
    pub(crate) fn is_well_after(&self, moment: &Moment) {
        let lines = self.witnessed();
        for line in lines.iter().skip(moment.lines).filter(|line| !line.ended) {
            let done = moment.done.get(&line.run).is_some_and(|done| done.contains(&line.path));
            assert!(!done, "{} was complete, and began again", line.path);
        }
        for line in &lines {
            let first =
                lines.iter().find(|other| (&other.run, &other.path) == (&line.run, &line.path)).unwrap();
            assert_eq!(first.key, line.key, "{} has one key for all its attempts", line.path);
        }
        for run in self.runs() {
            self.is_whole(run.run.as_str(), run.status, moment);
        }
    }

    fn is_whole(&self, run: &str, status: Status, moment: &Moment) {
        let history = self.history(run);
        let done = completed(&history);
        let mut sorted = done.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), done.len(), "{done:?}: each is complete once");
        assert!(moment.done.get(run).is_none_or(|before| before.iter().all(|path| done.contains(path))));
        let ends = history.iter().filter(|recorded| recorded.event.is_terminal()).count();
        assert_eq!(ends, 1, "{run} ends once");
        match self.answer.get() {
            "decline" => {
                assert_eq!(status, Status::Failed);
                let undone: Vec<&String> = done.iter().filter(|path| path.starts_with("undo/")).collect();
                assert_eq!(undone, ["undo/charge", "undo/reserve"], "in reverse order");
            }
            _ => {
                assert_eq!(status, Status::Completed);
                assert_eq!(sorted, STEPS);
            }
        }
    }
}

/// The completed steps and compensations of a log, in order.
fn completed(history: &[Recorded]) -> Vec<String> {
    let path = |recorded: &Recorded| match &recorded.event {
        Event::StepCompleted(step) => Some(step.path.to_string()),
        Event::CompensationCompleted { path } => Some(format!("undo/{path}")),
        _ => None,
    };
    history.iter().filter_map(path).collect()
}
