//! The same random calls to a store and to the memory store must give the same results.
//!
//! Invariant: everything follows from the seed, so a printed seed reproduces a failure. Values that only the store
//! decides (`updated_at`, `changed_at`, cursors) are not compared; times are drawn without repetition, because the
//! order of equal tasks is not specified.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::lock::{Ask, Lock, Until};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LaneName, LockName, Millis, Payload, QueueName, RunId, Seq, Status, Summary, TaskId};
use goldseam_store::api::{
    Append, ClaimRequest, ClaimedTasks, Expect, LockFilter, Row, RunFilter, RunOrder, Store, TaskChange,
    TaskFilter, Written,
};
use goldseam_store::error::StoreError;
use goldseam_store::memory::MemoryStore;
use goldseam_store::splitmix::SplitMix;

use super::Fixture;
use super::make::{ALL, QUEUE, advance, advance_pool, any_task, append, at, run, summary, task, task_id};

/// Number of steps of one walk in the suite.
const STEPS: u32 = 200;
const RUNS: u64 = 4;
const TASKS: u64 = 12;

/// Compares the store with the memory store.
pub async fn it_answers_like_the_memory_store(fixture: &Fixture, seed: u64) {
    differential(fixture.shared(), seed, STEPS).await;
}

/// Drives `store`, which must be empty, and a memory store through the same `steps` random calls.
///
/// # Panics
///
/// At the first result that differs, with the seed in the message.
pub async fn differential(store: Arc<dyn Store>, seed: u64, steps: u32) {
    let model: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut real = Walker::new(store, seed);
    let mut spec = Walker::new(model, seed);
    for step in 0..steps {
        let left = real.step().await;
        let right = spec.step().await;
        assert_eq!(left, right, "seed {seed}, step {step}: the store (left) differs from the memory store");
    }
    let left = real.dump().await;
    let right = spec.dump().await;
    assert_eq!(left, right, "seed {seed}: the final store (left) differs from the memory store");
}

/// A store and the random numbers that decide its next call.
struct Walker {
    store: Arc<dyn Store>,
    dice: SplitMix,
    /// Increases with every draw of a time, so that no two are equal.
    drawn: i64,
}

impl Walker {
    fn new(store: Arc<dyn Store>, seed: u64) -> Self {
        Self { store, dice: SplitMix::new(seed), drawn: 0 }
    }

    /// Makes one call and returns it with its result as text.
    async fn step(&mut self) -> String {
        match self.dice.below(18) {
            0..=5 => self.append().await,
            6 | 7 => self.submit().await,
            8 | 9 => self.change_task().await,
            10 | 11 => self.claim().await,
            12 => self.lock().await,
            13 => self.put_row().await,
            14 => self.list_runs().await,
            15 => self.list_rowless().await,
            16 => self.list_claims().await,
            _ => self.list_tasks().await,
        }
    }

    /// Returns a time around now that was not drawn before.
    fn time(&mut self) -> Millis {
        self.drawn += 1;
        at(i64::try_from(self.dice.below(8)).unwrap() * 1_000_000 + self.drawn)
    }

    fn run(&mut self) -> RunId {
        run(&format!("r{}", self.dice.below(RUNS)))
    }

    fn task_id(&mut self) -> TaskId {
        task_id(&format!("t{}", self.dice.below(TASKS)))
    }

    fn task(&mut self) -> Task {
        let id = self.task_id();
        let base =
            if self.dice.one_in(2) { advance(self.run().as_str(), id.as_str()) } else { task(id.as_str()) };
        let queue = if self.dice.one_in(4) { "slow" } else { QUEUE };
        let task = Task {
            queue: QueueName::new(queue).unwrap(),
            lane: self.dice.one_in(3).then(|| LaneName::new("l").unwrap()),
            key: self.dice.one_in(3).then(|| format!("k{}", self.dice.below(2))),
            priority: i32::try_from(self.dice.below(3)).unwrap(),
            silence_max: self.dice.one_in(2).then(|| Duration::from_secs(2_000)),
            run_at: if self.dice.one_in(8) { Millis::NEVER } else { self.time() },
            ..base
        };
        if self.dice.one_in(8) { task.claimed("n0", at(0)) } else { task }
    }

    fn change(&mut self) -> TaskChange {
        match self.dice.below(6) {
            0 | 1 => TaskChange::Create(Box::new(self.task())),
            2 => TaskChange::Rest { task: self.task_id(), run_at: self.time() },
            3 => TaskChange::Wake { at: self.time() },
            4 => TaskChange::Cancel { task: self.task_id() },
            _ => TaskChange::Remove { task: self.task_id() },
        }
    }

    fn summary(&mut self, run: &RunId, as_of: u64) -> Summary {
        let status = Status::ALL[usize::try_from(self.dice.below(10)).unwrap()];
        // The queue time of a run is constant, because lists are ordered by it.
        let moment = run.as_str().bytes().map(i64::from).sum::<i64>() / 2;
        let recovered_at = self.dice.one_in(3).then(|| self.time());
        Summary { status, created_at: at(moment), recovered_at, ..summary(run.as_str(), as_of) }
    }

