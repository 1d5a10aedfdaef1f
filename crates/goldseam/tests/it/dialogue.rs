//! Published values, requests and their answers, and signals from run to run.

use std::time::Duration;

use goldseam::client::{Jump, Reply, ReplyOptions, RequestOptions};
use goldseam::prelude::*;
use goldseam::{EngineError, Limits, Payload, RunHandle, Seq, Status};

use crate::support::{Scratch, ok, reaches, run_id};

fn names(history: &[goldseam::unstable::core::Recorded], name: &str) -> usize {
    history.iter().filter(|recorded| recorded.event.name() == name).count()
}

fn options(id: &str, timeout: Duration) -> RequestOptions {
    RequestOptions { id: Some(id.to_owned()), timeout }
}

fn back(id: &str, seq: Option<Seq>, timeout: u64) -> ReplyOptions {
    ReplyOptions { id: id.to_owned(), seq, timeout: secs(timeout) }
}

fn code<T: std::fmt::Debug>(result: Result<T, EngineError>) -> &'static str {
    result.unwrap_err().code()
}

async fn three(ctx: Context, _: ()) -> goldseam::Result<()> {
    ctx.publish("progress", &1).await?;
    ctx.step("a", || ok(())).await?;
    ctx.publish("progress", &1).await?;
    ctx.publish("progress", &2).await?;
    ctx.step("b", || ok(())).await?;
    ctx.publish("progress", &2).await?;
    ctx.publish("who", "Ada").await?;
    ctx.signal("stop").await
}

