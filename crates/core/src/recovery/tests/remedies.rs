//! The remedy of each rule at the edges of its conditions.

use super::blame::{span, take_over};
use super::*;
use crate::event::{StepCompleted, StepFailed};

fn only(case: &Case) -> (Code, String, Remedy) {
    let mut found = case.diagnoses();
    assert_eq!(found.len(), 1, "{found:?}");
    let Diagnosis { rule, evidence, remedy } = found.remove(0);
    (rule, evidence, remedy)
}

fn waiting() -> Log {
    Log::running().waits("w", &["go"]).released(Release::Unload)
}

fn later(span: u64) -> Queue {
    Queue::Due(NOW + Duration::from_millis(span))
}

#[test]
fn a_task_of_a_dead_claimant_returns_to_its_queue() {
    let log = || Log::new("r1").queued();
    let held = Case { claimant: Some(lost()), ..Case::resting(log(), Queue::Claimed) };
    let evidence = "its advance task is claimed, but its process is gone".to_owned();
    assert_eq!(only(&held), (Code::O1, evidence, Remedy::Reclaim));
    let nameless = Case { claimant: Some(Owner::None), ..Case::resting(log(), Queue::Claimed) };
    let evidence = "its advance task is claimed without an owner".to_owned();
    assert_eq!(only(&nameless), (Code::O1, evidence, Remedy::Reclaim));
    let ready = Case { claimant: Some(lost()), ..Case::resting(log(), Queue::Ready) };
    assert_eq!(ready.diagnoses(), [], "it is not claimed");
    let owned = Case { owner: lost(), ..Case::healthy(Log::running()) };
    assert_eq!(only(&owned), (Code::O2, "its process is gone".to_owned(), Remedy::Reclaim));
}

#[test]
fn a_pending_takeover_is_only_reported() {
    let tell = Remedy::Tell { hint: "a node with the workflow will take it over".into() };
    let taken = Case { owner: lost(), claimant: Some(Owner::Alive), ..Case::healthy(Log::running()) };
    assert_eq!(only(&taken).2, tell);
    for queue in [Queue::Ready, later(10_000)] {
        let case = Case { owner: lost(), queue, ..Case::healthy(Log::running()) };
        assert_eq!((only(&case).0, only(&case).2), (Code::O2, tell.clone()));
    }
    let asleep = Case { owner: lost(), queue: later(10_001), ..Case::healthy(Log::running()) };
    let evidence = "its owner is lost, but its task is dormant".to_owned();
    assert_eq!(only(&asleep), (Code::W1, evidence, Remedy::Wake));
    let over = Case { owner: lost(), queue: Queue::Completed, ..Case::healthy(Log::running()) };
    let evidence = "its advance task is completed".to_owned();
    assert_eq!(only(&over), (Code::O1, evidence, Remedy::Requeue { run_at: NOW }));
}

#[test]
fn every_reason_to_continue_wakes_a_run() {
    let jump = crate::event::JumpRequested { compensate: true, ..jump_to("j1", "a") };
    let jumping = Log::running().completed_with_undo("a").waits("w", &["go"]);
    let table = [
        (released(Log::running()), "it has no open wait"),
        (Log::running().sleeps("s", NOW).released(Release::Unload), "its timer is due"),
        (waiting().act(Command::Cancel(note("c1"))), "a request to cancel is pending"),
        (jumping.released(Release::Unload).act(Command::Jump(jump)), "a jump is pending"),
        (waiting().signalled("go", "s1"), "the log has the mail that it waits for"),
    ];
    for (log, why) in table {
        let case = Case::resting(log.clone(), later(10_001));
        assert_eq!(only(&case), (Code::W1, format!("{why}, but its task is dormant"), Remedy::Wake));
        for queue in [Queue::Ready, Queue::Claimed, later(10_000)] {
            assert_eq!(Case::resting(log.clone(), queue).diagnoses(), [], "{why}: its task advances it");
        }
    }
    for log in [waiting(), waiting().signalled("stop", "s1")] {
        assert_eq!(Case::resting(log, Queue::Sleeps).diagnoses(), []);
    }
}

#[test]
fn a_missing_end_of_a_child_is_delivered() {
    let child = RunId::new("c1").unwrap();
    let children = vec![(child.clone(), Ok(json("1")))];
    let case = Case { children, ..Case::resting(waiting(), Queue::Sleeps) };
    let evidence = "child c1 has ended, but the log does not record it".to_owned();
    assert_eq!(only(&case), (Code::W1, evidence, Remedy::Deliver { child, result: Ok(json("1")) }));
}

