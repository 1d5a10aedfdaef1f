//! The workflows that are run. Every step tells the book before it does anything else.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{Retry, RunId};
use goldseam_engine::{Attempt, Builder, Context, Error, Result, Selected};
use goldseam_store::FaultyStore;

use crate::book::{Book, Mark};
use crate::dice::fold;
use crate::worker::QUEUE;

/// The names of all workflows, by the order in which the dice pick them.
pub const FLOWS: &[&str] = &[
    "steps", "parallel", "flaky", "sleeper", "signals", "question", "parent", "saga", "rounds", "once",
    "mixed", "undoing", "remote", "relay",
];

/// The run that takes its node down, in seeds that have one; its workflow is called the same.
pub const POISON: &str = "poison";

/// The step that takes its node down.
pub const STRIKE: &str = "strike";

/// The step that is done at most once, whatever happens.
pub const ONCE: &str = "once";

/// How a node's steps reach the world outside.
#[derive(Debug, Clone)]
pub struct Hands {
    book: Arc<Book>,
    node: usize,
    life: usize,
    pace: u32,
    link: Option<Arc<FaultyStore>>,
}

impl Hands {
    /// The hands of node `node`.
    pub fn new(book: Arc<Book>, node: usize) -> Self {
        Self { book, node, life: node, pace: 1, link: None }
    }

    /// The same, of the incarnation with this number and connection: while it is frozen or dead, its hands do nothing.
    #[must_use]
    pub fn with(self, life: usize, link: Arc<FaultyStore>) -> Self {
        Self { life, link: Some(link), ..self }
    }

    /// The same, so many times faster: for stories in real time.
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
        let mark = Mark { attempt: number, key, node: self.node, life: self.life };
        let _effect = self.book.begins(&run, &step, mark);
        // Most are short, some longer than a takeover takes.
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

    /// Takes the node down: nothing of it reaches the store any more.
    async fn strike(self, run: RunId, attempt: Attempt) -> Result<u64> {
        self.awake().await;
        let (number, key) = (attempt.number(), attempt.idempotency_key().to_owned());
        self.book.saw(&run, STRIKE, Mark { attempt: number, key, node: self.node, life: self.life });
        tokio::time::sleep(Duration::from_millis(30)).await;
        if let Some(link) = &self.link {
            link.crash();
        }
        std::future::pending().await
    }

    async fn undo(self, run: RunId, step: String) -> Result<()> {
        self.awake().await;
        let (key, node, life) = (String::new(), self.node, self.life);
        let _effect = self.book.begins(&run, &step, Mark { attempt: 0, key, node, life });
        tokio::time::sleep(Duration::from_millis(20) / self.pace).await;
        Ok(())
    }
}

/// Registers all of them under each of these versions. The code is the same: only who may execute a run differs.
pub fn register(builder: Builder, hands: &Hands, versions: &[u32]) -> Builder {
    versions.iter().fold(builder, |builder, version| register_version(builder, hands, *version))
}

