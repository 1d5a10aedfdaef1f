//! The simulated workflows. Each step is recorded in the journal before it does anything else.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{Retry, RunId};
use goldseam_engine::{Attempt, Builder, Context, Error, Result, Selected, StartOptions};
use goldseam_store::FaultyStore;

use crate::journal::{EffectSource, Journal};
use crate::random::fold;

/// The names of all workflows, in the order of the random choice.
pub const WORKFLOWS: &[&str] = &[
    "steps", "parallel", "flaky", "sleeper", "signals", "question", "parent", "saga", "rounds", "once",
    "mixed", "undoing", "remote", "relay",
];

/// The workflow that answers requests, in seeds in which people send them.
pub const BASKET: &str = "basket";

/// The workflow with children of every kind and signals to other runs, in seeds that have it.
pub const KIN: &str = "kin";

/// The requests that the basket answers.
pub const ADD: &str = "add";

/// The id and the workflow of the run that crashes its node, in seeds that have one.
pub const POISON: &str = "poison";

/// The step that crashes its node.
pub const STRIKE: &str = "strike";

/// The `at_most_once` step.
pub const ONCE: &str = "once";

/// The queue of all remote steps.
pub const QUEUE: &str = "elsewhere";

/// The side effects of a node's steps.
#[derive(Debug, Clone)]
pub struct Effects {
    journal: Arc<Journal>,
    node: usize,
    life: usize,
    pace: u32,
    link: Option<Arc<FaultyStore>>,
}

impl Effects {
    /// Creates the effects of node `node`.
    pub fn new(journal: Arc<Journal>, node: usize) -> Self {
        Self { journal, node, life: node, pace: 1, link: None }
    }

    /// Sets the incarnation and its connection: while it is frozen or dead, there are no effects.
    #[must_use]
    pub fn with(self, life: usize, link: Arc<FaultyStore>) -> Self {
        Self { life, link: Some(link), ..self }
    }

    /// Divides all durations by `pace`, for scenarios in real time.
    #[must_use]
    pub fn faster(self, pace: u32) -> Self {
        Self { pace: pace.max(1), ..self }
    }

    async fn awake(&self) {
        if let Some(link) = &self.link {
            link.awake().await;
        }
    }

    async fn work(self, run: RunId, step: String, attempt: Attempt) -> Result<u64> {
        self.awake().await;
        let key = attempt.idempotency_key().to_owned();
        let drawn = fold(&key);
        let number = attempt.number();
        let source = EffectSource { attempt: number, key, node: self.node, life: self.life };
        let _effect = self.journal.begin_effect(&run, &step, source);
        // Most steps are short, some are longer than a takeover takes.
        let span = match drawn % 10 {
            0..4 => 0,
            4..8 => drawn / 10 % 300,
            8 => 700 + drawn / 10 % 900,
            _ => 2_500,
        };
        if span > 0 {
            tokio::time::sleep(Duration::from_millis(span) / self.pace).await;
        }
        Ok(drawn % 1_000)
    }

    /// Crashes the node: no further call reaches the store.
    async fn strike(self, run: RunId, attempt: Attempt) -> Result<u64> {
        self.awake().await;
        let source = EffectSource {
            attempt: attempt.number(),
            key: attempt.idempotency_key().to_owned(),
            node: self.node,
            life: self.life,
        };
        self.journal.effect(&run, STRIKE, source);
        tokio::time::sleep(Duration::from_millis(30)).await;
        if let Some(link) = &self.link {
            link.crash();
        }
        std::future::pending().await
    }

    async fn undo(self, run: RunId, step: String) -> Result<()> {
        self.awake().await;
        let source = EffectSource { attempt: 0, key: String::new(), node: self.node, life: self.life };
        let _effect = self.journal.begin_effect(&run, &step, source);
        tokio::time::sleep(Duration::from_millis(20) / self.pace).await;
        Ok(())
    }
}

/// Registers all workflows under each of these versions, with the same code.
pub fn register(builder: Builder, effects: &Effects, versions: &[u32]) -> Builder {
    versions.iter().fold(builder, |builder, version| register_version(builder, effects, *version))
}

