//! The limit on the size of a history, and `continue_as_new` as the way to stay below it.

use goldseam::client::By;
use goldseam::prelude::*;
use goldseam::{Config, Engine, Limits, Status};

use crate::support::{Scratch, ok, reaches, run_id};

const BYTES_MAX: u64 = 30_000;

async fn engine(scratch: &Scratch, history_bytes_max: u64) -> Engine {
    let limits = Limits { history_bytes_max, ..Limits::default() };
    let builder = scratch.builder().await.limits(limits);
    let builder = builder.workflow("hoard", |ctx: Context, pages: u32| async move {
        for page in 0..pages {
            ctx.step(format!("page-{page}").as_str(), || ok("x".repeat(1_000))).await?;
        }
        Ok::<_, goldseam::Error>(pages)
    });
    let builder = builder.workflow("tidy", |ctx: Context, (round, sum): (u32, usize)| async move {
        let letter: String = ctx.signal("letter").await?;
        let sum = sum + letter.len();
        if round < 5 { ctx.continue_as_new(&(round + 1, sum)) } else { Ok(sum) }
    });
    builder.start().await.unwrap()
}

#[tokio::test]
async fn parks_at_history_limit_and_resumes_after_it_is_raised() {
    let scratch = Scratch::new();
    let small = engine(&scratch, BYTES_MAX).await;
    small.start("hoard", "r", &100).await.unwrap();
    reaches(small.client(), "r", Status::Parked).await;
    let run = run_id("r");
    let row = small.client().get(&run).await.unwrap();
    let trouble = row.trouble.unwrap();
    assert_eq!(trouble.code.as_deref(), Some("GS0112"));
    assert!(trouble.message.contains("more than the limit of 30000"), "{trouble:?}");
    assert!(row.bytes.unwrap() < BYTES_MAX * 2, "{:?}", row.bytes);
    let refused = small.handle(run.clone()).signal("letter", &"x").await.unwrap_err();
    assert_eq!(refused.code(), "GS0112");
    assert!(refused.hint().unwrap().contains("continue_as_new"));
    small.shutdown().await;
    let large = engine(&scratch, 10 * BYTES_MAX).await;
    large.client().resume(&run, By::default()).await.unwrap();
    assert_eq!(large.handle(run).result::<u32>().await.unwrap(), 100);
    large.shutdown().await;
}

#[tokio::test]
async fn continue_as_new_reads_more_than_one_history_holds() {
    let scratch = Scratch::new();
    let engine = engine(&scratch, BYTES_MAX).await;
    let run = engine.start("tidy", "r", &(0, 0)).await.unwrap();
    for _ in 0..6 {
        // A letter is accepted once the run has read the earlier ones.
        while let Err(error) = run.signal("letter", &"x".repeat(20_000)).await {
            assert_eq!(error.code(), "GS0112", "{error}");
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(run.result::<usize>().await.unwrap(), 6 * 20_000);
    assert!(engine.client().get(run.id()).await.unwrap().bytes.unwrap() < 2 * BYTES_MAX);
    engine.shutdown().await;
}

#[tokio::test]
async fn engine_refuses_a_payload_limit_above_the_maximum() {
    let scratch = Scratch::new();
    let limits = Limits { payload_bytes_max: Limits::PAYLOAD_BYTES_MOST + 1, ..Limits::default() };
    let config = Config { limits, ..Config::default() };
    let refused = scratch.builder().await.config(config).start().await.unwrap_err();
    assert!(refused.to_string().contains("must be at most 2097152"), "{refused}");
    let limits = Limits { payload_bytes_max: Limits::PAYLOAD_BYTES_MOST, ..Limits::default() };
    scratch.builder().await.limits(limits).start().await.unwrap().shutdown().await;
}
