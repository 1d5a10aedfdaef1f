//! `goldseam::testing`: the flaws it finds, its messages, and the workflows it accepts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use goldseam::prelude::*;
use goldseam::testing::{Case, Failed, Flaw, Mail, Tester, World};
use goldseam::{Builder, Outcome};

/// A request with an idempotency key.
async fn keyed(world: &World, effect: &str, attempt: Attempt) -> goldseam::Result<()> {
    world.did(effect, attempt.idempotency_key());
    Ok(())
}

async fn ok<T>(value: T) -> goldseam::Result<T> {
    Ok(value)
}

/// Charges, asks, waits for a signal, sleeps, ships.
async fn order(ctx: Context, cents: u64, world: World) -> goldseam::Result<String> {
    ctx.step_with("charge", |attempt| keyed(&world, "charge", attempt)).await?;
    let who: String = ctx.ask("approve", "Ship it?").await?;
    let paid: u64 = ctx.signal("paid").await?;
    ctx.sleep("cool_off", days(30)).await?;
    ctx.step_with("ship", |attempt| keyed(&world, "ship", attempt)).await?;
    Ok(format!("{cents} asked, {paid} paid, {who}"))
}

fn register_order(engine: Builder, world: World) -> Builder {
    engine.workflow("order", move |ctx, cents: u64| order(ctx, cents, world.clone()))
}

fn order_tester() -> Tester {
    Tester::new(register_order).run("order", &42).answer("approve", &"Ada").signal("paid", &42)
}

#[test]
fn runs_once_and_skips_a_month() {
    let report = order_tester().once().unwrap();
    assert_eq!(report.outcome::<String>().unwrap(), "42 asked, 42 paid, Ada");
    assert_eq!((report.cases(), report.crashes(), report.mail()), (1, 0, Mail::default()));
    assert!(report.took() > days(30));
    assert_eq!((report.begun("charge"), report.effects("charge").times), (1, 1));
}

#[test]
fn correct_workflow_survives_every_crash() {
    let report = order_tester().every_crash().unwrap();
    assert_eq!(report.crashes() + 1, report.cases(), "every case but the first has a crash");
    assert!(report.cases() > 15, "{}", report.cases());
    let charge = report.effects("charge");
    assert_eq!((charge.times, charge.counts), (2, 1), "interrupted before its record, and begun again");
    let again: Vec<&str> = report.begun_again().map(|(step, _)| step).collect();
    assert_eq!(again, ["charge", "ship"]);
}

#[test]
fn correct_workflow_survives_seeded_faults() {
    let report = order_tester().seeded(0..60).unwrap();
    assert_eq!(report.cases(), 61);
    assert!(report.crashes() > 20, "{}", report.crashes());
    let Mail { early, lost, twice } = report.mail();
    assert!(early > 5 && lost > 5 && twice > 5, "{:?}", report.mail());
    assert_eq!(report.effects("ship").counts, 1);
}

#[tokio::test]
async fn works_inside_a_tokio_runtime() {
    assert_eq!(order_tester().once().unwrap().cases(), 1);
}

fn first_failure(tester: &Tester) -> Failed {
    tester.every_crash().unwrap_err()
}

/// Calls a service that does not deduplicate.
async fn careless(ctx: Context, _: (), world: World) -> goldseam::Result<()> {
    let send = || {
        world.did_bare("mail");
        ok(())
    };
    ctx.step("mail", send).await
}

#[test]
fn finds_an_effect_that_is_not_idempotent() {
    let tester = Tester::new(|engine, world| {
        engine.workflow("careless", move |ctx, input: ()| careless(ctx, input, world.clone()))
    });
    let tester = tester.run("careless", &());
    let failed = first_failure(&tester);
    let twice = Flaw::OtherEffect { effect: "mail".to_owned(), calm: 1, here: 2 };
    assert_eq!(failed.flaw(), &twice);
    insta::assert_snapshot!("not_idempotent", failed.to_string());
    let alone = tester.case(failed.case()).unwrap_err();
    assert_eq!(alone.to_string(), failed.to_string(), "the case is repeatable");
}