    async fn append(&mut self) -> String {
        let run = self.run();
        let end = self.store.head(&run).await.unwrap().map_or(0, |head| head.end.0);
        let after = match self.dice.below(6) {
            0 => end.saturating_sub(1 + self.dice.below(3)),
            1 => end + 1 + self.dice.below(2),
            _ => end,
        };
        let bodies: Vec<String> = (0..self.dice.below(4)).map(|_| self.dice.draw().to_string()).collect();
        let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
        let with_row = self.dice.one_in(2);
        let row = with_row.then(|| Box::new(self.summary(&run, after + bodies.len() as u64)));
        let tasks = (0..self.dice.below(4)).map(|_| self.change()).collect();
        let append = Append { row, tasks, ..append(run.as_str(), after, &bodies) };
        let before = self.version(&run).await;
        let outcome = self.store.append(append.clone()).await;
        let later = self.version(&run).await;
        assert!(later >= before, "the version of the row decreased");
        assert!(outcome.is_err() || !with_row || later > before, "the version of the row did not increase");
        format!("{append:?} -> {}", show(outcome))
    }

    async fn version(&self, run: &RunId) -> Option<u64> {
        self.store.head(run).await.unwrap().and_then(|head| head.row).map(|row| row.version())
    }

    async fn submit(&mut self) -> String {
        let task = self.task();
        let put = self.store.put_task(task.clone(), Expect::Absent).await;
        format!("submit {task:?} -> {}", show(put.map(|put| masked(put, plain_task))))
    }

    /// Applies any change to an existing task, sometimes with an old version.
    async fn change_task(&mut self) -> String {
        let id = self.task_id();
        let what = self.dice.below(6);
        let late = self.dice.one_in(5);
        let now = self.time();
        let filter = TaskFilter { id: Some(id.clone()), ..any_task() };
        let Some(task) = self.store.tasks(filter).await.unwrap().pop() else { return format!("no {id}") };
        let fence = task.fence;
        let version = task.version;
        let changed = match what {
            0 => task.completed(fence, Payload::null(), now).ok(),
            1 => task.cancelled(now).ok(),
            2 => task.released(fence, now).ok(),
            3 => Some(task.reclaimed("it was silent", 2, now)),
            4 => task.beaten(fence, now).ok(),
            _ => Some(task.returned(now, now)),
        };
        let Some(changed) = changed else { return format!("{id} refused {what}") };
        let expect = Expect::Version(version - u64::from(late));
        let put = self.store.put_task(changed, expect).await;
        format!("{what} of {id}, {expect:?} -> {}", show(put.map(|put| masked(put, plain_task))))
    }

    async fn claim(&mut self) -> String {
        let mut pools = vec![QUEUE.to_owned()];
        if self.dice.one_in(2) {
            pools.push(advance_pool());
        }
        if self.dice.one_in(3) {
            pools.push("slow".to_owned());
        }
        let kind = self.dice.one_in(4).then(|| "mail".to_owned());
        let limit = u32::try_from(self.dice.below(4)).unwrap();
        let owner = format!("n{}", self.dice.below(3));
        let claim = ClaimRequest { owner, pools, kind, limit, now: self.time() };
        let claimed = self.store.claim(claim.clone()).await.map(|ClaimedTasks { tasks, next_due }| {
            (tasks.into_iter().map(plain_task).collect::<Vec<_>>(), next_due)
        });
        format!("{claim:?} -> {}", show(claimed))
    }

    async fn lock(&mut self) -> String {
        let name = LockName::new(format!("lock{}", self.dice.below(3))).unwrap();
        let holder = format!("h{}", self.dice.below(2));
        let what = self.dice.below(4);
        let late = self.dice.one_in(5);
        let now = self.time();
        let ttl = Duration::from_secs(2_000);
        let filter = LockFilter { name: Some(name.clone()), limit: 1, ..LockFilter::default() };
        let found = self.store.locks(filter).await.unwrap().pop();
        let version = found.as_ref().map(|lock| lock.version);
        let changed = match (what, found) {
            (0, Some(lock)) => lock.clone().released(&holder, lock.fence),
            (1, Some(lock)) => lock.clone().extended(&holder, lock.fence, Until { now, ttl }).ok(),
            (2, Some(lock)) => Some(lock.cleaned("it expired", now)),
            (_, found) => {
                Lock::acquired(found, Ask { name: &name, holder: &holder, node: None, ttl }, now).ok()
            }
        };
        let Some(changed) = changed else { return format!("{name} refused {what}") };
        let expect = version.filter(|_| !late).map_or(Expect::Absent, Expect::Version);
        let put = self.store.put_lock(changed.clone(), expect).await;
        format!("{changed:?}, {expect:?} -> {}", show(put))
    }