fn register_version(builder: Builder, effects: &Effects, version: u32) -> Builder {
    macro_rules! flow {
        ($builder:expr, $name:ident) => {{
            let effects = effects.clone();
            let work = move |ctx: Context, input: u32| $name(effects.clone(), ctx, input);
            $builder.workflow_version(stringify!($name), version, work)
        }};
    }
    let builder = flow!(builder, steps);
    let builder = flow!(builder, parallel);
    let builder = flow!(builder, flaky);
    let builder = flow!(builder, sleeper);
    let builder = flow!(builder, signals);
    let builder = flow!(builder, question);
    let builder = flow!(builder, parent);
    let builder = flow!(builder, saga);
    let builder = flow!(builder, rounds);
    let builder = flow!(builder, once);
    let builder = flow!(builder, mixed);
    let builder = flow!(builder, undoing);
    let builder = flow!(builder, remote);
    let builder = flow!(builder, poison);
    let builder = flow!(builder, basket);
    let builder = flow!(builder, kin);
    let builder = flow!(builder, receiver);
    flow!(builder, relay)
}

/// Executes the step `name`.
async fn step(effects: &Effects, ctx: &Context, name: &str) -> Result<u64> {
    let run = ctx.run_id().clone();
    ctx.step_with(name, |attempt| effects.clone().work(run.clone(), name.to_owned(), attempt)).await
}

/// Executes the step `name`, with a compensation.
async fn undoable(effects: &Effects, ctx: &Context, name: &str) -> Result<u64> {
    let run = ctx.run_id().clone();
    let undo_effects = effects.clone();
    let undo_run = run.clone();
    let undo_step = format!("undo-{name}");
    ctx.step_with(name, |attempt| effects.clone().work(run.clone(), name.to_owned(), attempt))
        .compensate(move |_: u64| undo_effects.clone().undo(undo_run.clone(), undo_step.clone()))
        .await
}

async fn steps(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    let mut total = u64::from(input);
    for name in ["one", "two", "three"] {
        total += step(&effects, &ctx, name).await?;
    }
    ctx.progress("all done").await?;
    Ok(total)
}

/// Runs to a step that crashes its node.
async fn poison(effects: Effects, ctx: Context, _input: u32) -> Result<u64> {
    step(&effects, &ctx, "before").await?;
    let run = ctx.run_id().clone();
    ctx.step_with(STRIKE, |attempt| effects.clone().strike(run.clone(), attempt)).await
}

async fn parallel(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    let first = step(&effects, &ctx, "first").await?;
    let run = ctx.run_id().clone();
    let parts = (0..4u32).map(|n| {
        let effects = effects.clone();
        let run = run.clone();
        ctx.step_with(("part", n), move |attempt| {
            effects.clone().work(run.clone(), format!("part-{n}"), attempt)
        })
    });
    let parts = ctx.join(parts).await?;
    let last = step(&effects, &ctx, "last").await?;
    Ok(first + parts.iter().sum::<u64>() + last + u64::from(input))
}

async fn flaky(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    let run = ctx.run_id().clone();
    let tries = 2 + input % 3;
    let retry = Retry::fixed(Duration::from_millis(150)).attempts_max(8);
    let got = ctx
        .step_with("flaky", |attempt| {
            let work = effects.clone().work(run.clone(), "flaky".to_owned(), attempt.clone());
            async move {
                let value = work.await?;
                if attempt.number() < tries { Err(Error::retryable("not yet")) } else { Ok(value) }
            }
        })
        .retry(retry)
        .await?;
    Ok(got + step(&effects, &ctx, "after").await?)
}

async fn sleeper(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    let before = step(&effects, &ctx, "before").await?;
    ctx.sleep("short", Duration::from_millis(100 + u64::from(input % 5) * 100) / effects.pace).await?;
    let between = step(&effects, &ctx, "between").await?;
    ctx.sleep("long", Duration::from_secs(2 + u64::from(input % 4)) / effects.pace).await?;
    Ok(before + between + step(&effects, &ctx, "after").await?)
}