#[test]
fn a_new_task_is_due_when_the_run_is() {
    let soon = NOW + Duration::from_secs(9);
    let table = [
        (released(Log::running()), NOW),
        (Log::running().sleeps("s", NOW).released(Release::Unload), NOW),
        (Log::running().sleeps("s", soon).released(Release::Unload), soon),
        (waiting(), Millis::NEVER),
    ];
    for (log, run_at) in table {
        let case = Case::resting(log, Queue::Missing);
        let evidence = "its advance task is missing".to_owned();
        assert_eq!(only(&case), (Code::O1, evidence, Remedy::Requeue { run_at }));
    }
}

#[test]
fn a_failure_is_retried_only_within_its_policy() {
    let failed = |failure: Failure, left, group| {
        let log = Log::running().completed("a");
        let failed = StepFailed { left, failure, group, ..log.failure("b") };
        released(log.owned(vec![Owned::StepFailed { failed, retry_at: None, timeout: None }]))
    };
    let again = Remedy::Retry { path: path("b"), attempt: 2 };
    let case = Case::resting(failed(Failure::retryable("x"), 1, false), Queue::Ready);
    let evidence = "step b failed (retryable) and nothing followed".to_owned();
    assert_eq!(only(&case), (Code::A4, evidence, again));
    for (failure, left) in [(Failure::terminal("x"), 1), (Failure::retryable("x"), 0)] {
        let log = failed(failure, left, false);
        assert_eq!(Case::resting(log.clone(), Queue::Ready).diagnoses(), [], "its task leads to the same");
        let found = Case::resting(log, Queue::Missing).diagnoses();
        assert_eq!((found[0].rule, &found[0].remedy), (Code::A4, &Remedy::Requeue { run_at: NOW }));
    }
    let group = failed(Failure::retryable("x"), 1, true);
    assert_eq!(Case::resting(group, Queue::Ready).diagnoses(), [], "a group is retried by its leaves");
    let alive = failed(Failure::retryable("x"), 1, false).claimed("n-1");
    assert_eq!(Case::healthy(alive).diagnoses(), [], "its owner handles it");
}

#[test]
fn a_run_is_unended_only_if_every_declared_step_is_complete() {
    let case = |log: Log| Case::resting(released(log), Queue::Ready).cached_as(Status::Running);
    let both = planned(&["a", "b"]).completed("b").completed("a");
    let cutoff = both.end();
    let evidence = "all 2 declared steps are complete, but the run has not ended".to_owned();
    assert_eq!(only(&case(both)), (Code::A3, evidence, Remedy::Branch { cutoff }));
    assert_eq!(case(planned(&["a", "b"]).completed("a")).diagnoses(), []);
    assert_eq!(case(Log::running().completed("a")).diagnoses(), [], "the plan is not known");
    let waits = planned(&["a"]).completed("a").waits("w", &["go"]).released(Release::Unload);
    let waits = Case::resting(waits, Queue::Sleeps).cached_as(Status::Running);
    assert!(!waits.codes().contains(&Code::A3));
}

#[test]
fn a2_cuts_before_the_first_hidden_question() {
    let log = Log::running().completed("a").asks("z", Form::Text).asks("b", Form::Text);
    let first = log.state().ops[&path("z")].first;
    let log = log.released(Release::Unload);
    for status in [Status::Running, Status::Queued] {
        let case = Case::resting(log.clone(), Queue::Sleeps).cached_as(status);
        let evidence =
            format!("the cached status is running, but question z has been open since event {first}");
        assert_eq!(only(&case), (Code::A2, evidence, Remedy::Branch { cutoff: first.before() }));
    }
    assert_eq!(Case::resting(log, Queue::Sleeps).cached_as(Status::Sleeping).diagnoses(), []);
}

#[test]
fn a_phantom_wait_is_cut_at_the_last_stable_event() {
    let case = |log: Log| Case::resting(released(log), Queue::Ready).cached_as(Status::Waiting);
    let log = Log::running().completed("a").started("b", 1);
    let cutoff = log.state().ops[&path("a")].last;
    assert_eq!(only(&case(log)).2, Remedy::Branch { cutoff });
    let fresh = Log::running().completed("a").act(Command::Jump(jump_to("j1", "a"))).claimed("n-1");
    let opened = fresh.state().branches.active().opened;
    assert_eq!(only(&case(fresh)).2, Remedy::Branch { cutoff: opened });
    let parked = Remedy::Park { reason: "no stable event found".to_owned() };
    assert_eq!(only(&case(Log::running().started("b", 1))).2, parked);
}

