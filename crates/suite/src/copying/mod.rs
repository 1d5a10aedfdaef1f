//! Copying between every two stores: what is copied, what continues, what is refused, and the effect of faults.
//!
//! Like [`healing!`](crate::healing!), [`copying!`](crate::copying!) has the only list of cases. Each gets a fresh
//! source and a fresh destination, both on a real clock.

mod contents;
pub mod faults;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Event, Path, Seq, Status, TaskId};

use self::contents::{
    Contents, GHOST, RunSeen, beside, contents, copier, engine, fill, gone, kid, merger, payload,
};
use super::Fixture;
use super::harness::{Harness, id};
use goldseam_admin::copy::{Copier, CopyReport, Role, mark_of, reopen};
use goldseam_engine::EngineError;
use goldseam_engine::client::By;
use goldseam_engine::client::queue::Want;

/// Creates one test per case; the arguments are two `async fn() -> Fixture`.
#[macro_export]
macro_rules! copying {
    ($from:path, $to:path) => {
        $crate::copying! { @each $from, $to;
            everything_is_copied_unchanged,
            active_runs_continue_and_end_once,
            a_repeat_changes_nothing,
            a_store_in_use_is_not_copied,
            node_refuses_to_start_on_a_closed_store,
            nonempty_destination_is_refused,
            records_with_the_same_name_are_left_behind,
            dry_run_predicts_everything_and_writes_nothing,
            a_long_log_is_copied_in_pieces,
            changes_between_two_copies_are_copied,
            concurrent_copies_copy_once,
            filled_store_can_be_copied_again,
            a_store_is_not_copied_onto_itself,
        }
    };
    (@each $from:path, $to:path; $($case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let from = $from().await;
                let to = $to().await;
                $crate::in_time($crate::copying::$case(&from, &to)).await;
            }
        )+
    };
}

async fn copied(here: &Harness<'_>, there: &Harness<'_>) -> CopyReport {
    let report = copier(here, there).copy().await.unwrap();
    assert!(report.finished && report.is_verified(), "{report:#?}");
    report
}

fn code<T: std::fmt::Debug>(answer: Result<T, EngineError>) -> &'static str {
    answer.unwrap_err().code()
}

fn find<'a>(contents: &'a Contents, run: &str) -> &'a RunSeen {
    contents.runs.iter().find(|seen| seen.run.as_str() == run).unwrap()
}

fn task<'a>(contents: &'a Contents, name: &str) -> &'a Task {
    contents.tasks.iter().find(|task| task.id.as_str() == name).unwrap()
}

/// Logs byte for byte, rows by their logs, tasks and locks unchanged except those of nodes.
pub async fn everything_is_copied_unchanged(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    fill(&here).await;
    let report = copied(&here, &there).await;
    let old = contents(&*from.store).await;
    let new = contents(&*to.store).await;
    assert_eq!(report.runs.all(), old.runs.len() as u64);
    assert_eq!((report.damaged, report.findings.len()), (2, 2), "{:#?}", report.findings);
    assert!(report.findings.iter().all(|finding| finding.code == "K1"), "{:#?}", report.findings);
    assert_eq!(old.runs.len(), new.runs.len());
    for (before, after) in old.runs.iter().zip(&new.runs) {
        arrived(before, after);
        if after.row.as_ref().is_some_and(|row| row.status.is_active()) && after.run.as_str() != "taskless" {
            let own = after.task.clone().unwrap_or_else(|| panic!("{} has no task", after.run));
            assert!(task(&new, own.as_str()).state.is_live(), "{}", after.run);
        }
    }
    assert_eq!(find(&new, "taskless").task, None);
    assert_eq!(old.tasks.len(), new.tasks.len());
    for (before, after) in old.tasks.iter().zip(&new.tasks) {
        let of_node = before.owner.as_deref().is_some_and(|owner| owner.starts_with("n-"));
        assert_eq!(before == after, !of_node, "{before:#?} {after:#?}");
    }
    let ghost = task(&new, "t-ghost");
    assert_eq!((ghost.state, ghost.deliveries, ghost.fence), (TaskState::Ready, 2, 1));
    assert!(ghost.audit[0].what.starts_with(&format!("taken back from {GHOST}")), "{:?}", ghost.audit);
    assert_eq!(task(&new, "t-claimed").owner.as_deref(), Some("w2"));
    assert_eq!(old.locks, new.locks);
    assert_eq!(to.store.nodes().await.unwrap(), []);
}

