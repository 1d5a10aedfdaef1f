//! The tester of users' workflows: what it finds, what it says, and what it leaves alone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use goldseam::prelude::*;
use goldseam::testing::{Case, Failed, Flaw, Mail, Tester, World};
use goldseam::{Builder, Outcome};

async fn charge(ctx: &Context, world: &World) -> goldseam::Result<()> {
    ctx.step_with("charge", |attempt| {
        world.did("charge", attempt.idempotency_key());
        async { Ok::<_, Error>(()) }
    })
    .await
}

/// Charges, asks, waits for a signal, sleeps, ships.
async fn order(ctx: Context, cents: u64, world: World) -> goldseam::Result<String> {
    charge(&ctx, &world).await?;
    let who: String = ctx.ask("approve", "Ship it?").await?;
    let paid: u64 = ctx.signal("paid").await?;
    ctx.sleep("cool_off", days(30)).await?;
    let ship = |attempt: Attempt| {
        world.did("ship", attempt.idempotency_key());
        async { Ok::<_, Error>(()) }
    };
    ctx.step_with("ship", ship).await?;
    Ok(format!("{cents} asked, {paid} paid, {who}"))
}

fn ordering() -> Tester {
    let setup = |engine: Builder, world: World| {
        engine.workflow("order", move |ctx, cents: u64| order(ctx, cents, world.clone()))
    };
    Tester::new(setup).run("order", &42).answer("approve", &"Ada").signal("paid", &42)
}

#[test]
fn a_workflow_runs_once_and_a_month_takes_no_time() {
    let report = ordering().once().unwrap();
    assert_eq!(report.outcome::<String>().unwrap(), "42 asked, 42 paid, Ada");
    assert_eq!((report.cases(), report.crashes(), report.mail()), (1, 0, Mail::default()));
    assert!(report.took() > days(30));
    assert_eq!((report.begun("charge"), report.effects("charge").times), (1, 1));
}

#[test]
fn a_sound_workflow_survives_a_crash_before_and_after_every_append() {
    let report = ordering().every_crash().unwrap();
    assert_eq!(report.crashes() + 1, report.cases(), "every case but the first has its crash");
    assert!(report.cases() > 15, "{}", report.cases());
    let charge = report.effects("charge");
    assert_eq!((charge.times, charge.counts), (2, 1), "cut off before its record, and begun again");
    let again: Vec<&str> = report.begun_again().map(|(step, _)| step).collect();
    assert_eq!(again, ["charge", "ship"]);
}

#[test]
fn a_sound_workflow_survives_what_seeds_draw() {
    let report = ordering().seeded(0..60).unwrap();
    assert_eq!(report.cases(), 61);
    assert!(report.crashes() > 20, "{}", report.crashes());
    let Mail { early, lost, twice } = report.mail();
    assert!(early > 5 && lost > 5 && twice > 5, "{:?}", report.mail());
    assert_eq!(report.effects("ship").counts, 1);
}

#[tokio::test]
async fn a_test_with_a_runtime_can_ask_too() {
    assert_eq!(ordering().once().unwrap().cases(), 1);
}

fn first_flaw(tester: &Tester) -> Failed {
    tester.every_crash().unwrap_err()
}

/// A service without keys does it again.
async fn careless(ctx: Context, _: (), world: World) -> goldseam::Result<()> {
    let send = || {
        world.did_bare("mail");
        async { Ok::<_, Error>(()) }
    };
    ctx.step("mail", send).await
}

#[test]
fn an_effect_that_is_not_idempotent_is_caught() {
    let tester = Tester::new(|engine, world| {
        engine.workflow("careless", move |ctx, input: ()| careless(ctx, input, world.clone()))
    });
    let tester = tester.run("careless", &());
    let failed = first_flaw(&tester);
    let twice = Flaw::OtherEffect { effect: "mail".to_owned(), calm: 1, here: 2 };
    assert_eq!(failed.flaw(), &twice);
    insta::assert_snapshot!("not_idempotent", failed.to_string());
    let alone = tester.case(failed.case()).unwrap_err();
    assert_eq!(alone.to_string(), failed.to_string(), "the case repeats itself");
}

#[test]
fn the_same_seed_is_the_same_case() {
    let told = |seed| {
        let tester = ordering().check(|_| Err("never content".to_owned()));
        tester.case(Case::Seed(seed)).unwrap_err().to_string()
    };
    // The check fails in the run without faults already; so it does with every seed.
    assert_eq!(told(1), told(1));
    let crash = |seed| {
        let seen = AtomicU64::new(0);
        let tester = ordering().check(move |_| match seen.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err("not content".to_owned()),
        });
        tester.case(Case::Seed(seed)).unwrap_err().to_string()
    };
    for seed in 0..10 {
        assert_eq!(crash(seed), crash(seed), "seed {seed}");
    }
}

/// Does another step when it is called again: what is counted in memory is gone after a crash, or is not.
async fn moody(ctx: Context, _: (), world: World) -> goldseam::Result<()> {
    let calls = world.thing::<AtomicU64>();
    let step = if calls.fetch_add(1, Ordering::Relaxed) == 0 { "left" } else { "right" };
    ctx.step(step, || async { Ok::<_, Error>(()) }).await?;
    ctx.step("last", || async { Ok::<_, Error>(()) }).await
}