#[tokio::test]
async fn published_values_survive_replays_and_the_end() {
    let scratch = Scratch::new();
    let engine = scratch.engine("three", three).await;
    let run = engine.start(three, "t", &()).await.unwrap();
    reaches(engine.client(), "t", Status::Waiting).await;
    assert_eq!(run.published::<u32>("progress").await.unwrap(), 2);
    engine.shutdown().await;
    // Another process reads without an engine, and the next engine replays.
    let client = scratch.client().await;
    let all = client.published_all(&run_id("t")).await.unwrap();
    let shown: Vec<(&str, &str)> = all.iter().map(|p| (p.name.as_str(), p.value.as_str())).collect();
    assert_eq!(shown, [("progress", "2"), ("who", r#""Ada""#)]);
    let engine = scratch.engine("three", three).await;
    let run: RunHandle = engine.client().handle(run_id("t"));
    run.signal("stop", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(run.published::<String>("who").await.unwrap(), "Ada");
    assert_eq!(names(&run.history().await.unwrap(), "value.published"), 3, "equal values leave no event");
    let missing = run.published::<u32>("speed").await.unwrap_err();
    assert_eq!(missing.code(), "GS0168");
    assert!(missing.to_string().ends_with("it has published progress, who"), "{missing}");
    assert_eq!(code(run.published::<u32>("a b").await), "GS0101");
    assert_eq!(code(client.published(&run_id("none"), "x").await), "GS0104");
    engine.shutdown().await;
}

#[tokio::test]
async fn a_jump_back_shows_the_earlier_value() {
    async fn prices(ctx: Context, counter: u32) -> goldseam::Result<()> {
        ctx.publish("price", &counter).await?;
        ctx.step("charge", || ok(())).await?;
        ctx.publish("price", &(counter + 1)).await?;
        ctx.signal("paid").await
    }
    let scratch = Scratch::new();
    let engine = scratch.engine("prices", prices).await;
    let run = engine.start(prices, "p", &7).await.unwrap();
    reaches(engine.client(), "p", Status::Waiting).await;
    assert_eq!(run.published::<u32>("price").await.unwrap(), 8);
    run.pause("look").await.unwrap();
    reaches(engine.client(), "p", Status::Paused).await;
    run.jump("charge", Jump::default()).await.unwrap();
    assert_eq!(run.published::<u32>("price").await.unwrap(), 7);
    run.resume("go").await.unwrap();
    run.wait_until(|row| row.status == Status::Waiting).await.unwrap();
    assert_eq!(run.published::<u32>("price").await.unwrap(), 8);
    engine.shutdown().await;
}

#[tokio::test]
async fn publishing_too_much_is_refused_and_changes_nothing() {
    async fn greedy(ctx: Context, _: ()) -> goldseam::Result<Vec<String>> {
        let mut refused = Vec::new();
        let large = "x".repeat(64 * 1024);
        refused.push(ctx.publish("large", &large).await.unwrap_err().to_string());
        for number in 0..33 {
            if let Err(error) = ctx.publish(&format!("n{number}"), &number).await {
                refused.push(error.code().unwrap_or_default().to_owned());
            }
        }
        ctx.publish("n0", &100).await?;
        Ok(refused)
    }
    let scratch = Scratch::new();
    let engine = scratch.engine("greedy", greedy).await;
    let run = engine.start(greedy, "g", &()).await.unwrap();
    let refused = run.result().await.unwrap();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].contains("the limit is 65536"), "{refused:?}");
    assert_eq!(refused[1], "GS0167");
    assert_eq!(run.published::<u32>("n0").await.unwrap(), 100);
    assert_eq!(code(run.published::<u32>("n32").await), "GS0168");
    engine.shutdown().await;
}

async fn basket(ctx: Context, lines: u32) -> goldseam::Result<u32> {
    let mut total = 0;
    for _ in 0..lines {
        let request = ctx.requests::<u32>("add").next().await?;
        if total + request.value() > 100 {
            request.refuse("the basket is full").await?;
            continue;
        }
        total += request.value();
        request.answer(&total).await?;
    }
    ctx.signal::<()>("close").await?;
    Ok(total)
}

#[tokio::test]
async fn a_request_is_answered_once_and_the_answer_is_kept() {
    let scratch = Scratch::new();
    let engine = scratch.engine("basket", basket).await;
    let run = engine.start(basket, "b", &3).await.unwrap();
    let ask =
        async |value: u32, id: &str| run.request_with::<_, u32>("add", &value, options(id, secs(20))).await;
    assert_eq!(ask(40, "one").await.unwrap(), 40);
    assert_eq!(ask(40, "one").await.unwrap(), 40, "the same id is the same request");
    assert_eq!(code(ask(41, "one").await), "GS0174", "other content under the same id is refused");
    let refused = ask(70, "two").await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.to_string().as_str()),
        ("GS0170", "run b refused request add: the basket is full")
    );
    assert_eq!(ask(50, "three").await.unwrap(), 90);
    // Content of another type is refused while the run waits, or later.
    run.signal("close", &()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 90);
    assert_eq!(ask(40, "one").await.unwrap(), 40, "the answer outlives the run");
    assert_eq!(code(ask(1, "four").await), "GS0105");
    assert_eq!(names(&run.history().await.unwrap(), "request.answered"), 3);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_request_waits_for_an_engine_and_survives_it() {
    let scratch = Scratch::new();
    let client = scratch.client().await;
    let run = client.start("basket", "b", &1).await.unwrap();
    let value = || Payload::of(&5, &Limits::default()).unwrap();
    let first = client.request(run.id(), "add", value(), options("one", Duration::ZERO)).await.unwrap();
    assert_eq!(first.reply, Reply::Pending);
    let pending = first.clone().answer(run.id(), "add").unwrap_err();
    assert_eq!(pending.code(), "GS0169");
    let engine = scratch.engine("basket", basket).await;
    let later = client.reply(run.id(), "add", back("one", Some(first.seq), 20)).await.unwrap();
    assert_eq!(later.reply, Reply::Answered(value()));
    engine.shutdown().await;
    assert_eq!(client.reply(run.id(), "add", back("one", None, 0)).await.unwrap(), later);
    assert_eq!(code(client.reply(run.id(), "add", back("two", None, 0)).await), "GS0175");
    assert_eq!(code(client.reply(run.id(), "sub", back("one", None, 0)).await), "GS0175");
    assert_eq!(code(client.request(&run_id("none"), "add", value(), options("x", secs(1))).await), "GS0104");
    assert_eq!(code(client.request(run.id(), "a b", value(), options("x", secs(1))).await), "GS0101");
    let large = Payload::of(&"x".repeat(300_000), &Limits::default());
    assert!(large.is_err(), "the size limit of payloads applies");
}

#[tokio::test]
async fn a_run_that_ends_leaves_no_requester_waiting() {
    let scratch = Scratch::new();
    let engine = scratch.engine("basket", basket).await;
    let run = engine.start(basket, "b", &1).await.unwrap();
    reaches(engine.client(), "b", Status::Waiting).await;
    let other = run.request_with::<_, u32>("remove", &1, options("r", mins(5)));
    let ending = async {
        run.wait_until(|row| row.mail_count > 0).await.unwrap();
        run.cancel("closed").await.unwrap();
    };
    let (asked, ()) = tokio::join!(other, ending);
    let error = asked.unwrap_err();
    assert_eq!(error.code(), "GS0171");
    assert_eq!(error.to_string(), "run b is cancelled and did not answer request remove (id r)");
    engine.shutdown().await;
}

#[tokio::test]
async fn after_a_jump_a_request_is_handled_again_and_answered_once() {
    async fn flow(ctx: Context, counter: u32) -> goldseam::Result<u32> {
        let base = ctx.step("base", || ok(counter)).await?;
        let request = ctx.requests::<u32>("add").next().await?;
        let total = base + request.value();
        request.answer(&total).await?;
        ctx.signal::<()>("close").await?;
        Ok(total)
    }
    let scratch = Scratch::new();
    let engine = scratch.engine("flow", flow).await;
    let run = engine.start(flow, "f", &1).await.unwrap();
    let ask = || run.request_with::<_, u32>("add", &10, options("one", secs(20)));
    assert_eq!(ask().await.unwrap(), 11);
    let input = Some(Payload::of(&2, &Limits::default()).unwrap());
    run.jump("base", Jump { input, ..Jump::default() }).await.unwrap();
    run.signal("close", &()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 12, "the new branch received the request again");
    assert_eq!(ask().await.unwrap(), 11, "the first answer is the only one");
    assert_eq!(names(&run.history().await.unwrap(), "request.answered"), 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn content_that_does_not_fit_is_refused_and_the_run_goes_on() {
    async fn pick(ctx: Context, _: ()) -> goldseam::Result<u32> {
        let any = serde_json::json!(true);
        let request = ctx.requests::<u32>("pick").schema(any).next().await?;
        let value = *request.value();
        request.answer(&value).await?;
        Ok(value)
    }
    let scratch = Scratch::new();
    let engine = scratch.engine("pick", pick).await;
    let run = engine.start(pick, "p", &()).await.unwrap();
    let error = run.request::<_, u32>("pick", "three").await.unwrap_err();
    assert_eq!(error.code(), "GS0170");
    assert!(error.to_string().contains("the content does not fit"), "{error}");
    assert_eq!(run.request::<_, u32>("pick", &3).await.unwrap(), 3);
    assert_eq!(run.result().await.unwrap(), 3);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_run_signals_another_exactly_once() {
    let scratch = Scratch::new();
    let teller = |ctx: Context, other: String| async move {
        ctx.signal_run(&other, "news", &1).await?;
        ctx.signal::<()>("stop").await
    };
    let hearer = |ctx: Context, _: ()| async move { ctx.signal::<u32>("news").await };
    let builder = scratch.builder().await.workflow("teller", teller).workflow("hearer", hearer);
    let engine = builder.start().await.unwrap();
    let received = engine.start("hearer", "h", &()).await.unwrap();
    let run = engine.start("teller", "t", "h").await.unwrap();
    assert_eq!(received.result::<u32>().await.unwrap(), 1);
    reaches(engine.client(), "t", Status::Waiting).await;
    run.signal("stop", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(names(&received.history().await.unwrap(), "signal.received"), 1);
    for (id, other, code) in [("t2", "none", "GS0104"), ("t3", "h", "GS0105"), ("t4", "a b", "GS0101")] {
        let failed = engine.start("teller", id, other).await.unwrap().result::<()>().await.unwrap_err();
        let EngineError::Ended { failure, .. } = failed else { panic!("{failed:?}") };
        assert_eq!(failure.code.as_deref(), Some(code), "{failure:?}");
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn a_replay_does_not_publish_an_older_value_again() {
    async fn stages(ctx: Context, _: ()) -> goldseam::Result<()> {
        ctx.publish("stage", "packed").await?;
        // Leaves no event, and everything that follows in the log is in an arm.
        ctx.publish("stage", "packed").await?;
        let arm = ctx.arm("truck")?;
        arm.publish("stage", "shipped").await?;
        arm.signal("stop").await
    }
    let scratch = Scratch::new();
    let engine = scratch.engine("stages", stages).await;
    engine.start(stages, "s", &()).await.unwrap();
    reaches(engine.client(), "s", Status::Waiting).await;
    engine.shutdown().await;
    let engine = scratch.engine("stages", stages).await;
    let run: RunHandle = engine.client().handle(run_id("s"));
    run.signal("stop", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(run.published::<String>("stage").await.unwrap(), "shipped");
    assert_eq!(names(&run.history().await.unwrap(), "value.published"), 2);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_lower_limit_does_not_refuse_what_the_log_has() {
    async fn talk(ctx: Context, _: ()) -> goldseam::Result<()> {
        ctx.publish("text", &"x".repeat(500)).await?;
        ctx.signal("stop").await
    }
    let scratch = Scratch::new();
    let engine = scratch.engine("talk", talk).await;
    engine.start(talk, "t", &()).await.unwrap();
    reaches(engine.client(), "t", Status::Waiting).await;
    engine.shutdown().await;
    let limits = Limits { published_bytes_max: 100, ..Limits::default() };
    let engine = scratch.builder().await.limits(limits).workflow("talk", talk).start().await.unwrap();
    let run: RunHandle = engine.client().handle(run_id("t"));
    run.signal("stop", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    engine.shutdown().await;
}

#[tokio::test]
async fn a_request_may_wait_without_a_limit() {
    async fn echo(ctx: Context, _: ()) -> goldseam::Result<()> {
        let request = ctx.requests::<u32>("echo").next().await?;
        let value = *request.value();
        request.answer(&value).await
    }
    let scratch = Scratch::new();
    let engine = scratch.engine("echo", echo).await;
    let run = engine.start(echo, "e", &()).await.unwrap();
    let asked = run.request_with::<_, u32>("echo", &7, options("r", Duration::MAX)).await;
    assert_eq!(asked.unwrap(), 7);
    let later = ReplyOptions { timeout: Duration::MAX, ..back("r", None, 0) };
    assert!(matches!(
        engine.client().reply(run.id(), "echo", later).await.unwrap().reply,
        Reply::Answered(_)
    ));
    engine.shutdown().await;
}

#[tokio::test]
async fn an_empty_id_is_refused_and_nothing_is_sent() {
    let scratch = Scratch::new();
    let client = scratch.client().await;
    let run = client.start("three", "t", &()).await.unwrap();
    assert_eq!(code(run.request_with::<_, u32>("echo", &7, options("", Duration::ZERO)).await), "GS0138");
    let payload = Payload::of(&1, &Limits::default()).unwrap();
    assert_eq!(code(client.signal(run.id(), "go", payload, Some(String::new())).await), "GS0138");
    assert_eq!(run.history().await.unwrap().len(), 1);
}