fn arrived(before: &RunSeen, after: &RunSeen) {
    let run = &before.run;
    assert_eq!(*run, after.run);
    match run.as_str() {
        "gap" => {
            let (lost, rest): (Vec<_>, Vec<_>) = after.log.iter().cloned().partition(|one| one.seq == Seq(2));
            assert_eq!((rest, lost.len()), (before.log.clone(), 1), "what came behind keeps its place");
            assert!(lost[0].body.contains("\"lost\""), "{lost:?}");
        }
        _ => assert_eq!(before.log, after.log, "{run}"),
    }
    let row = after.row.as_ref().unwrap_or_else(|| panic!("{run} has no row"));
    match run.as_str() {
        "gap" | "hurt" => assert_eq!(Some(row), before.row.as_ref(), "nothing better is known of {run}"),
        _ => assert_eq!(row.as_of, after.log.last().unwrap().seq, "{run}"),
    }
}

/// Sends every waiting run what it waits for.
async fn serve(there: &Harness<'_>) {
    let client = &there.client;
    for run in ["signals", "rowless", "again", "taskless"].map(id) {
        client.signal(&run, "go", payload("1"), None).await.unwrap();
    }
    client.signal(&kid(client).await, "go", payload("1"), None).await.unwrap();
    client.resume(&id("paused"), By::default()).await.unwrap();
    client.signal(&id("paused"), "go", payload("1"), None).await.unwrap();
    for run in ["asks", "jumped"].map(id) {
        client.answer(&run, &Path::new("approve").unwrap(), payload("\"yes\""), By::default()).await.unwrap();
    }
    let queue = client.queue();
    let gpu = || goldseam_core::QueueName::new("gpu").unwrap();
    let held = queue.list(Some(&gpu()), Some(TaskState::Claimed), None, 9).await.unwrap().remove(0);
    assert_eq!((held.owner.as_deref(), held.fence, held.run.as_ref()), (Some("w1"), 1, Some(&id("remote"))));
    queue.complete(&held.id, held.fence, payload("1")).await.unwrap();
    let want = Want { owner: "w3".to_owned(), queue: gpu(), kind: None, limit: 9 };
    let free = queue.claim(want).await.unwrap().remove(0);
    assert_eq!((free.fence, free.run.as_ref()), (2, Some(&id("remote-free"))));
    queue.complete(&free.id, free.fence, payload("1")).await.unwrap();
}

/// An engine at the destination completes all active runs; completed steps are not repeated.
pub async fn active_runs_continue_and_end_once(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    fill(&here).await;
    let there = beside(&here, to);
    let report = copied(&here, &there).await;
    let asleep = there.client.get(&id("naps")).await.unwrap();
    assert_eq!(asleep.due(), here.client.get(&id("naps")).await.unwrap().due());
    let engine = engine(&there, true).await;
    there.fix().await;
    serve(&there).await;
    let kid = kid(&there.client).await;
    let waited = ["signals", "rowless", "again", "taskless", "mailed", "paused", "asks", "jumped", "parent"];
    let others = ["remote", "remote-free", "naps", "retries", "works", "works-too", kid.as_str()];
    for run in waited.into_iter().chain(others) {
        assert_eq!(there.result::<u32>(run).await, 7, "{run}");
        let counts = ["a", "c"].map(|step| there.witness.count(&format!("{run}/{step}")));
        let twice = if ["again", "jumped"].contains(&run) { 2 } else { 1 };
        assert_eq!(counts, [twice, 1], "{run}");
    }
    let woken = there.client.get(&id("naps")).await.unwrap();
    assert!(woken.finished_at >= asleep.due(), "{woken:?}");
    for run in ["works", "works-too"] {
        assert_eq!(there.witness.count(&format!("{run}/b")), 2, "the step that was cut off");
        assert_eq!(there.rules(run).await, ["O2"], "one crash is charged once");
    }
    assert_eq!(there.rules("signals").await, [""; 0], "what rested is charged nothing");
    for run in ["gap", "hurt", "parked"] {
        there.reaches(run, Status::Parked).await;
    }
    // All but the paused one, which did not move by itself.
    assert_eq!(report.in_flight, 16 - 1, "{report:#?}");
    assert_eq!(there.row("done").await.summary.status, Status::Completed);
    engine.shutdown().await;
}

