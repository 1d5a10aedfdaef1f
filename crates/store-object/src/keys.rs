//! Every key of the bucket is made here, from checked ids and numbers only.
//!
//! ```text
//! workflow/{run}/log/{batch}              the log: dense numbers, written once
//! workflow/{run}/state.json               the cached row
//! task/{id}  lock/{name}  lane/{name}  key/{hash}  node/{id}
//! active/{created}.{after}.{run}          an active run, which became active after position `after`
//! runs/{created, backwards}.{run}         every run, the newest first
//! recovered/{recovered, backwards}.{run}  every recovered run
//! now/ready.{run_at}…  later/{run_at}…    ready tasks
//! now/poke.{owner}…                       poked tasks
//! feed/{page}                             the feed of all appends: dense numbers, written once
//! feed-ends/{page, backwards}             where each log ends in the feed, at a page
//! audit/{at, backwards}…                  every heal of a task or a lock
//! ```
//!
//! The folders from `active/` to `now/` hold markers: empty objects whose names say everything, found by listing. Markers are hints;
//! a reader looks up what they say before it acts. Their folders are flat: some servers store folders as objects, and
//! cannot list from the middle of one.

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Hash, LaneName, LockName, Millis, NodeId, RunId, Seq, TaskId};

/// A task that is due later than this from now is not listed with every claim.
const SOON_MS: i64 = 60_000;
/// The largest moment that fits into 13 digits: the year 2286.
const LAST_MOMENT: i64 = 9_999_999_999_999;
/// The lane part of a marker whose task has no lane; not a valid lane name.
const NO_LANE: &str = "-";

pub(crate) const WORKFLOWS: &str = "workflow/";
pub(crate) const TASKS: &str = "task/";
pub(crate) const LOCKS: &str = "lock/";
pub(crate) const NODES: &str = "node/";
pub(crate) const ACTIVE: &str = "active/";
pub(crate) const RUNS: &str = "runs/";
pub(crate) const RECOVERED: &str = "recovered/";
pub(crate) const NOW: &str = "now/";
pub(crate) const LATER: &str = "later/";
pub(crate) const AUDIT: &str = "audit/";
pub(crate) const FEED_ENDS: &str = "feed-ends/";

const READY: &str = "now/ready.";
const POKES: &str = "now/poke.";
const STATE: &str = "state.json";

pub(crate) fn batch(run: &RunId, batch: u64) -> String {
    format!("{WORKFLOWS}{run}/log/{batch:010}")
}

pub(crate) fn log(run: &RunId) -> String {
    format!("{WORKFLOWS}{run}/log/")
}

pub(crate) fn state(run: &RunId) -> String {
    format!("{WORKFLOWS}{run}/{STATE}")
}

pub(crate) fn task(id: &TaskId) -> String {
    format!("{TASKS}{id}")
}

pub(crate) fn lock(name: &LockName) -> String {
    format!("{LOCKS}{name}")
}

pub(crate) fn lane(name: &LaneName) -> String {
    format!("lane/{name}")
}

/// An idempotency key may be any text.
pub(crate) fn key(key: &str) -> String {
    format!("key/{}", Hash::of_parts(&["key", key]))
}

/// A page of the feed.
pub(crate) fn feed_page(number: u64) -> String {
    format!("feed/{number:010}")
}

/// A checkpoint of the feed; the latest is listed first.
pub(crate) fn feed_ends(page: u64) -> String {
    format!("{FEED_ENDS}{:010}", 9_999_999_999 - page.min(9_999_999_999))
}

/// An entry of the audit, by its place.
pub(crate) fn audit(place: &str) -> String {
    format!("{AUDIT}{place}")
}

pub(crate) fn node(id: &NodeId) -> String {
    format!("{NODES}{id}")
}

/// The part of a run that a key under [`WORKFLOWS`] belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A batch of the log.
    Batch(u64),
    /// The cached row.
    State,
}

/// Parses a key under [`WORKFLOWS`]; none if it is not one of ours.
pub(crate) fn run_part(key: &str) -> Option<(RunId, Part)> {
    let (run, rest) = key.strip_prefix(WORKFLOWS)?.split_once('/')?;
    let run = RunId::new(run).ok()?;
    match rest.strip_prefix("log/") {
        Some(batch) => Some((run, Part::Batch(batch.parse().ok()?))),
        None => (rest == STATE).then_some((run, Part::State)),
    }
}

/// The run in whose folder under [`WORKFLOWS`] a key lies, even if the key is not one of ours.
pub(crate) fn run_of(key: &str) -> Option<RunId> {
    let (run, _) = key.strip_prefix(WORKFLOWS)?.split_once('/')?;
    RunId::new(run).ok()
}

