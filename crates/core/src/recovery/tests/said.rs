//! Texts of findings for people, repairs at a claim, and the arithmetic of recovery.

use super::blame::span;
use super::*;
use crate::Corrupt;
use crate::form::Form;

fn a_failure() -> Failure {
    Failure::terminal("no stock")
}

#[test]
fn remedies_have_short_descriptions() {
    let path = path("pick");
    let attempt = 2;
    let task = Box::new(a_task(TaskId::new("t-1").unwrap()));
    let child = RunId::new("c1").unwrap();
    let table = [
        (Remedy::Branch { cutoff: Seq(7) }, "open a branch at event 7"),
        (Remedy::Retry { path: path.clone(), attempt }, "retry step pick, attempt 2"),
        (Remedy::Requeue { run_at: Millis::NEVER }, "create a dormant advance task"),
        (Remedy::Requeue { run_at: Millis(5) }, "create an advance task"),
        (Remedy::Reclaim, "return its task to the queue"),
        (Remedy::Wake, "wake the run"),
        (Remedy::Deliver { child, result: Ok(json("1")) }, "deliver the end of child c1"),
        (
            Remedy::TakeResult { path: path.clone(), attempt, task: task.clone() },
            "take the result of step pick from its task",
        ),
        (Remedy::SendAgain { path: path.clone(), attempt }, "create a new task for step pick"),
        (Remedy::GiveUp { path, attempt, task }, "give up attempt 2 of step pick"),
        (Remedy::Fail { failure: a_failure() }, "fail the run: no stock"),
        (Remedy::Park { reason: "x".into() }, "park the run"),
        (Remedy::Tell { hint: "call Ada".into() }, "call Ada"),
    ];
    for (remedy, words) in table {
        assert_eq!(remedy.describe().as_str(), words);
        assert_eq!(remedy.is_automatic(), words != "call Ada", "{words}");
    }
}

#[test]
fn each_reason_has_one_word() {
    let reasons = [Reason::InfrastructureRestart, Reason::StaleDetection, Reason::Manual];
    assert_eq!(reasons.map(Reason::as_str), ["infrastructure_restart", "stale_detection", "manual"]);
}

#[test]
fn a_parked_run_stays_a_finding_with_a_hint() {
    let park = |code| {
        let log = Log::running().owned(vec![Owned::Park { code, reason: "step 3 differs".into() }]);
        Case::resting(log, Queue::Missing).diagnoses()
    };
    let resume = NextStep::resume(&RunId::new("r1").unwrap());
    let explain = Hint::from("resolve the problem (").step(NextStep::explain("GS0116")).text("), then: ");
    for (code, rule, hint) in [
        ("K1", Code::K1, Hint::from("resolve the problem, then: ").step(resume.clone())),
        ("GS0116", Code::V1, explain.step(resume.clone())),
    ] {
        let evidence = "step 3 differs".to_owned();
        assert_eq!(park(code), [Diagnosis { rule, evidence, remedy: Remedy::Tell { hint } }]);
    }
}

#[test]
fn a_log_that_cannot_be_read_parks_its_run() {
    let found = damaged(&Corrupt::new(Seq(7), "it is missing"));
    let reason = "event 7 of the log is damaged: it is missing".to_owned();
    assert_eq!(
        found,
        Diagnosis { rule: Code::K1, evidence: reason.clone(), remedy: Remedy::Park { reason } }
    );
}

#[test]
fn a_claim_repairs_d2_and_retryable_a4() {
    let remedies = [half_a_jump(), failed_with(2), failed_with(0), failed_then_went_on(), Log::running()]
        .map(|log| at_claim(log.state()).map(|found| (found.rule, found.remedy)));
    let again = Remedy::Retry { path: path("b"), attempt: 2 };
    let cut = Remedy::Branch { cutoff: Seq(5) };
    assert_eq!(remedies, [Some((Code::D2, cut)), Some((Code::A4, again)), None, None, None]);
}

#[test]
fn stable_is_a_completed_step_or_an_answer_that_was_read() {
    let stable = |log: &Log| last_stable(log.state());
    let log = Log::running();
    assert_eq!(stable(&log), None);
    let log = log.completed("a");
    let done = log.end();
    assert_eq!(stable(&log), Some(done));
    let log = log.started("b", 1).failed("c", None).waits("w", &["go"]).signalled("go", "s1").checks("w");
    let log = log.asks("q", Form::Text);
    assert_eq!(stable(&log), Some(done), "neither starts, failures and signals nor questions");
    let log = log.act(answer("q", "a1", "\"yes\"")).checks("q");
    assert_eq!(stable(&log), Some(log.end()));
}

#[test]
fn the_first_recovery_always_counts() {
    let summary = Summary { attempt: 0, lived_ms: Some(1), ..Log::running().state().summary.clone() };
    let bounds = Bounds { attempts_max: 9, park: true };
    assert_eq!(next_attempt(&summary, span(1_000), bounds, false), 1);
    let often = Summary { attempt: 4, lived_ms: None, ..summary };
    assert_eq!(next_attempt(&often, span(1_000), bounds, false), 5);
}

#[test]
fn used_up_fails_the_run_with_the_code_of_its_rule() {
    let bounds = Bounds { park: false, ..Bounds::default() };
    let summary = &Log::running().state().summary.clone();
    let Remedy::Fail { failure } = used_up(summary, bounds) else { panic!("it fails") };
    assert_eq!((failure.class, failure.code.as_deref()), (crate::Class::Terminal, Some("P1")));
}

#[test]
fn rules_have_pages_and_codes_and_know_whether_they_read_rows() {
    let of_rows = CATALOGUE.iter().map(|rule| rule.code).filter(|code| code.reads_cached_row());
    assert_eq!(of_rows.collect::<Vec<_>>(), [Code::A2, Code::A1, Code::A3]);
    assert_eq!(
        (Code::O2.rule().page(), format!("{:>4}", Code::O2)),
        ("docs/codes/O2.md".into(), "  O2".into())
    );
    assert_eq!("o2".parse(), Ok(Code::O2));
    assert!(
        "Z9".parse::<Code>()
            .unwrap_err()
            .to_string()
            .starts_with("\"Z9\" is not a rule; rules are: log-damaged (K1), ")
    );
}