#[test]
fn same_seed_gives_the_same_case() {
    let fail_always = |seed| {
        let tester = order_tester().check(|_| Err("always fails".to_owned()));
        tester.case(Case::Seed(seed)).unwrap_err().to_string()
    };
    // The check already fails in the run without faults, for every seed.
    assert_eq!(fail_always(1), fail_always(1));
    let crash = |seed| {
        let seen = AtomicU64::new(0);
        let tester = order_tester().check(move |_| match seen.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err("fails with faults".to_owned()),
        });
        tester.case(Case::Seed(seed)).unwrap_err().to_string()
    };
    for seed in 0..10 {
        assert_eq!(crash(seed), crash(seed), "seed {seed}");
    }
}

/// Runs another step on each call: it depends on memory instead of the log.
async fn moody(ctx: Context, _: (), world: World) -> goldseam::Result<()> {
    let calls = world.thing::<AtomicU64>();
    let step = if calls.fetch_add(1, Ordering::Relaxed) == 0 { "left" } else { "right" };
    ctx.step(step, || ok(())).await?;
    ctx.step("last", || ok(())).await
}

#[test]
fn finds_code_that_is_not_deterministic() {
    let tester = Tester::new(|engine, world| {
        engine.workflow("moody", move |ctx, input: ()| moody(ctx, input, world.clone()))
    });
    let failed = first_failure(&tester.run("moody", &()));
    assert!(matches!(failed.flaw(), Flaw::NotDeterministic(_)), "{failed}");
    insta::assert_snapshot!("not_deterministic", failed.to_string());
}

/// Returns how often it was called.
async fn counting(ctx: Context, _: (), world: World) -> goldseam::Result<u64> {
    let calls = world.thing::<AtomicU64>().fetch_add(1, Ordering::Relaxed) + 1;
    ctx.step("only", || ok(())).await?;
    Ok(calls)
}

fn counting_tester() -> Tester {
    let setup = |engine: Builder, world: World| {
        engine.workflow("counting", move |ctx, input: ()| counting(ctx, input, world.clone()))
    };
    Tester::new(setup).run("counting", &())
}

#[test]
fn finds_a_different_outcome_unless_it_is_allowed() {
    let failed = first_failure(&counting_tester());
    assert!(matches!(failed.flaw(), Flaw::OtherOutcome { .. }), "{failed}");
    insta::assert_snapshot!("other_outcome", failed.to_string());
    let any = |outcome: &Outcome| matches!(outcome, Outcome::Completed(_));
    counting_tester().allow(any).every_crash().unwrap();
}

#[test]
fn names_a_signal_that_the_test_does_not_send() {
    let tester = Tester::new(register_order).run("order", &1).answer("approve", &"Ada");
    let failed = tester.patience(Duration::from_secs(60)).once().unwrap_err();
    insta::assert_snapshot!("missing_signal", failed.to_string());
}

#[test]
fn refuses_too_many_cases() {
    let failed = order_tester().cases_max(4).every_crash().unwrap_err();
    assert!(matches!(failed.flaw(), Flaw::TooMany { cases_max: 4, .. }), "{failed}");
    insta::assert_snapshot!("too_many", failed.to_string());
}

#[test]
fn explains_why_it_cannot_start() {
    let empty = || Tester::new(|engine, _| engine);
    let message = |tester: Tester| tester.once().unwrap_err().to_string();
    assert_eq!(message(empty()), "cannot start: no workflow to run: call .run(\"workflow\", &input)");
    let unregistered = message(empty().run("order", &1));
    assert!(unregistered.starts_with("workflow order, without faults: cannot start: "), "{unregistered}");
}