/// The name of a state under [`WORKFLOWS`], if it is not a valid run id.
pub(crate) fn invalid_run_name(key: &str) -> Option<String> {
    let name = key.strip_prefix(WORKFLOWS)?.strip_suffix(STATE)?.strip_suffix('/')?;
    RunId::new(name).is_err().then(|| name.to_owned())
}

fn moment(at: Millis) -> i64 {
    at.0.clamp(0, LAST_MOMENT)
}

/// Marks an active run. A process that ends the run at a position after `after` may remove the marker: a reactivated
/// run has another marker, which names a position behind that end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveMarker {
    pub(crate) created: Millis,
    pub(crate) run: RunId,
    pub(crate) after: Seq,
}

impl ActiveMarker {
    pub(crate) fn key(&self) -> String {
        format!("{}.{:013}.{}", Self::prefix_at(self.created), self.after.0, self.run)
    }

    /// A prefix that sorts before all markers of a moment.
    pub(crate) fn prefix_at(created: Millis) -> String {
        format!("{ACTIVE}{:013}", moment(created))
    }

    pub(crate) fn parse(key: &str) -> Option<Self> {
        let (created, rest) = key.strip_prefix(ACTIVE)?.split_once('.')?;
        let (after, run) = rest.split_once('.')?;
        let created = Millis(created.parse().ok()?);
        Some(Self { created, run: RunId::new(run).ok()?, after: Seq(after.parse().ok()?) })
    }
}

/// Marks a run in a list that begins with the latest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunMarker {
    pub(crate) at: Millis,
    pub(crate) run: RunId,
}

impl RunMarker {
    pub(crate) fn key(&self, folder: &str) -> String {
        format!("{}.{}", Self::prefix_at(folder, self.at), self.run)
    }

    /// A prefix that sorts before all markers of a moment.
    pub(crate) fn prefix_at(folder: &str, at: Millis) -> String {
        format!("{folder}{:013}", LAST_MOMENT - moment(at))
    }

    pub(crate) fn parse(folder: &str, key: &str) -> Option<Self> {
        let (at, run) = key.strip_prefix(folder)?.split_once('.')?;
        let at = Millis(LAST_MOMENT - at.parse::<i64>().ok()?);
        Some(Self { at, run: RunId::new(run).ok()? })
    }
}

/// Marks a task. A marker with an earlier version than its task is stale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskMarker {
    Ready(ReadyMarker),
    Poke {
        /// Hash of the owner's name.
        owner: String,
        version: u64,
        task: TaskId,
    },
}

/// Marks a ready task, due now or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadyMarker {
    pub(crate) run_at: Millis,
    pub(crate) priority: i32,
    pub(crate) version: u64,
    pub(crate) pool_hash: String,
    pub(crate) kind_hash: String,
    pub(crate) lane: Option<LaneName>,
    pub(crate) task: TaskId,
}

impl TaskMarker {
    /// The marker that this task needs. A dormant task needs none.
    pub(crate) fn of(task: &Task) -> Option<Self> {
        match task.state {
            TaskState::Ready if task.run_at < Millis::NEVER => Some(Self::Ready(ReadyMarker {
                run_at: Millis(moment(task.run_at)),
                priority: task.priority,
                version: task.version,
                pool_hash: short_hash("pool", &task.pool()),
                kind_hash: short_hash("kind", &task.kind),
                lane: task.lane.clone(),
                task: task.id.clone(),
            })),
            TaskState::Claimed if task.poked => Some(Self::Poke {
                owner: owner(task.owner.as_deref().unwrap_or_default()),
                version: task.version,
                task: task.id.clone(),
            }),
            _ => None,
        }
    }

    /// All keys that it may have; which one it has depends on when it was written.
    pub(crate) fn keys(&self) -> Vec<String> {
        match self {
            Self::Ready(_) => vec![self.key_in(NOW), self.key_in(LATER)],
            Self::Poke { .. } => vec![self.key_in(NOW)],
        }
    }

    /// The key under which to write it now.
    pub(crate) fn key(&self, now: Millis) -> String {
        match self {
            Self::Ready(ready) if ready.run_at.0 > now.0.saturating_add(SOON_MS) => self.key_in(LATER),
            _ => self.key_in(NOW),
        }
    }