#[test]
fn n1_ignores_runs_that_need_not_continue() {
    let case = |log, versions| Case { versions, ..Case::resting(log, Queue::Ready) };
    let hint = "start a node with workflow checkout".into();
    let evidence =
        "no live node has workflow checkout: the run waits for a worker with checkout@1".to_owned();
    let moves = || released(Log::running());
    assert_eq!(only(&case(moves(), Some(vec![]))), (Code::N1, evidence, Remedy::Tell { hint }));
    for (log, versions) in [(moves(), None), (moves(), Some(vec![1])), (waiting(), Some(vec![]))] {
        assert_eq!(case(log, versions).diagnoses(), []);
    }
    let alive = Case { versions: Some(vec![]), ..Case::healthy(Log::running()) };
    assert_eq!(alive.diagnoses(), [], "a live node owns it");
}

#[test]
fn n1_finds_runs_whose_queue_no_live_node_takes() {
    let case = |log, queues: Option<&[&str]>| Case {
        queues: queues.map(|queues| queues.iter().map(|queue| (*queue).to_owned()).collect()),
        ..Case::resting(log, Queue::Ready)
    };
    let moves = || released(Log::running());
    let worker = "a worker with checkout@1 that takes queue default";
    let evidence = format!(
        "no live node with checkout@1 takes queue default (they take images, mail): the run waits for {worker}"
    );
    let remedy = Remedy::Tell { hint: format!("start {worker}").into() };
    assert_eq!(only(&case(moves(), Some(&["images", "mail"]))), (Code::N1, evidence, remedy));
    for (log, queues) in
        [(moves(), None), (moves(), Some(&["default", "mail"][..])), (waiting(), Some(&["mail"][..]))]
    {
        assert_eq!(case(log, queues).diagnoses(), [], "{queues:?}");
    }
    let alive = Case { queues: Some(vec![]), ..Case::healthy(Log::running()) };
    assert_eq!(alive.diagnoses(), [], "a live node owns it");
}

#[test]
fn a_version_that_no_live_node_has_falls_back_or_parks() {
    let on_two = || {
        let log = released(Log::running());
        let change = log.heal(Code::E2, "1 is missing", Remedy::ChangeVersion { to: 2 });
        log.act(change)
    };
    let case = |log, versions: &[u32]| Case {
        versions: Some(versions.to_vec()),
        ..Case::resting(log, Queue::Missing)
    };
    let found = |log, versions: &[u32]| {
        let all = case(log, versions).diagnoses();
        let found = all.into_iter().find(|found| found.rule == Code::E2);
        found.map(|found| (found.evidence, found.remedy))
    };
    let lacks = "no live node has version 2 of checkout (live nodes have 1, 3)";
    let waits = format!("{lacks}: the run waits for a worker with checkout@2");
    assert_eq!(found(on_two(), &[1, 3]), Some((waits, Remedy::ChangeVersion { to: 1 })));
    let lacks = "no live node has version 2 of checkout (live nodes have 3)".to_owned();
    let waits = format!("{lacks}: the run waits for a worker with checkout@2");
    assert_eq!(found(on_two(), &[3]), Some((waits, Remedy::Park { reason: lacks })));
    assert_eq!(found(on_two(), &[2]), None);
    assert_eq!(found(on_two(), &[]), None, "that is N1");
    assert_eq!(found(waiting(), &[3]), None, "it need not continue");
    let undecided = || Log::new("r1").act(crate::testing::undecided());
    assert_eq!(case(undecided(), &[3]).codes(), [Code::O1], "any version will do");
    assert_eq!(case(undecided(), &[]).codes(), [Code::O1, Code::N1]);
}

#[test]
fn a_run_that_is_to_end_is_not_parked_for_its_version() {
    let log = released(Log::running().completed_with_undo("reserve"));
    let log = log.act(Command::Cancel(note("c")));
    let case = Case { versions: Some(vec![3]), ..Case::resting(log, Queue::Ready) };
    let found = case.diagnoses().into_iter().find(|found| found.rule == Code::E2).unwrap();
    let Remedy::Tell { hint } = found.remedy else { panic!("{:?}", found.remedy) };
    assert_eq!(hint.as_str(), "start a worker with checkout@1, or: `terminate r1`");
}