#[test]
fn code_that_is_not_deterministic_is_caught() {
    let tester = Tester::new(|engine, world| {
        engine.workflow("moody", move |ctx, input: ()| moody(ctx, input, world.clone()))
    });
    let failed = first_flaw(&tester.run("moody", &()));
    assert!(matches!(failed.flaw(), Flaw::NotDeterministic(_)), "{failed}");
    insta::assert_snapshot!("not_deterministic", failed.to_string());
}

/// Returns how often it was called.
async fn counting(ctx: Context, _: (), world: World) -> goldseam::Result<u64> {
    let calls = world.thing::<AtomicU64>().fetch_add(1, Ordering::Relaxed) + 1;
    ctx.step("only", || async { Ok::<_, Error>(()) }).await?;
    Ok(calls)
}

fn counting_tester() -> Tester {
    let setup = |engine: Builder, world: World| {
        engine.workflow("counting", move |ctx, input: ()| counting(ctx, input, world.clone()))
    };
    Tester::new(setup).run("counting", &())
}

#[test]
fn an_outcome_that_a_crash_changes_is_caught_unless_it_is_allowed() {
    let failed = first_flaw(&counting_tester());
    assert!(matches!(failed.flaw(), Flaw::OtherOutcome { .. }), "{failed}");
    insta::assert_snapshot!("other_outcome", failed.to_string());
    let any = |outcome: &Outcome| matches!(outcome, Outcome::Completed(_));
    counting_tester().allow(any).every_crash().unwrap();
}

#[test]
fn a_signal_that_nobody_sends_is_named() {
    let setup = |engine: Builder, world: World| {
        engine.workflow("order", move |ctx, cents: u64| order(ctx, cents, world.clone()))
    };
    let tester = Tester::new(setup).run("order", &1).answer("approve", &"Ada");
    let failed = tester.patience(Duration::from_secs(60)).once().unwrap_err();
    insta::assert_snapshot!("nobody_signals", failed.to_string());
}

#[test]
fn too_many_cases_are_refused_before_any_is_run() {
    let failed = ordering().cases_max(4).every_crash().unwrap_err();
    assert!(matches!(failed.flaw(), Flaw::TooMany { cases_max: 4, .. }), "{failed}");
    insta::assert_snapshot!("too_many", failed.to_string());
}

#[test]
fn what_cannot_start_says_why() {
    let nothing = Tester::new(|engine, _| engine);
    let told = [
        nothing.once().unwrap_err().to_string(),
        Tester::new(|engine, _| engine).run("order", &1).once().unwrap_err().to_string(),
    ];
    insta::assert_snapshot!("cannot_start", told.join("\n\n"));
}

#[test]
fn the_users_own_check_is_asked_after_every_case() {
    let failed = ordering().check(|world| match world.effect("charge").times() {
        1 => Ok(()),
        times => Err(format!("{times} requests to charge")),
    });
    let failed = first_flaw(&failed);
    assert_eq!(failed.flaw(), &Flaw::Check("2 requests to charge".to_owned()));
}

/// A child, a remote step, a retry with a long pause, and something to undo.
async fn family(ctx: Context, fails: bool, world: World) -> goldseam::Result<u64> {
    let undo = world.clone();
    ctx.step("hold", || async { Ok::<_, Error>(7_u64) })
        .compensate(move |_| {
            undo.did("release", "7");
            async { Ok::<_, Error>(()) }
        })
        .await?;
    let flaky = |attempt: Attempt| async move {
        if attempt.number() < 3 { Err(Error::retryable("busy")) } else { Ok(()) }
    };
    ctx.step_with("flaky", flaky).retry(Retry::exponential().max_attempts(5)).await?;
    let far: u64 = ctx.remote("far", &3_u64).queue("elsewhere").await?;
    let near: u64 = ctx.child("near", "double", &far).await?;
    match fails {
        true => Err(Error::terminal("changed my mind")),
        false => Ok(near),
    }
}

async fn double(ctx: Context, number: u64) -> goldseam::Result<u64> {
    ctx.signal::<()>("go").await?;
    Ok(number * 2)
}

fn family_tester(fails: bool) -> Tester {
    let setup = |engine: Builder, world: World| {
        engine
            .workflow("family", move |ctx, fails: bool| family(ctx, fails, world.clone()))
            .workflow("double", double)
    };
    Tester::new(setup).run("family", &fails).signal("go", &()).worker("elsewhere", |_, task| {
        let input: u64 = task.payload.read().map_err(|error| Error::terminal(error.to_string()))?;
        Ok(input + 1)
    })
}

#[test]
fn children_remote_steps_and_retries_are_part_of_it() {
    let report = family_tester(false).every_crash().unwrap();
    assert_eq!(report.outcome::<u64>().unwrap(), 8);
    family_tester(false).seeded(0..25).unwrap();
}

#[test]
fn what_was_done_is_undone_in_every_case() {
    let report = family_tester(true).every_crash().unwrap();
    assert!(matches!(report.ended(), Outcome::Failed(_)));
    assert!(report.outcome::<u64>().is_err());
    assert_eq!(report.effects("release").counts, 1);
}