async fn signals(effects: Effects, ctx: Context, _input: u32) -> Result<Vec<u64>> {
    let first: u64 = ctx.signal("go").await?;
    let between = step(&effects, &ctx, "between").await?;
    let second: u64 = ctx.signal("go").await?;
    Ok(vec![first, between, second])
}

async fn question(effects: Effects, ctx: Context, _input: u32) -> Result<String> {
    step(&effects, &ctx, "before").await?;
    let answer: String = ctx.ask("approve", "Go on?").choice(["yes", "no"]).await?;
    step(&effects, &ctx, "after").await?;
    Ok(answer)
}

async fn parent(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    let before = step(&effects, &ctx, "before").await?;
    let one = ctx.child::<u64>("one", "steps", &input);
    let two = ctx.child::<u64>("two", "sleeper", &(input + 1));
    let both = ctx.join([one, two]).await?;
    Ok(before + both.iter().sum::<u64>() + step(&effects, &ctx, "after").await?)
}

async fn saga(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    undoable(&effects, &ctx, "reserve").await?;
    undoable(&effects, &ctx, "charge").await?;
    step(&effects, &ctx, "note").await?;
    undoable(&effects, &ctx, "ship").await?;
    match input % 3 {
        0 => Ok(1),
        1 => Err(Error::terminal("the order was withdrawn")),
        // Not deterministic: after a crash it may not fail again.
        _ if fold(&format!("{}{}", ctx.run_id(), effects.life)).is_multiple_of(2) => {
            Err(Error::terminal("this process does not like the order"))
        }
        _ => step(&effects, &ctx, "after").await,
    }
}

/// A saga that waits in the middle, so that cancels and jumps have something to compensate.
async fn undoing(effects: Effects, ctx: Context, _input: u32) -> Result<u64> {
    undoable(&effects, &ctx, "reserve").await?;
    undoable(&effects, &ctx, "charge").await?;
    let go: u64 = ctx.signal("go").await?;
    ctx.sleep("cool", Duration::from_millis(400) / effects.pace).await?;
    undoable(&effects, &ctx, "ship").await?;
    Ok(go)
}

/// Remote steps, in sequence and in parallel.
async fn remote(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    let before = undoable(&effects, &ctx, "before").await?;
    let retry = Retry::fixed(Duration::from_millis(150)).attempts_max(20);
    let silence = Duration::from_secs(3);
    let again = effects.clone();
    let run = ctx.run_id().clone();
    let undo = move |_: u64| again.clone().undo(run.clone(), "undo-pack".to_owned());
    let pack = ctx.remote("pack", &input).queue(QUEUE).retry(retry.clone()).heartbeat_timeout(silence);
    let packed = pack.compensate(undo).await?;
    let parts = (0..3u32).map(|n| {
        let part = ctx.remote::<u64>(("part", n), &n).queue(QUEUE).priority(1);
        part.retry(retry.clone()).heartbeat_timeout(silence)
    });
    let parts = ctx.join(parts).await?;
    let after = step(&effects, &ctx, "after").await?;
    if input % 7 == 3 {
        return Err(Error::terminal("the parcel came back"));
    }
    Ok(before + packed + parts.iter().sum::<u64>() + after)
}

async fn rounds(effects: Effects, ctx: Context, left: u32) -> Result<u64> {
    step(&effects, &ctx, "round").await?;
    ctx.sleep("rest", Duration::from_millis(200) / effects.pace).await?;
    // Inputs are below 50: at most ten rounds.
    if !left.is_multiple_of(10) {
        return ctx.continue_as_new(&(left % 10 - 1));
    }
    Ok(7)
}

/// Consumes a signal in every round: unread mail is carried over.
async fn relay(effects: Effects, ctx: Context, left: u32) -> Result<u64> {
    let got: u64 = ctx.signal("go").await?;
    step(&effects, &ctx, "note").await?;
    if !left.is_multiple_of(4) {
        return ctx.continue_as_new(&(left % 4 - 1));
    }
    Ok(got)
}