#[test]
fn runs_the_users_check_after_every_case() {
    let tester = order_tester().check(|world| match world.effect("charge").times() {
        1 => Ok(()),
        times => Err(format!("{times} requests to charge")),
    });
    let failed = first_failure(&tester);
    assert_eq!(failed.flaw(), &Flaw::Check("2 requests to charge".to_owned()));
}

/// Has a child, a remote step, a retry with a long backoff, and a compensation.
async fn family(ctx: Context, fails: bool, world: World) -> goldseam::Result<u64> {
    let undo = world.clone();
    ctx.step("hold", || ok(7_u64))
        .compensate(move |_| {
            undo.did("release", "7");
            ok(())
        })
        .await?;
    let flaky = |attempt: Attempt| async move {
        if attempt.number() < 3 { Err(Error::retryable("busy")) } else { Ok(()) }
    };
    ctx.step_with("flaky", flaky).retry(Retry::exponential().attempts_max(5)).await?;
    let far: u64 = ctx.remote("far", &3_u64).queue("elsewhere").await?;
    let near: u64 = ctx.child("near", "double", &far).await?;
    if fails { Err(Error::terminal("changed my mind")) } else { Ok(near) }
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
fn supports_children_remote_steps_and_retries() {
    let report = family_tester(false).every_crash().unwrap();
    assert_eq!(report.outcome::<u64>().unwrap(), 8);
    family_tester(false).seeded(0..25).unwrap();
}

#[test]
fn compensates_in_every_case() {
    let report = family_tester(true).every_crash().unwrap();
    assert!(matches!(report.ended(), Outcome::Failed(_)));
    assert!(report.outcome::<u64>().is_err());
    assert_eq!(report.effects("release").counts, 1);
}

/// Takes two requests, publishes the sum, starts a child with a chosen id, and signals it.
async fn talker(ctx: Context, _: (), world: World) -> goldseam::Result<u32> {
    let mut total = 0;
    for _ in 0..2 {
        let line = ctx.requests::<u32>("add").next().await?;
        total += line.value();
        ctx.publish("total", &total).await?;
        ctx.publish("total", &total).await?;
        line.answer(&total).await?;
    }
    let id = format!("{}-hearer", ctx.run_id());
    let hearer = ctx.child::<u32>("hearer", "hearer", &()).id(&id).start().await?;
    ctx.signal_run(&id, "news", &total).await?;
    let received: u32 = hearer.result().await?;
    ctx.step_with("charge", |attempt| keyed(&world, "charge", attempt)).await?;
    Ok(received)
}

async fn hearer(ctx: Context, _: ()) -> goldseam::Result<u32> {
    ctx.signal("news").await
}

fn talker_tester() -> Tester {
    let tester = Tester::new(|engine, world| {
        let talker = move |ctx, input: ()| talker(ctx, input, world.clone());
        engine.workflow("talker", talker).workflow("hearer", hearer)
    });
    tester.run("talker", &()).request("add", &3).request("add", &4)
}

#[test]
fn requests_values_and_signals_survive_every_crash() {
    let report = talker_tester().every_crash().unwrap();
    assert_eq!(report.outcome::<u32>().unwrap(), 7);
    assert!(report.cases() > 20, "{}", report.cases());
    assert_eq!(report.effects("charge").counts, 1);
}

#[test]
fn requests_values_and_signals_survive_seeded_faults() {
    let report = talker_tester().seeded(0..40).unwrap();
    assert_eq!(report.outcome::<u32>().unwrap(), 7);
    assert_eq!(report.effects("charge").counts, 1);
}

#[test]
fn each_generation_gets_its_signal_after_any_crash() {
    async fn counter(ctx: Context, (round, sum): (u32, u32)) -> goldseam::Result<u32> {
        let add: u32 = ctx.signal("add").await?;
        if round == 2 { Ok(sum + add) } else { ctx.continue_as_new(&(round + 1, sum + add)) }
    }
    let tester = Tester::new(|engine, _| engine.workflow("counter", counter)).run("counter", &(0, 0));
    let tester = tester.signal("add", &1).signal("add", &10).signal("add", &100);
    assert_eq!(tester.every_crash().unwrap().outcome::<u32>().unwrap(), 111);
    tester.seeded(0..25).unwrap();
}

/// Reads the ends of two children long after their deadlines.
async fn late_reader(ctx: Context, _: ()) -> goldseam::Result<(String, u32)> {
    let slow = ctx.child::<()>("slow", "slow", &()).timeout(hours(1)).start().await?;
    let quick = ctx.child::<u32>("quick", "quick", &()).timeout(mins(1)).start().await?;
    ctx.sleep("beyond-both", hours(2)).await?;
    let quick = quick.result().await?;
    match slow.result::<()>().await {
        Err(error) if !error.is_cancelled() => Ok((error.code().unwrap_or_default().to_owned(), quick)),
        other => Err(other.err().unwrap_or_else(|| Error::terminal("the slow child ended"))),
    }
}

#[test]
fn ends_of_children_are_read_after_their_deadlines() {
    async fn slow(ctx: Context, _: ()) -> goldseam::Result<()> {
        ctx.signal("never").await
    }
    async fn quick(_: Context, _: ()) -> goldseam::Result<u32> {
        Ok(7)
    }
    let setup = |engine: Builder, _| {
        engine.workflow("reader", late_reader).workflow("slow", slow).workflow("quick", quick)
    };
    let report = Tester::new(setup).run("reader", &()).every_crash().unwrap();
    assert_eq!(report.outcome::<(String, u32)>().unwrap(), ("timeout".to_owned(), 7));
}

/// Handles the error of each operation that can be refused, then fails with a step to undo in an arm of its own.
async fn stubborn(ctx: Context, how: String, world: World) -> goldseam::Result<()> {
    let mut codes = Vec::new();
    let mut note =
        |refused: Option<Error>| codes.push(refused.and_then(|error| error.code().map(str::to_owned)));
    // The id of this run, which is not a child of itself.
    let taken = ctx.child::<u32>("taken", "hearer", &()).id(ctx.run_id().to_string());
    note(match how.as_str() {
        "await" => taken.await.err(),
        "start" => taken.start().await.err(),
        _ => taken.detached().await.err(),
    });
    let no_lane = StartOptions::default().lane("no lane");
    note(ctx.child::<u32>("lane", "hearer", &()).options(no_lane).await.err());
    note(ctx.set_attribute("note", "x".repeat(10_000)).await.err());
    note(ctx.publish("large", &"x".repeat(100_000)).await.err());
    ctx.publish("state", "begun").await?;
    ctx.publish("state", "begun").await?;
    let arm = ctx.arm("booking")?;
    let release = move |_: ()| {
        let world = world.clone();
        async move {
            world.did("release", "7");
            Ok(())
        }
    };
    arm.step("reserve", || async { Ok(()) }).compensate(release).await?;
    Err(Error::terminal(format!("{codes:?}")))
}

#[test]
fn refused_operations_do_not_hide_compensations_after_a_crash() {
    for how in ["await", "start", "detached"] {
        let setup = |engine: Builder, world: World| {
            let stubborn = move |ctx, how: String| stubborn(ctx, how, world.clone());
            engine.workflow("stubborn", stubborn).workflow("hearer", hearer)
        };
        let report = Tester::new(setup).run("stubborn", how).every_crash().unwrap();
        let Outcome::Failed(failure) = report.ended() else { panic!("{how}: {:?}", report.ended()) };
        let codes = r#"[Some("GS0172"), Some("GS0101"), Some("GS0142"), Some("GS0167")]"#;
        assert!(failure.message.contains(codes), "{how}: {failure:?}");
        assert_eq!(report.effects("release").counts, 1, "{how}");
    }
}
