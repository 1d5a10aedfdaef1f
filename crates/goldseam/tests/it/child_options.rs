//! Options of children: chosen ids, other queues and tags, detached children, and compensations.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use goldseam::client::Jump;
use goldseam::prelude::*;
use goldseam::{AttributeValue, EngineError, Payload, Status};

use crate::support::{Scratch, eventually, ok, reaches, run_id};

async fn double(_: Context, n: u32) -> goldseam::Result<u32> {
    Ok(n * 2)
}

async fn wait(ctx: Context, _: ()) -> goldseam::Result<()> {
    ctx.signal("go").await
}

fn failure_code(error: EngineError) -> Option<String> {
    match error {
        EngineError::Ended { failure, .. } => failure.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_child_has_its_own_id_and_options() {
    async fn parent(ctx: Context, _: ()) -> goldseam::Result<u32> {
        let id = format!("{}-double", ctx.run_id());
        let child = ctx.child("double", "double", &4).id(id).priority(7).tag("size", "large");
        child.attribute("weight", 12).version(2).await
    }
    let scratch = Scratch::new();
    let builder = scratch.builder().await.workflow("parent", parent);
    let builder = builder.workflow_version("double", 1, double).workflow_version("double", 2, double);
    let engine = builder.start().await.unwrap();
    let options = StartOptions::default().tag("region", "eu").priority(1);
    let run = engine.start_with(parent, "p", &(), options).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 8);
    let child = engine.client().get(&run_id("p-double")).await.unwrap();
    assert_eq!((child.priority, child.version, child.parent), (7, 2, Some(run_id("p"))));
    let tags: Vec<(&str, &str)> =
        child.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(tags, [("region", "eu"), ("size", "large")], "the tags of the parent are kept");
    assert_eq!(child.attributes.get("weight"), Some(&AttributeValue::Integer(12)));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_child_times_out_and_its_parent_learns_why() {
    async fn parent(ctx: Context, _: ()) -> goldseam::Result<String> {
        let child = ctx.child::<()>("wait", "wait", &()).id("p-wait").timeout(Duration::from_millis(200));
        let error = child.await.unwrap_err();
        Ok(error.code().unwrap_or_default().to_owned())
    }
    let scratch = Scratch::new();
    let engine =
        scratch.builder().await.workflow("parent", parent).workflow("wait", wait).start().await.unwrap();
    let run = engine.start(parent, "p", &()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "timeout");
    assert_eq!(engine.client().get(&run_id("p-wait")).await.unwrap().status, Status::Failed);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_stranger_is_neither_adopted_nor_cancelled() {
    async fn parent(ctx: Context, _: ()) -> goldseam::Result<()> {
        ctx.child::<()>("wait", "wait", &()).id("mine").await
    }
    let scratch = Scratch::new();
    let engine =
        scratch.builder().await.workflow("parent", parent).workflow("wait", wait).start().await.unwrap();
    // The same workflow and the same input, but not started by the parent.
    let stranger = engine.start(wait, "mine", &()).await.unwrap();
    reaches(engine.client(), "mine", Status::Waiting).await;
    let run = engine.start(parent, "p", &()).await.unwrap();
    let error = run.result().await.unwrap_err();
    assert!(error.to_string().contains("is not a child of p"), "{error}");
    assert_eq!(failure_code(error).as_deref(), Some("GS0172"));
    assert_eq!(stranger.summary().await.unwrap().cancel, None);
    stranger.signal("go", &()).await.unwrap();
    stranger.result().await.unwrap();
    engine.shutdown().await;
}

#[tokio::test]
async fn one_child_id_belongs_to_one_call() {
    async fn parent(ctx: Context, _: ()) -> goldseam::Result<u32> {
        let first: u32 = ctx.child("first", "double", &1).id("shared").await?;
        let second = ctx.child::<u32>("second", "double", &1).id("shared").await.unwrap_err();
        assert_eq!(second.code(), Some("GS0173"));
        let invalid = ctx.child::<u32>("third", "double", &1).id("a b").await.unwrap_err();
        assert_eq!(invalid.code(), Some("GS0101"));
        let reserved = ctx.child::<u32>("fifth", "double", &1).id("goldseam.x").await.unwrap_err();
        assert_eq!(reserved.code(), Some("GS0101"));
        let unserved = ctx.child::<u32>("sixth", "double", &1).queue("goldseam-mail").await.unwrap_err();
        assert_eq!(unserved.code(), Some("GS0101"));
        let built_in = ctx.child::<u32>("fourth", "goldseam.operation", &()).await.unwrap_err();
        assert_eq!(built_in.code(), Some("GS0101"));
        ctx.step("after", || ok(first)).await
    }
    let scratch = Scratch::new();
    let engine =
        scratch.builder().await.workflow("parent", parent).workflow("double", double).start().await.unwrap();
    assert_eq!(engine.start(parent, "p", &()).await.unwrap().result().await.unwrap(), 2);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_built_in_workflow_cannot_be_started_by_name() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.start().await.unwrap();
    let client = engine.client();
    let refused = client.start("goldseam.operation", "o", &()).await.unwrap_err();
    assert_eq!(refused.code(), "GS0101");
    let id = run_id("o");
    let refused = client.begin("goldseam.operation", &id, Payload::null(), StartOptions::default()).await;
    assert_eq!(refused.unwrap_err().code(), "GS0101");
    let refused = engine.start("goldseam.operation", "o", &()).await.unwrap_err();
    assert_eq!(refused.code(), "GS0101", "an engine knows the workflow, and refuses its name");
    assert_eq!(client.get(&id).await.unwrap_err().code(), "GS0104", "nothing was started");
    engine.shutdown().await;
}

#[tokio::test]
async fn reserved_ids_and_queues_are_refused_by_client_and_engine() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("double", double).start().await.unwrap();
    let client = engine.client();
    let mail = || StartOptions::default().queue("goldseam-mail");
    let reserved = run_id("goldseam.x");
    for refused in [
        engine.start(double, "goldseam.x", &1).await.map(|_| ()),
        client.start("double", "goldseam.x", &1).await.map(|_| ()),
        client.begin("double", &reserved, Payload::null(), StartOptions::default()).await.map(|_| ()),
        engine.start_with(double, "o", &1, mail()).await.map(|_| ()),
        client.start_with("double", "o", &1, mail()).await.map(|_| ()),
        client.begin("double", &run_id("o"), Payload::null(), mail()).await.map(|_| ()),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), "GS0101", "{error}");
        assert!(error.to_string().contains("reserved"), "{error}");
    }
    for run in [reserved, run_id("o")] {
        assert_eq!(client.get(&run).await.unwrap_err().code(), "GS0104", "nothing was started");
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn after_a_jump_another_child_does_the_work() {
    async fn parent(ctx: Context, _: ()) -> goldseam::Result<u32> {
        ctx.step("before", || ok(())).await?;
        let doubled: u32 = ctx.child("double", "double", &3).id("p-double").await?;
        ctx.signal::<()>("stop").await?;
        Ok(doubled)
    }
    let scratch = Scratch::new();
    let engine =
        scratch.builder().await.workflow("parent", parent).workflow("double", double).start().await.unwrap();
    let run = engine.start(parent, "p", &()).await.unwrap();
    reaches(engine.client(), "p-double", Status::Completed).await;
    run.wait_until(|row| row.waits.iter().any(|wait| !wait.signals.is_empty())).await.unwrap();
    run.jump("before", Jump::default()).await.unwrap();
    reaches(engine.client(), "p-double.b2", Status::Completed).await;
    run.signal("stop", &()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 6);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_detached_child_outlives_its_parent() {
    async fn parent(ctx: Context, _: ()) -> goldseam::Result<String> {
        let id = ctx.child::<()>("wait", "wait", &()).id("free").detached().await?;
        ctx.signal::<()>("stop").await?;
        Ok(id.to_string())
    }
    let scratch = Scratch::new();
    let engine =
        scratch.builder().await.workflow("parent", parent).workflow("wait", wait).start().await.unwrap();
    let run = engine.start(parent, "p", &()).await.unwrap();
    reaches(engine.client(), "free", Status::Waiting).await;
    let free = engine.client().handle(run_id("free"));
    run.cancel("enough").await.unwrap();
    run.outcome().await.unwrap();
    assert_eq!(free.summary().await.unwrap().cancel, None);
    free.signal("go", &()).await.unwrap();
    free.result::<()>().await.unwrap();
    // Its end is not delivered, also to a parent that is still active.
    let run = engine.start(parent, "q", &()).await;
    let run = run.unwrap();
    eventually("the second child fails to start", || async {
        run.summary().await.is_ok_and(|row| row.status.is_terminal())
    })
    .await;
    let error = run.result().await.unwrap_err();
    assert_eq!(failure_code(error).as_deref(), Some("GS0172"), "it belongs to another parent");
    engine.shutdown().await;
}

#[tokio::test]
async fn the_end_of_a_detached_child_is_not_mail() {
    async fn parent(ctx: Context, _: ()) -> goldseam::Result<()> {
        ctx.child::<u32>("double", "double", &1).id("p-double").detached().await?;
        ctx.signal("stop").await
    }
    let scratch = Scratch::new();
    let engine =
        scratch.builder().await.workflow("parent", parent).workflow("double", double).start().await.unwrap();
    let run = engine.start(parent, "p", &()).await.unwrap();
    reaches(engine.client(), "p-double", Status::Completed).await;
    reaches(engine.client(), "p", Status::Waiting).await;
    run.signal("stop", &()).await.unwrap();
    run.result().await.unwrap();
    let history = run.history().await.unwrap();
    assert!(history.iter().all(|recorded| recorded.event.name() != "child.completed"));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_completed_child_is_compensated_with_its_result() {
    let undone = Arc::new(Mutex::new(Vec::new()));
    let journal = Arc::clone(&undone);
    let parent = move |ctx: Context, wait_for_it: bool| {
        let journal = Arc::clone(&journal);
        async move {
            let undo = move |result: u32| {
                let journal = Arc::clone(&journal);
                async move {
                    journal.lock().unwrap().push(result);
                    Ok(())
                }
            };
            let child = ctx.child::<u32>("double", "double", &5).compensate(undo);
            if wait_for_it {
                child.await?;
            } else {
                child.start().await?;
                ctx.signal::<()>("fail").await?;
            }
            Err::<(), _>(Error::terminal("no longer wanted"))
        }
    };
    let scratch = Scratch::new();
    let engine =
        scratch.builder().await.workflow("parent", parent).workflow("double", double).start().await.unwrap();
    let run = engine.start("parent", "p", &true).await.unwrap();
    assert!(run.result::<()>().await.is_err());
    assert_eq!(*undone.lock().unwrap(), [10]);
    // The compensation also runs if no wait has read the result.
    let run = engine.start("parent", "q", &false).await.unwrap();
    eventually("the end of the child arrives", || async {
        let history = run.history().await.unwrap();
        history.iter().any(|recorded| recorded.event.name() == "child.completed")
    })
    .await;
    run.signal("fail", &()).await.unwrap();
    assert!(run.result::<()>().await.is_err());
    assert_eq!(*undone.lock().unwrap(), [10, 10]);
    engine.shutdown().await;
}