#[test]
fn a_run_parked_by_e2_says_how_to_resume_it() {
    let log = released(Log::running());
    let park = log.heal(Code::E2, "seen", Remedy::Park { reason: "version 1 is missing".into() });
    let log = log.act(park);
    let hint = |versions: &[u32]| {
        let case = Case { versions: Some(versions.to_vec()), ..Case::resting(log.clone(), Queue::Sleeps) };
        match only(&case) {
            (Code::E2, _, Remedy::Tell { hint }) => hint,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(hint(&[2]).as_str(), "start a worker with checkout@1, then: `resume r1`");
    assert_eq!(hint(&[1]).as_str(), "a live node has checkout@1 now: `resume r1`");
}

#[test]
fn a_plan_of_group_steps_is_complete_with_its_groups() {
    let group = |log: &Log| StepCompleted { group: true, ..log.completion("g") };
    let begun = planned(&["g"]).completed("g/leaf");
    let half = Case::resting(released(begun.clone()), Queue::Ready).cached_as(Status::Running);
    assert!(!half.codes().contains(&Code::A3), "the group has not ended");
    let whole = group(&begun);
    let log = released(begun.owned(vec![Owned::StepCompleted(whole)]));
    let case = Case::resting(log.clone(), Queue::Ready).cached_as(Status::Running);
    let cutoff = log.state().ops[&path("g")].last;
    let (rule, _, remedy) = only(&case);
    assert_eq!((rule, remedy), (Code::A3, Remedy::Branch { cutoff }));
}

#[test]
fn a_silent_step_is_judged_by_its_last_sign_of_life() {
    let log = Log::running().hands_out("resize").released(Release::Unload);
    let open = log.state().open_remote().remove(0);
    let found = |task: Task, silence: u64| {
        let path = open.path.clone();
        let attempt = open.attempt;
        let since = open.since;
        let remote = Remote { path, attempt, task: Some(task), silence: Duration::from_secs(silence), since };
        Case { remote: vec![remote], ..Case::resting(log.clone(), Queue::Sleeps) }.diagnoses()
    };
    let claimed = a_task(open.task.clone()).claimed("w", Millis(NOW.0 - 61_000));
    assert_eq!(found(claimed.clone(), 61), []);
    let silent = found(claimed.clone(), 60).remove(0);
    assert_eq!((silent.rule, silent.evidence.as_str()), (Code::H1, "step resize has been silent for 61 s"));
    let path = open.path.clone();
    let attempt = 1;
    let task = Box::new(claimed.clone());
    assert_eq!(silent.remedy, Remedy::GiveUp { path, attempt, task });
    let unheard = Task { heartbeat_at: None, ..claimed };
    assert_eq!(found(unheard.clone(), 61), []);
    assert_eq!(found(unheard, 60).len(), 1, "since its start");
}

#[test]
fn a_suspicion_never_ends_a_run() {
    let log = (2..6).fold(Log::running(), |log, n| {
        log.act(take_over(&format!("n-{n}"), &format!("n-{}", n - 1), span(100), n == 5))
    });
    let gone = |proven| Owner::Lost { proven, evidence: "x".into(), lived: span(100) };
    let codes = |proven| Case { owner: gone(proven), ..Case::healthy(log.clone()) }.codes();
    assert_eq!((codes(true)[0], codes(false)), (Code::P1, vec![Code::O2]));
    let found = Case { owner: gone(true), ..Case::healthy(log.clone()) }.diagnoses().remove(0);
    let seen = "the worker died after each of 3 recoveries without progress, most recently executing only this run, in \
                workflow code before its first step";
    assert_eq!(found.evidence, seen);
}

#[test]
fn an_owner_requeues_a_run_that_no_task_brings_back() {
    let found = |queue: Queue| {
        let found = not_executed(task(&Log::running(), queue).as_ref(), NOW)?;
        assert_eq!((found.rule, &found.remedy), (Code::O1, &Remedy::Requeue { run_at: NOW }));
        found.evidence.strip_prefix("its owner does not execute it, and ").map(str::to_owned)
    };
    assert_eq!(found(Queue::Missing).unwrap(), "its advance task is missing");
    assert_eq!(found(Queue::Completed).unwrap(), "its advance task is completed");
    assert_eq!(found(Queue::Sleeps).unwrap(), "its advance task is dormant");
    for moving in [Queue::Ready, Queue::Claimed, later(1)] {
        assert_eq!(found(moving), None);
    }
}