    fn key_in(&self, folder: &str) -> String {
        match self {
            Self::Poke { owner, version, task } => format!("{POKES}{owner}.{version}.{task}"),
            Self::Ready(ReadyMarker { run_at, priority, version, pool_hash, kind_hash, lane, task }) => {
                let folder = if folder == NOW { READY } else { LATER };
                let lane = lane.as_ref().map_or(NO_LANE, |lane| lane.as_str());
                let priority = i64::from(*priority) - i64::from(i32::MIN);
                format!(
                    "{folder}{:013}.{priority:010}.{version}.{pool_hash}.{kind_hash}.{lane}={task}",
                    run_at.0
                )
            }
        }
    }

    pub(crate) fn parse(key: &str) -> Option<Self> {
        if let Some(rest) = key.strip_prefix(POKES) {
            let mut parts = rest.splitn(3, '.');
            let owner = parts.next()?.to_owned();
            let version = parts.next()?.parse().ok()?;
            return Some(Self::Poke { owner, version, task: TaskId::new(parts.next()?).ok()? });
        }
        let rest = key.strip_prefix(READY).or_else(|| key.strip_prefix(LATER))?;
        let mut parts = rest.splitn(6, '.');
        let run_at = Millis(parts.next()?.parse().ok()?);
        let priority = i32::try_from(parts.next()?.parse::<i64>().ok()? + i64::from(i32::MIN)).ok()?;
        let version = parts.next()?.parse().ok()?;
        let pool_hash = parts.next()?.to_owned();
        let kind_hash = parts.next()?.to_owned();
        let (lane, task) = parts.next()?.split_once('=')?;
        let lane = match lane {
            NO_LANE => None,
            lane => Some(LaneName::new(lane).ok()?),
        };
        let task = TaskId::new(task).ok()?;
        Some(Self::Ready(ReadyMarker { run_at, priority, version, pool_hash, kind_hash, lane, task }))
    }
}

/// The hash of an owner's name in a marker: the name may be any text.
pub(crate) fn owner(name: &str) -> String {
    short_hash("owner", name)
}

pub(crate) fn short_hash(what: &str, text: &str) -> String {
    format!("{:016x}", Hash::of_parts(&[what, text]).leading())
}

#[cfg(test)]
mod tests {
    use goldseam_core::task::NewTask;
    use goldseam_core::{Payload, QueueName};

    use super::*;

    fn task(run_at: i64, lane: Option<&str>) -> Task {
        let new = NewTask {
            id: TaskId::new("t.1_x-y").unwrap(),
            kind: "any kind / at all".to_owned(),
            queue: QueueName::new("default").unwrap(),
            lane: lane.map(|lane| LaneName::new(lane).unwrap()),
            priority: -7,
            key: None,
            run_at: Millis(run_at),
            payload: Payload::null(),
            attempts_max: 1,
            silence_max: None,
        };
        new.into_task(Millis(5))
    }

    #[test]
    fn a_marker_survives_its_key() {
        for task in [task(77, None), task(1_700_000_000_000, Some("l.1"))] {
            let marker = TaskMarker::of(&task).unwrap();
            for key in marker.keys() {
                assert_eq!(TaskMarker::parse(&key).as_ref(), Some(&marker), "{key}");
            }
        }
        let poked = Task { poked: true, ..task(1, None).claimed("any owner / here", Millis(9)) };
        let marker = TaskMarker::of(&poked).unwrap();
        assert_eq!(TaskMarker::parse(&marker.key(Millis(9))), Some(marker));
        assert_eq!(TaskMarker::of(&task(i64::MAX, None)), None);
    }

    #[test]
    fn tasks_due_later_have_a_folder_of_their_own() {
        let marker = TaskMarker::of(&task(100_000, None)).unwrap();
        assert!(marker.key(Millis(0)).starts_with(LATER));
        assert!(marker.key(Millis(50_000)).starts_with(NOW));
    }

    #[test]
    fn run_markers_sort_the_latest_first() {
        let run = RunId::new("r").unwrap();
        let marker = |at| RunMarker { at: Millis(at), run: run.clone() };
        assert!(marker(2_000).key(RUNS) < marker(1_999).key(RUNS));
        assert_eq!(RunMarker::parse(RUNS, &marker(7).key(RUNS)), Some(marker(7)));
        let active = ActiveMarker { created: Millis(7), run: run.clone(), after: Seq(12) };
        assert_eq!(ActiveMarker::parse(&active.key()), Some(active));
        assert_eq!(run_part(&batch(&run, 12)), Some((run.clone(), Part::Batch(12))));
        assert_eq!(run_part(&state(&run)), Some((run, Part::State)));
        assert_eq!(run_part("workflow/../state.json"), None);
    }
}
