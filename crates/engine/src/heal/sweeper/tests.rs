use super::super::sample::{started, wait_until};
use super::*;
use crate::ledger::config::Config;
use crate::ledger::liveness::Thresholds;

#[test]
fn every_fate_has_a_name() {
    let fates = [
        Fate::Healed,
        Fate::Young,
        Fate::Reported,
        Fate::Moved,
        Fate::NeedsHelp,
        Fate::Waits,
        Fate::Stopped,
        Fate::Failed(String::new()),
    ];
    let words = fates.each_ref().map(Fate::as_str);
    assert_eq!(words, ["healed", "young", "told", "moved", "needs_help", "waits", "stopped", "failed"]);
}

#[test]
fn reports_of_ticks_add_up() {
    let foreign = |n: u64| ForeignReport {
        scanned: n,
        skipped: n + 1,
        healthy: n + 2,
        healed: n + 3,
        stalled: Vec::new(),
        unnamed: vec![n.to_string()],
    };
    let tick = |n: u64, more| SweepReport {
        scanned: n,
        terminal: n + 1,
        healthy: n + 2,
        healed: n + 3,
        rows_rewritten: n + 4,
        stalled: Vec::new(),
        foreign: Some(foreign(n)),
        more,
    };
    let mut report = SweepReport { more: true, ..SweepReport::default() };
    report.add(SweepReport { foreign: None, ..tick(3, true) });
    assert_eq!(report, SweepReport { foreign: None, ..tick(3, true) });
    report.add(tick(5, true));
    report.add(tick(6, false));
    let stalled = Vec::new();
    let unnamed = vec!["5".to_owned(), "6".to_owned()];
    let foreign = ForeignReport { scanned: 11, skipped: 13, healthy: 15, healed: 17, stalled, unnamed };
    let sum = SweepReport {
        scanned: 14,
        terminal: 17,
        healthy: 20,
        healed: 23,
        rows_rewritten: 26,
        stalled: Vec::new(),
        foreign: Some(foreign),
        more: false,
    };
    assert_eq!(report, sum);
}

#[tokio::test]
async fn fingerprint_changes_with_row_and_task() {
    let (row, task) = started().await;
    let mut later = row.clone();
    later.updated_at = later.updated_at + Duration::from_millis(1);
    let mut longer = row.clone();
    longer.summary.as_of = longer.summary.as_of.next();
    let other = Task { version: task.version + 1, ..task.clone() };
    let marks = [
        fingerprint(&row, Some(&task)),
        fingerprint(&row, None),
        fingerprint(&row, Some(&other)),
        fingerprint(&later, Some(&task)),
        fingerprint(&longer, Some(&task)),
    ];
    let different: std::collections::HashSet<u64> = marks.into_iter().collect();
    assert_eq!((different.len(), fingerprint(&row, Some(&task))), (5, marks[0]));
    assert_ne!(key(&RunId::new("r").unwrap()), key(&RunId::new("s").unwrap()));
}

#[tokio::test]
async fn unchanged_run_is_quiet_until_time_can_have_stalled_it() {
    let (row, task) = started().await;
    let nodes = Vec::new();
    let thresholds = Thresholds::of(&Config::default());
    let liveness = Liveness { nodes, now: Millis(100), thresholds };
    let quiet = |due: Option<i64>, state: TaskState, run_at: i64| {
        let mut row = row.clone();
        row.summary.waits = due.into_iter().map(wait_until).collect();
        let owner = Some("unknown-node".to_owned());
        is_quiet(&row, &Task { state, run_at: Millis(run_at), owner, ..task.clone() }, &liveness)
    };
    let ready = TaskState::Ready;
    for (due, run_at, expected) in [
        (None, 500, true),
        (Some(101), 500, true),
        (Some(100), 500, false),
        (Some(99), 500, false),
        (Some(99), 101, false),
        // Claimable, but no live node has its version.
        (Some(99), 100, false),
        (None, 99, false),
    ] {
        assert_eq!(quiet(due, ready, run_at), expected, "{due:?} {run_at}");
    }
    for state in
        [TaskState::Claimed, TaskState::Completed, TaskState::Failed, TaskState::Cancelled, TaskState::Dead]
    {
        assert!(!quiet(None, state, 0), "{state:?}");
    }
}