/// A repeat of a finished copy compares and changes nothing.
pub async fn a_repeat_changes_nothing(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    fill(&here).await;
    let first = copied(&here, &there).await;
    let before = contents(&*to.store).await;
    let marks = (mark_of(&*from.store).await.unwrap(), mark_of(&*to.store).await.unwrap());
    let again = copied(&here, &there).await;
    assert_eq!((again.runs.copied, again.tasks.copied, again.locks.copied), (0, 0, 0), "{again:#?}");
    assert_eq!(again.digests, first.digests);
    assert_eq!(contents(&*to.store).await, before);
    assert_eq!((mark_of(&*from.store).await.unwrap(), mark_of(&*to.store).await.unwrap()), marks);
    there.client.signal(&id("signals"), "go", payload("1"), None).await.unwrap();
    assert_eq!(code(copier(&here, &there).copy().await), "GS0404", "the destination has gone on");
}

/// A store with a live node is neither source nor destination.
pub async fn a_store_in_use_is_not_copied(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    here.at_the_question("r").await;
    for busy in [&here, &there] {
        let engine = busy.asking().await;
        let refused = copier(&here, &there).copy().await;
        assert_eq!(code(refused), "GS0401");
        assert_eq!(mark_of(&*from.store).await.unwrap(), None, "nothing is closed");
        assert_eq!(mark_of(&*to.store).await.unwrap(), None);
        engine.crash();
        gone(busy).await;
    }
    copied(&here, &there).await;
}

/// After a copy, the source refuses engines until it is reopened.
pub async fn node_refuses_to_start_on_a_closed_store(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    here.at_the_question("r").await;
    copied(&here, &there).await;
    let refused = here.builder().start().await;
    assert_eq!(refused.unwrap_err().code(), "GS0404");
    assert_eq!(from.store.nodes().await.unwrap(), [], "a refused node leaves no record");
    let mark = reopen(&*from.store).await.unwrap().unwrap();
    assert_eq!((mark.role, mark.other.as_str()), (Role::MovedTo, "there"));
    assert_eq!(reopen(&*from.store).await.unwrap(), None);
    here.asking().await.shutdown().await;
    let open = there.asking().await;
    there
        .client
        .answer(&id("r"), &Path::new("approve").unwrap(), payload("\"yes\""), By::default())
        .await
        .unwrap();
    assert_eq!(there.result::<String>("r").await, "yes");
    open.shutdown().await;
}

/// Without the option `merge`, the destination must be empty.
pub async fn nonempty_destination_is_refused(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    here.at_the_question("r").await;
    there.at_the_question("theirs").await;
    assert_eq!(code(copier(&here, &there).copy().await), "GS0402");
    assert_eq!(mark_of(&*from.store).await.unwrap(), None);
    let report = merger(&here, &there).copy().await.unwrap();
    assert!(report.is_verified(), "{report:#?}");
    let runs = contents(&*to.store).await.runs;
    assert_eq!(runs.iter().map(|seen| seen.run.as_str()).collect::<Vec<_>>(), ["r", "theirs"]);
    assert_eq!(mark_of(&*to.store).await.unwrap().unwrap().role, Role::FilledFrom);
}

/// A run, task or lock that differs at the destination is left unchanged in both stores.
pub async fn records_with_the_same_name_are_left_behind(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    for harness in [&here, &there] {
        harness.at_the_question("both").await;
        let name = goldseam_core::LockName::new("nightly").unwrap();
        harness.client.locks().acquire(&name, "ana", std::time::Duration::from_secs(99)).await.unwrap();
    }
    here.at_the_question("mine").await;
    let before = contents(&*to.store).await;
    let report = merger(&here, &there).copy().await.unwrap();
    assert!(report.finished && !report.is_verified(), "{report:#?}");
    let kinds: Vec<_> = report.findings.iter().map(|found| (found.code, found.kind)).collect();
    assert_eq!(kinds, [("GS0403", "run"), ("GS0403", "task"), ("GS0403", "lock")], "{:#?}", report.findings);
    assert_eq!((report.runs.copied, report.runs.left_behind), (1, 1));
    let after = contents(&*to.store).await;
    assert_eq!(find(&after, "both"), find(&before, "both"));
    assert_eq!(after.locks, before.locks);
    assert_eq!(find(&after, "mine").log.len(), find(&contents(&*from.store).await, "mine").log.len());
}

/// A dry run only reads, works while engines run, and reports refusals.
pub async fn dry_run_predicts_everything_and_writes_nothing(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    fill(&here).await;
    let engine = there.asking().await;
    let plan = copier(&here, &there).plan().await.unwrap();
    assert_eq!(plan.refused.as_ref().map(|refused| refused.code), Some("GS0401"), "{plan:#?}");
    engine.crash();
    gone(&there).await;
    let plan = copier(&here, &there).plan().await.unwrap();
    assert_eq!((plan.refused.as_ref(), plan.finished, plan.dry_run), (None, false, true));
    assert_eq!(contents(&*to.store).await, Contents { runs: vec![], tasks: vec![], locks: vec![] });
    assert_eq!(mark_of(&*from.store).await.unwrap(), None);
    assert_eq!(mark_of(&*to.store).await.unwrap(), None);
    let report = copied(&here, &there).await;
    assert_eq!((plan.runs.copied, plan.events.copied), (report.runs.copied, report.events.copied));
    assert_eq!((plan.tasks.copied, plan.locks.copied), (report.tasks.copied, report.locks.copied));
    assert_eq!((plan.in_flight, plan.findings), (report.in_flight, report.findings));
}