fn register_version(builder: Builder, hands: &Hands, version: u32) -> Builder {
    macro_rules! flow {
        ($builder:expr, $name:ident) => {{
            let hands = hands.clone();
            let work = move |ctx: Context, input: u32| $name(hands.clone(), ctx, input);
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
    flow!(builder, relay)
}

/// Does the step `name` of this run.
async fn step(hands: &Hands, ctx: &Context, name: &str) -> Result<u64> {
    let run = ctx.run_id().clone();
    ctx.step_with(name, |attempt| hands.clone().work(run.clone(), name.to_owned(), attempt)).await
}

/// A step that can be undone.
async fn undoable(hands: &Hands, ctx: &Context, name: &str) -> Result<u64> {
    let run = ctx.run_id().clone();
    let (again, of, what) = (hands.clone(), run.clone(), format!("undo-{name}"));
    ctx.step_with(name, |attempt| hands.clone().work(run.clone(), name.to_owned(), attempt))
        .compensate(move |_: u64| again.clone().undo(of.clone(), what.clone()))
        .await
}

async fn steps(hands: Hands, ctx: Context, input: u32) -> Result<u64> {
    let mut total = u64::from(input);
    for name in ["one", "two", "three"] {
        total += step(&hands, &ctx, name).await?;
    }
    ctx.progress("all done").await?;
    Ok(total)
}

/// Gets as far as a step that takes its node down.
async fn poison(hands: Hands, ctx: Context, _input: u32) -> Result<u64> {
    step(&hands, &ctx, "before").await?;
    let run = ctx.run_id().clone();
    ctx.step_with(STRIKE, |attempt| hands.clone().strike(run.clone(), attempt)).await
}

async fn parallel(hands: Hands, ctx: Context, input: u32) -> Result<u64> {
    let first = step(&hands, &ctx, "first").await?;
    let run = ctx.run_id().clone();
    let parts = (0..4u32).map(|n| {
        let (hands, run) = (hands.clone(), run.clone());
        ctx.step_with(("part", n), move |attempt| {
            hands.clone().work(run.clone(), format!("part-{n}"), attempt)
        })
    });
    let parts = ctx.join(parts).await?;
    let last = step(&hands, &ctx, "last").await?;
    Ok(first + parts.iter().sum::<u64>() + last + u64::from(input))
}

async fn flaky(hands: Hands, ctx: Context, input: u32) -> Result<u64> {
    let run = ctx.run_id().clone();
    let tries = 2 + input % 3;
    let retry = Retry::fixed(Duration::from_millis(150)).max_attempts(8);
    let got = ctx
        .step_with("flaky", |attempt| {
            let work = hands.clone().work(run.clone(), "flaky".to_owned(), attempt.clone());
            async move {
                let value = work.await?;
                if attempt.number() < tries { Err(Error::retryable("not yet")) } else { Ok(value) }
            }
        })
        .retry(retry)
        .await?;
    Ok(got + step(&hands, &ctx, "after").await?)
}

async fn sleeper(hands: Hands, ctx: Context, input: u32) -> Result<u64> {
    let before = step(&hands, &ctx, "before").await?;
    ctx.sleep("short", Duration::from_millis(100 + u64::from(input % 5) * 100) / hands.pace).await?;
    let between = step(&hands, &ctx, "between").await?;
    ctx.sleep("long", Duration::from_secs(2 + u64::from(input % 4)) / hands.pace).await?;
    Ok(before + between + step(&hands, &ctx, "after").await?)
}

async fn signals(hands: Hands, ctx: Context, _input: u32) -> Result<Vec<u64>> {
    let first: u64 = ctx.signal("go").await?;
    let between = step(&hands, &ctx, "between").await?;
    let second: u64 = ctx.signal("go").await?;
    Ok(vec![first, between, second])
}

async fn question(hands: Hands, ctx: Context, _input: u32) -> Result<String> {
    step(&hands, &ctx, "before").await?;
    let answer: String = ctx.ask("approve", "Go on?").choice(["yes", "no"]).await?;
    step(&hands, &ctx, "after").await?;
    Ok(answer)
}

async fn parent(hands: Hands, ctx: Context, input: u32) -> Result<u64> {
    let before = step(&hands, &ctx, "before").await?;
    let one = ctx.child::<u64>("one", "steps", &input);
    let two = ctx.child::<u64>("two", "sleeper", &(input + 1));
    let both = ctx.join([one, two]).await?;
    Ok(before + both.iter().sum::<u64>() + step(&hands, &ctx, "after").await?)
}

async fn saga(hands: Hands, ctx: Context, input: u32) -> Result<u64> {
    undoable(&hands, &ctx, "reserve").await?;
    undoable(&hands, &ctx, "charge").await?;
    step(&hands, &ctx, "note").await?;
    undoable(&hands, &ctx, "ship").await?;
    match input % 3 {
        0 => Ok(1),
        1 => Err(Error::terminal("the order was withdrawn")),
        // Code that decides by something that no log has: after a crash it may not fail again.
        _ if fold(&format!("{}{}", ctx.run_id(), hands.life)).is_multiple_of(2) => {
            Err(Error::terminal("this process does not like the order"))
        }
        _ => step(&hands, &ctx, "after").await,
    }
}

/// A saga that waits in the middle, so that cancels and jumps find something to undo.
async fn undoing(hands: Hands, ctx: Context, _input: u32) -> Result<u64> {
    undoable(&hands, &ctx, "reserve").await?;
    undoable(&hands, &ctx, "charge").await?;
    let go: u64 = ctx.signal("go").await?;
    ctx.sleep("cool", Duration::from_millis(400) / hands.pace).await?;
    undoable(&hands, &ctx, "ship").await?;
    Ok(go)
}

/// Steps that a worker does, one after another and side by side.
async fn remote(hands: Hands, ctx: Context, input: u32) -> Result<u64> {
    let before = undoable(&hands, &ctx, "before").await?;
    let retry = Retry::fixed(Duration::from_millis(150)).max_attempts(20);
    let silence = Duration::from_secs(3);
    let (again, run) = (hands.clone(), ctx.run_id().clone());
    let undo = move |_: u64| again.clone().undo(run.clone(), "undo-pack".to_owned());
    let pack = ctx.remote("pack", &input).queue(QUEUE).retry(retry.clone()).heartbeat_timeout(silence);
    let packed = pack.compensate(undo).await?;
    let parts = (0..3u32).map(|n| {
        let part = ctx.remote::<u64>(("part", n), &n).queue(QUEUE).priority(1);
        part.retry(retry.clone()).heartbeat_timeout(silence)
    });
    let parts = ctx.join(parts).await?;
    let after = step(&hands, &ctx, "after").await?;
    if input % 7 == 3 {
        return Err(Error::terminal("the parcel came back"));
    }
    Ok(before + packed + parts.iter().sum::<u64>() + after)
}

async fn rounds(hands: Hands, ctx: Context, left: u32) -> Result<u64> {
    step(&hands, &ctx, "round").await?;
    ctx.sleep("rest", Duration::from_millis(200) / hands.pace).await?;
    // Inputs are at most 50 in the crowd; ten rounds at the most.
    if !left.is_multiple_of(10) {
        return ctx.continue_as_new(&(left % 10 - 1));
    }
    Ok(7)
}

/// Takes a signal in every round: what came too early comes along.
async fn relay(hands: Hands, ctx: Context, left: u32) -> Result<u64> {
    let got: u64 = ctx.signal("go").await?;
    step(&hands, &ctx, "note").await?;
    if !left.is_multiple_of(4) {
        return ctx.continue_as_new(&(left % 4 - 1));
    }
    Ok(got)
}

async fn once(hands: Hands, ctx: Context, _input: u32) -> Result<String> {
    let run = ctx.run_id().clone();
    let got = ctx
        .step_with(ONCE, |attempt| hands.clone().work(run.clone(), ONCE.to_owned(), attempt))
        .at_most_once()
        .await;
    step(&hands, &ctx, "after").await?;
    match got {
        Ok(_) => Ok("done".to_owned()),
        Err(error) if error.code() == Some("outcome-unknown") => Ok("unknown".to_owned()),
        Err(error) => Err(error),
    }
}

async fn mixed(hands: Hands, ctx: Context, input: u32) -> Result<u64> {
    let first = ctx
        .group("group", |inner| {
            let hands = hands.clone();
            async move {
                step(&hands, &inner, "in").await?;
                step(&hands, &inner, "out").await
            }
        })
        .await?;
    let (left, right) = (ctx.arm("left")?, ctx.arm("right")?);
    let waiting = async {
        let got = left.select("either").signal("go").timeout(Duration::from_secs(2)).await?;
        Ok::<u64, Error>(u64::from(matches!(got, Selected::Signal { .. })))
    };
    let working = async {
        step(&hands, &right, "a").await?;
        right.sleep("nap", Duration::from_millis(u64::from(input) * 20)).await?;
        step(&hands, &right, "b").await
    };
    let (waited, worked) = tokio::join!(biased; waiting, working);
    Ok(first + waited? + worked?)
}