/// Answers requests, publishes their sum, and refuses large ones.
async fn basket(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    let mut total = u64::from(input);
    for _ in 0..2 + input % 2 {
        let request = ctx.requests::<u64>(ADD).next().await?;
        let value = *request.value();
        if value > 900 {
            request.refuse("too much").await?;
            continue;
        }
        total += value;
        step(&effects, &ctx, "note").await?;
        ctx.publish("total", &total).await?;
        request.answer(&total).await?;
    }
    step(&effects, &ctx, "after").await?;
    Ok(total)
}

/// Children with every option, two of which are refused, and signals to a child and to another run.
async fn kin(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    let own = ctx.run_id().to_string();
    let id = |name: &str| format!("{own}-{name}");
    // The id of this run, which is not its own child, and a lane that is not an id.
    let taken = ctx.child::<u64>("taken", "steps", &input).id(&own).start().await;
    refused(taken.err(), "GS0172")?;
    let odd = StartOptions::default().lane("no lane");
    refused(ctx.child::<u64>("odd", "steps", &input).options(odd).await.err(), "GS0101")?;
    let again = effects.clone();
    let run = ctx.run_id().clone();
    let undo = move |_: u64| again.clone().undo(run.clone(), "undo-pack".to_owned());
    let pack = ctx.child::<u64>("pack", "steps", &input).id(id("pack")).priority(3).tag("size", "large");
    let pack = pack.compensate(undo).start().await?;
    let limits = StartOptions::default().lane("receivers").timeout(Duration::from_secs(60) / effects.pace);
    let receiver = ctx.child::<u64>("receive", "receiver", &input).id(id("receive")).options(limits);
    let receiver = receiver.start().await?;
    ctx.child::<u64>("free", "steps", &input).id(id("free")).detached().await?;
    ctx.signal_run(receiver.run_id(), "go", &u64::from(input)).await?;
    // It may not exist, or have ended, or wait for something else.
    let sent = ctx.signal_run(format!("r{}", input % 8), "go", &1_u64).await;
    step(&effects, &ctx, if sent.is_ok() { "sent" } else { "not-sent" }).await?;
    let sum = pack.result::<u64>().await? + receiver.result::<u64>().await?;
    undoable(&effects, &ctx, "keep").await?;
    match input % 3 {
        1 => Err(Error::terminal("the family has moved")),
        _ => Ok(sum),
    }
}

/// Passes on every error but the expected one.
fn refused(error: Option<Error>, code: &str) -> Result<()> {
    match error {
        Some(error) if error.code() == Some(code) => Ok(()),
        Some(error) => Err(error),
        None => Err(Error::terminal(format!("expected {code}"))),
    }
}

async fn receiver(effects: Effects, ctx: Context, _input: u32) -> Result<u64> {
    let received: u64 = ctx.signal("go").await?;
    Ok(received + step(&effects, &ctx, "note").await?)
}

async fn once(effects: Effects, ctx: Context, _input: u32) -> Result<String> {
    let run = ctx.run_id().clone();
    let got = ctx
        .step_with(ONCE, |attempt| effects.clone().work(run.clone(), ONCE.to_owned(), attempt))
        .at_most_once()
        .await;
    step(&effects, &ctx, "after").await?;
    match got {
        Ok(_) => Ok("done".to_owned()),
        Err(error) if error.code() == Some("outcome-unknown") => Ok("unknown".to_owned()),
        Err(error) => Err(error),
    }
}

async fn mixed(effects: Effects, ctx: Context, input: u32) -> Result<u64> {
    let first = ctx
        .group("group", |inner| {
            let effects = effects.clone();
            async move {
                step(&effects, &inner, "in").await?;
                step(&effects, &inner, "out").await
            }
        })
        .await?;
    let left = ctx.arm("left")?;
    let right = ctx.arm("right")?;
    let waiting = async {
        let got = left.select("either").signal("go").timeout(Duration::from_secs(2)).await?;
        Ok::<u64, Error>(u64::from(matches!(got, Selected::Signal { .. })))
    };
    let working = async {
        step(&effects, &right, "a").await?;
        right.sleep("nap", Duration::from_millis(u64::from(input) * 20)).await?;
        step(&effects, &right, "b").await
    };
    let (waited, worked) = tokio::join!(biased; waiting, working);
    Ok(first + waited? + worked?)
}