    async fn put_row(&mut self) -> String {
        let run = self.run();
        let late = self.dice.one_in(4);
        let task = self.dice.one_in(2).then(|| self.task_id());
        let as_of = self.dice.below(9);
        let row = Row { summary: self.summary(&run, as_of), task, updated_at: Millis(0) };
        let before = self.version(&run).await;
        let expect = before.filter(|_| !late).map_or(Expect::Absent, Expect::Version);
        let put = self.store.put_row(row.clone(), expect).await;
        if matches!(put, Ok(Written::Done)) {
            assert!(self.version(&run).await > before, "the version of the row did not increase");
        }
        let put = put.map(|put| masked(put, |row| Row { updated_at: Millis(0), ..row }));
        format!("put {row:?}, late {late} -> {}", show(put))
    }

    async fn list_runs(&mut self) -> String {
        let orders = [RunOrder::Newest, RunOrder::Oldest, RunOrder::Recovered];
        let order = orders[usize::try_from(self.dice.below(3)).unwrap()];
        let statuses = Status::ALL.into_iter().filter(|_| self.dice.one_in(2)).collect();
        let limit = 1 + u32::try_from(self.dice.below(3)).unwrap();
        let mut filter = RunFilter { order, statuses, limit, ..RunFilter::default() };
        let mut text = format!("{filter:?} ->");
        loop {
            let page = self.store.runs(filter.clone()).await.unwrap();
            for row in page.items {
                text += &format!(" {}@{}", row.summary.run, row.summary.as_of);
            }
            if page.next.is_none() {
                return text;
            }
            text += " |";
            assert!(text.len() < 10_000, "the list does not end: {text}");
            filter.after = page.next;
        }
    }

    async fn list_rowless(&mut self) -> String {
        let after = self.dice.one_in(2).then(|| self.run());
        let limit = u32::try_from(self.dice.below(4)).unwrap();
        let found = self.store.rowless(after.as_ref(), limit).await;
        format!("{limit} without a row after {after:?} -> {}", show(found))
    }

    async fn list_tasks(&mut self) -> String {
        let states = [TaskState::Ready, TaskState::Claimed, TaskState::Completed, TaskState::Cancelled];
        let filter = TaskFilter {
            run: self.dice.one_in(4).then(|| self.run()),
            key: self.dice.one_in(4).then(|| format!("k{}", self.dice.below(2))),
            state: self.dice.one_in(2).then(|| states[usize::try_from(self.dice.below(4)).unwrap()]),
            owner: self.dice.one_in(4).then(|| format!("n{}", self.dice.below(3))),
            advance: self.dice.one_in(4).then(|| self.dice.one_in(2)),
            poked: self.dice.one_in(6),
            after: self.dice.one_in(3).then(|| self.task_id()),
            limit: u32::try_from(self.dice.below(8)).unwrap(),
            ..TaskFilter::default()
        };
        self.list(filter).await
    }

    /// Lists claims by holder, and open tasks.
    async fn list_claims(&mut self) -> String {
        let mut filter = TaskFilter { advance: self.dice.one_in(3).then_some(false), ..any_task() };
        match self.dice.below(5) {
            0 => filter.open = true,
            1 => filter.silent_at = Some(self.time()),
            2 => filter.quiet_since = Some(self.time()),
            3 => filter.owner_none_of = Some(vec![format!("n{}", self.dice.below(3))]),
            _ => filter.owner_prefix = Some(format!("n{}", self.dice.below(3))),
        }
        self.list(filter).await
    }

    async fn list(&self, filter: TaskFilter) -> String {
        let found = self.store.tasks(filter.clone()).await;
        let found = found.map(|tasks| tasks.into_iter().map(plain_task).collect::<Vec<_>>());
        format!("{filter:?} -> {}", show(found))
    }

    /// Returns everything in the store.
    async fn dump(&self) -> Vec<String> {
        let mut lines = vec![];
        for n in 0..RUNS {
            let run = run(&format!("r{n}"));
            for record in self.store.read(&run, Seq::ZERO, ALL).await.unwrap() {
                lines.push(format!("{run} {record:?}"));
            }
            let head = self.store.head(&run).await.unwrap();
            let row = head.as_ref().and_then(|head| head.row.as_ref()).map(|row| (&row.summary, &row.task));
            lines.push(format!("{run} {:?} {row:?}", head.as_ref().map(|head| head.end)));
        }
        for task in self.store.tasks(any_task()).await.unwrap() {
            lines.push(format!("{:?}", plain_task(task)));
        }
        for lock in self.store.locks(LockFilter { limit: ALL, ..LockFilter::default() }).await.unwrap() {
            lines.push(format!("{lock:?}"));
        }
        lines
    }
}

/// Returns a task without the values of the store's clock.
fn plain_task(task: Task) -> Task {
    Task { changed_at: Millis(0), ..task }
}

fn masked<T>(put: Written<T>, mask: fn(T) -> T) -> Written<T> {
    match put {
        Written::Done => Written::Done,
        Written::Lost(found) => Written::Lost(found.map(mask)),
    }
}

/// Returns an outcome as text; of an error, only what the contract specifies.
fn show<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(StoreError::Conflict { end }) => format!("conflict, the end is {end}"),
        Err(StoreError::Refused { code, .. }) => format!("refused: {code}"),
        Err(other) => panic!("no fault was injected: {other:?}"),
    }
}