/// A run with `notes` notes in its log.
async fn long_run(harness: &Harness<'_>, run: &str, notes: usize) {
    harness.at_the_question(run).await;
    let note = |number: usize| {
        let id = format!("n{number}");
        Event::NoteAdded(goldseam_core::event::Note { id, by: None, reason: "x".repeat(number % 300) })
    };
    harness.forge(run, (0..notes).map(note).collect()).await;
}

/// A log of any length is read and written in pieces.
pub async fn a_long_log_is_copied_in_pieces(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    long_run(&here, "long", 5_000).await;
    let report = copied(&here, &there).await;
    assert!(report.events.copied > 5_000, "{report:#?}");
    let old = contents(&*from.store).await;
    let new = contents(&*to.store).await;
    assert!(find(&old, "long").log == find(&new, "long").log);
    assert_eq!(find(&new, "long").row.as_ref(), Some(&here.client.state(&id("long")).await.unwrap().summary));
}

/// Changes of the source after an interrupted copy are copied by the next one: events, tasks and locks.
pub async fn changes_between_two_copies_are_copied(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    fill(&here).await;
    faults::cut_off(&here, &there).await;
    here.client.signal(&id("signals"), "late", payload("9"), None).await.unwrap();
    let worked = TaskId::new("t-claimed").unwrap();
    here.client.queue().heartbeat(&worked, 1).await.unwrap();
    here.client.queue().cancel(&TaskId::new("t-ready").unwrap()).await.unwrap();
    let name = goldseam_core::LockName::new("free").unwrap();
    let held = here.client.locks().acquire(&name, "ana", std::time::Duration::from_secs(99)).await.unwrap();
    copied(&here, &there).await;
    let new = contents(&*to.store).await;
    arrived(find(&contents(&*from.store).await, "signals"), find(&new, "signals"));
    assert_eq!(*task(&new, "t-claimed"), here.client.queue().get(&worked).await.unwrap());
    assert_eq!(task(&new, "t-ready").state, TaskState::Cancelled);
    assert!(new.locks.contains(&held), "{:?}", new.locks);
}

/// Of two concurrent copies, one may be refused; nothing is copied twice.
pub async fn concurrent_copies_copy_once(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    fill(&here).await;
    let left = copier(&here, &there);
    let right = copier(&here, &there);
    let (left, right) = tokio::join!(left.copy(), right.copy());
    for outcome in [left, right] {
        assert!(
            outcome.as_ref().map_or_else(|error| error.code() == "GS0401", CopyReport::is_verified),
            "{outcome:#?}"
        );
    }
    copied(&here, &there).await;
    let old = contents(&*from.store).await;
    let new = contents(&*to.store).await;
    old.runs.iter().zip(&new.runs).for_each(|(before, after)| arrived(before, after));
    assert_eq!(old.tasks.len(), new.tasks.len());
}

/// The destination of one copy is the source of the next.
pub async fn filled_store_can_be_copied_again(from: &Fixture, to: &Fixture) {
    let here = Harness::on(from);
    let there = Harness::on(to);
    fill(&here).await;
    copied(&here, &there).await;
    let memory = Fixture::memory_on(clock(from).await);
    let last = Harness::on(&memory);
    copied(&there, &last).await;
    assert_eq!(contents(&*memory.store).await, contents(&*to.store).await);
    assert_eq!(mark_of(&*to.store).await.unwrap().unwrap().role, Role::MovedTo);
}

/// A clock that always shows the store's current time.
async fn clock(fixture: &Fixture) -> goldseam_store::ClockFn {
    let now = fixture.store.now().await.unwrap();
    std::sync::Arc::new(move || now)
}

/// A store that is named twice is detected under any name.
pub async fn a_store_is_not_copied_onto_itself(from: &Fixture, _: &Fixture) {
    let here = Harness::on(from);
    let same = merger(&here, &here);
    here.at_the_question("r").await;
    assert_eq!(code(same.copy().await), "GS0402");
    assert_eq!(mark_of(&*from.store).await.unwrap(), None, "and is left open");
}
