//! Writes the golden histories of `tests/golden`. An existing file is never rewritten: it is the on-disk format as an
//! earlier release wrote it. To add one, add it here and run `cargo test -p goldseam-core golden -- --ignored`.

use std::path::PathBuf;
use std::time::Duration;

use crate::attribute::{AttributeValue, Attributes};
use crate::branch::{BranchId, Why};
use crate::command::{Claim, Command, Migrate, Withdraw};
use crate::decide::Stamped;
use crate::event::{
    AttributesChanged, BranchOpened, ChildStarted, Event, JumpRequested, Note, Release, Request, RunQueued,
    RunRecovered, StepCompleted, StepFailed, StepStarted, WaitStarted,
};
use crate::form::Form;
use crate::hash::Hash;
use crate::id::{LaneName, RunId, StepName, TagKey};
use crate::recovery::{Code, Remedy};
use crate::retry::{Policy, Retry};
use crate::testing::*;
use crate::time::{Millis, Seq};
use crate::{Class, Failure, Owned as Do};

/// A run with tags and a parent that has nearly every event on its one branch.
fn a_long_life() -> Log {
    let tags = [(TagKey::new("customer").unwrap(), "Ada & Söhne".to_owned())].into();
    let parent = Some(RunId::new("campaign-7").unwrap());
    let priority = 5;
    let queued = RunQueued { tags, parent, priority, ..order(r#"{"lines":[1,2.50,"ü\n"]}"#) };
    let mut log = Log::new("order-17").act(Command::Start { queued, claim: Some(node("n-1").into()) });
    let input = Some(Hash::of(b"in"));
    let remote = None;
    let started = StepStarted { path: path("reserve"), ord: 0, attempt: 1, input, remote };
    log = log.owned(vec![Do::StepStarted(started)]);
    let done = StepCompleted { undo: true, input: Some(Hash::of(b"in")), ..log.completion("reserve") };
    log = log.owned(vec![Do::StepCompleted(done)]);
    let failed =
        StepFailed { failure: Failure::retryable("slow").with_code("timeout"), ..log.failure("charge") };
    log = log.owned(vec![Do::StepFailed { failed, retry_at: Some(Millis(2_000)), timeout: Some("timeout") }]);
    log = log.act(take_over("n-2", "n-1", true)).signalled("go", "s1");
    let charged = StepCompleted { attempt: 2, ..log.completion("charge") };
    log = log.owned(vec![Do::StepCompleted(charged)]);
    let wanted = WaitStarted { due: Some(Millis(90_000)), ..log.wanted("go", &["go", "stop"]) };
    log = log.owned(vec![Do::Wait { wanted, ask: None }]);
    log = log.asks("approve", Form::Choice(vec!["ship".into(), "hold".into()]));
    log = log.act(answer("approve", "a1", "\"ship\"")).checks("approve");
    log = log.starts_child("pick", "c1").child_ended("c1", Ok(json("[1]")));
    log = log.starts_child("pack", "c2").child_ended("c2", Err(Failure::terminal("no box")));
    let progress = Do::Progress { path: path("tell"), ord: 6, message: "half way".into() };
    log = log.owned(vec![progress, Do::ChangeVersion { to: 2, reason: "E2".into() }]);
    log = log.act(Command::Pause(note("p1"))).released(Release::Paused).act(Command::Resume(note("r1")));
    log = log.claimed("n-3").sleeps("nap", Millis(5_000));
    log.now = Millis(5_000);
    log = log.checks("nap").act(Command::Annotate(note("all well")));
    let group = StepCompleted { group: true, ..log.completion("g") };
    log.completed("g/leaf").owned(vec![Do::StepCompleted(group), Do::Complete(json("null"))])
}

/// Jumps with and without compensation, a recovery, a retry; ends cancelled.
fn a_wanderer() -> Log {
    let schema = serde_json::json!({"type": "object", "required": ["ok"]});
    let log =
        Log::running().completed_with_undo("a").completed_with_undo("b").asks("q", Form::Schema(schema));
    let log = log.act(answer("q", "a1", r#"{"ok":true}"#)).checks("q");
    let jump =
        JumpRequested { input: Some(json("[2]")), drop_mail: true, compensate: true, ..jump_to("j1", "b") };
    let log = log.act(Command::Jump(jump)).undone("b").owned(vec![Do::FinishJump]).claimed("n-2");
    let log = log.completed("b").act(Command::Jump(jump_to("j2", "b"))).claimed("n-2").completed("b");
    let mut log = log.asks("q", Form::Text).released(Release::Unload);
    let why = Why::Recovery { rule: "A2".into(), evidence: "it was running with an open question".into() };
    let branch = log.state().branches.next_id();
    let parent = log.state().summary.branch;
    let cutoff = log.state().ops[&path("b")].last;
    let recovered = Event::RunRecovered(RunRecovered {
        rule: "A2".into(),
        reason: "stale_detection".into(),
        attempt: 0,
        evidence: "it was running with an open question".into(),
        node: Some(node("n-3")),
        stale_ms: 77,
        lived_ms: None,
        previous_branch: Some(parent),
        new_branch: Some(branch),
        cutoff: Some(cutoff),
    });
    let parent = Some(parent);
    let input = None;
    let dropped_mail = vec![];
    let carried = None;
    let opened =
        Event::BranchOpened(BranchOpened { branch, parent, cutoff, why, input, dropped_mail, carried });
    log.write(None, [recovered, opened].map(|event| Stamped { at: Millis(9_000), event }).into());
    assert_eq!(branch, BranchId(4));
    let failure = Failure::terminal("card declined");
    let undo = Do::UndoStarted { path: path("a"), failure: Some(failure.clone()) };
    let log =
        log.claimed("n-3").failed("c", None).owned(vec![undo, Do::UndoFailed { path: path("a"), failure }]);
    let log = log.act(Command::Retry(note("t1"))).claimed("n-4").act(Command::Cancel(note("c1")));
    log.undone("a").owned(vec![Do::EndCancelled])
}

/// Two `continue_as_new` with open mail and children, then a failure and a retry.
fn a_phoenix() -> Log {
    let log = Log::running().signalled("go", "s1").signalled("go", "s2").waits("w", &["go"]);
    let log = log.starts_child("pick", "c1").owned(vec![Do::ContinueAsNew(json("1"))]);
    let log = log.completed("a").signalled("go", "s3").owned(vec![Do::ContinueAsNew(json("2"))]);
    let log = log
        .waits("w", &["go"])
        .failed("x", None)
        .owned(vec![Do::Fail(Failure::new(Class::Unknown, "what happened?"))]);
    log.act(Command::Retry(note("t1")))
}

/// Remote steps: one is retried, times out, is lost and handed out again; one is still open.
fn a_delegate() -> Log {
    let log = Log::running().hands_out_with_undo("resize").hands_out("tag:two#2");
    let log = log.brings("resize", 1, Err(Failure::retryable("no memory").with_code("oom")));
    let log = log.released(Release::Unload).claimed("n-2").hands_out("resize");
    let handed = |log: &Log| {
        let open = log.state().open_remote().into_iter().find(|open| open.attempt > 1).unwrap();
        (open.path, open.attempt, open.task)
    };
    let (path, attempt, task) = handed(&log);
    let given_up = Remedy::GiveUp { path, attempt, task: Box::new(a_task(task)) };
    let silent = log.heal(Code::H1, "step resize has been silent for 61 s", given_up);
    let log = log.act(silent).hands_out("resize");
    let (path, attempt, _) = handed(&log);
    let lost = log.heal(Code::O3, "its task is missing", Remedy::SendAgain { path, attempt });
    let log = log.act(lost);
    log.brings("resize", 4, Ok(json(r#"{"w":200}"#))).released(Release::Unload)
}

/// `continue_as_new`, unread mail, the end, and a tombstone.
fn a_departed() -> Log {
    let log = Log::running().signalled("go", "s1").owned(vec![Do::ContinueAsNew(json("1"))]);
    let log = log.completed("a").signalled("stop", "s2").finishes().act(Command::Annotate(note("all well")));
    let at = log.end();
    log.act(prune(at))
}

/// A run with a size that carries unread mail along.
fn an_heir() -> Log {
    let log = Log::running().completed("a").signalled("go", "s1").signalled("stop", "s2").waits("w", &["go"]);
    log.owned(vec![Do::ContinueAsNew(json("[2]"))]).completed("a").signalled("go", "s3")
}

/// A run with a marked change that is parked and moved to another version by an operator.
fn a_migrant() -> Log {
    let change = Do::Change { path: path("fraud-check"), ord: 1 };
    let log = Log::running().completed("a").owned(vec![change]).completed("b");
    let log = log.owned(vec![Do::Park { code: "V1", reason: "operation 3".into() }]);
    let by = Note { by: Some("ada".into()), reason: "version 1 goes".into(), ..note("m1") };
    log.act(Command::Migrate(Migrate { note: by, to: 2, lost: None })).claimed("n-2").completed("c")
}

/// Requests that are withdrawn, a jump that drops a request to cancel, and a termination.
fn a_castaway() -> Log {
    let log = Log::running().completed_with_undo("a").completed_with_undo("b").hands_out("far");
    let log = log.released(Release::Unload);
    let jump = |id: &str| Command::Jump(JumpRequested { compensate: true, ..jump_to(id, "b") });
    let withdraw = |id: &str, what| Command::Withdraw(Withdraw { note: note(id), what, lost: None });
    let log = log.act(jump("j1")).act(withdraw("w1", Request::Jump));
    let log = log.act(Command::Cancel(note("c1"))).act(withdraw("w2", Request::Cancel));
    let log = log.act(Command::Cancel(note("c2")));
    let log = log.act(Command::DropCancel(Box::new(Command::Jump(jump_to("j2", "b"))))).claimed("n-2");
    let log = log.completed_with_undo("b").starts_child("pick", "c1").hands_out("far");
    let undo = Do::UndoStarted { path: path("b"), failure: Some(Failure::terminal("declined")) };
    log.owned(vec![undo]).act(Command::Terminate(note("t1")))
}

/// A run at rest with a pending jump and a pending request to cancel.
fn a_petitioner() -> Log {
    let log = Log::running().completed_with_undo("a").completed("b").released(Release::Unload);
    let jump = JumpRequested { compensate: true, ..jump_to("j1", "a") };
    log.act(Command::Jump(jump)).act(Command::Cancel(note("c1")))
}

/// A run started without a version that gets version and plan from its first claim, and later falls back to another
/// version.
fn an_undecided() -> Log {
    let plan = vec![StepName::new("a").unwrap(), StepName::new("g").unwrap()];
    let claim = Claim { version: Some(2), plan, ..Claim::by(node("n-1")) };
    let log = Log::new("r1").act(undecided()).act(Command::Claim(claim)).completed("a");
    let log = log.released(Release::HandOver);
    let evidence = "no live node has version 2 of checkout (live nodes have 1)";
    let change = log.heal(Code::E2, evidence, Remedy::ChangeVersion { to: 1 });
    let log = log.act(change).claimed("n-2");
    log.owned(vec![Do::ContinueAsNew(json("[2]"))]).completed("a")
}

/// A run with a trace context that continues as new and hands a step out.
fn a_traveller() -> Log {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = crate::TraceContext::read(trace, Some("vendor=1"));
    let queued = RunQueued { trace, ..order("[1]") };
    let log = Log::new("r1").act(Command::Start { queued, claim: Some(node("n-1").into()) });
    log.completed("a").owned(vec![Do::ContinueAsNew(json("[2]"))]).hands_out("b")
}

/// Attributes of every type, set at the start and changed; a jump restores them, `continue_as_new` keeps them.
fn a_described() -> Log {
    let key = |name: &str| TagKey::new(name).unwrap();
    let attributes = Attributes::from([
        (key("amount"), 120.into()),
        (key("rate"), 1.5.into()),
        (key("paid"), false.into()),
        (key("due"), AttributeValue::Time(Millis(90_000))),
        (key("skus"), ["a-1", "ü"].into()),
        (key("stage"), "new".into()),
    ]);
    let queued = RunQueued { attributes, ..order("[1]") };
    let log = Log::new("order-21").act(Command::Start { queued, claim: Some(node("n-1").into()) });
    let change = |ord: u32, stage: &str| {
        let path = path(&if ord == 0 { "attributes".to_owned() } else { format!("attributes#{}", ord + 1) });
        let set = Attributes::from([(key("stage"), stage.into())]);
        Do::Attributes(AttributesChanged { path, ord, set, removed: [key("rate")].into() })
    };
    let log = log.owned(vec![change(0, "checked")]).completed("charge").owned(vec![change(2, "paid")]);
    let log = log.act(Command::Jump(jump_to("j1", "charge"))).claimed("n-2");
    log.owned(vec![Do::ContinueAsNew(json("[2]"))]).claimed("n-2").owned(vec![Do::Complete(json("null"))])
}

/// Published values and answered requests, a jump that restores a value, and children with options.
fn a_talker() -> Log {
    let log = Log::running().publishes("publish:progress", "progress", "10").completed("a");
    let log = log.signalled("request.add", "r1").waits("add", &["request.add"]);
    let answers = vec![
        log.reply("answer:add", "r1", Ok("[7]")),
        log.publication("publish:progress#2", "progress", "50"),
    ];
    let log = log.owned(answers).act(Command::Jump(jump_to("j1", "a"))).claimed("n-2").completed("a");
    let log = log.signalled("request.add", "r2").waits("add", &["request.add"]);
    let refusal = log.reply("answer:add", "r2", Err("full"));
    let start = Some(Box::new(RunQueued { priority: 5, ..order("null") }));
    let pack = ChildStarted { undo: true, start, ..log.child("pack", "r1-pack") };
    let log = log.owned(vec![refusal, Do::Child(pack)]);
    let survey = ChildStarted { detached: true, ..log.child("survey", "r1-survey") };
    let log = log.owned(vec![Do::Child(survey)]).child_ended("r1-pack", Ok(json("3")));
    let last = vec![log.publication("publish:done", "done", "true"), Do::ContinueAsNew(json("[2]"))];
    log.owned(last).completed("a")
}

/// A delayed run in a lane with a deadline; it times out, undoes a step, and is retried without a deadline.
fn a_latecomer() -> Log {
    let lane = Some(LaneName::new("tenant-7").unwrap());
    let start_at = Some(Millis(5_000));
    let deadline = Some(Millis(60_000));
    let queued = RunQueued { start_at, deadline, lane: lane.clone(), ..order("[1]") };
    let mut log = Log::new("r1").act(Command::Start { queued, claim: None });
    log.now = Millis(5_000);
    log = log.claimed("n-1").completed_with_undo("a");
    let mut sent = log.remote("b");
    sent.remote.iter_mut().for_each(|remote| remote.lane = lane.clone());
    log = log.owned(vec![Do::StepStarted(sent)]).released(Release::Unload);
    log.now = Millis(60_000);
    log = log.claimed("n-2").undone("a").owned(vec![Do::EndCancelled]);
    log.act(Command::Retry(note("t1"))).claimed("n-2").completed("a").owned(vec![Do::Complete(json("null"))])
}

/// A local step whose first failure has its retry policy.
fn a_stumbler() -> Log {
    let mut log = Log::running();
    let retry = Some(Box::new(Policy::from(&Retry::fixed(Duration::from_secs(2)).attempts_max(3))));
    let failed = StepFailed { left: 2, retry, ..log.failure("charge") };
    log = log.owned(vec![Do::StepFailed { failed, retry_at: Some(Millis(3_000)), timeout: None }]);
    log.now = Millis(3_000);
    let failed = StepFailed { attempt: 2, left: 1, ..log.failure("charge") };
    log = log.owned(vec![Do::StepFailed { failed, retry_at: Some(Millis(5_000)), timeout: None }]);
    log.now = Millis(5_000);
    let charged = StepCompleted { attempt: 3, ..log.completion("charge") };
    log.owned(vec![Do::StepCompleted(charged), Do::Complete(json("null"))])
}

/// All histories. Every event type is in one of them.
pub(crate) fn histories() -> [(&'static str, Log); 15] {
    [
        ("a_long_life", a_long_life()),
        ("a_wanderer", a_wanderer()),
        ("a_phoenix", a_phoenix()),
        ("a_delegate", a_delegate()),
        ("a_departed", a_departed()),
        ("an_heir", an_heir()),
        ("a_migrant", a_migrant()),
        ("a_castaway", a_castaway()),
        ("a_petitioner", a_petitioner()),
        ("an_undecided", an_undecided()),
        ("a_traveller", a_traveller()),
        ("a_described", a_described()),
        ("a_talker", a_talker()),
        ("a_latecomer", a_latecomer()),
        ("a_stumbler", a_stumbler()),
    ]
}

#[test]
#[ignore = "writes the missing golden histories"]
fn golden_histories_are_written_once() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, log) in histories() {
        let history = folder.join(name).with_extension("jsonl");
        if history.exists() {
            continue;
        }
        std::fs::write(&history, log.bodies.join("\n") + "\n").unwrap();
        let summary = serde_json::to_string_pretty(&log.state().summary).unwrap();
        std::fs::write(folder.join(name).with_extension("summary.json"), summary + "\n").unwrap();
        assert!(log.end() > Seq(1));
    }
}
