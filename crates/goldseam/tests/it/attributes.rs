//! Attributes: changed by a workflow once, kept by `continue_as_new`.

use goldseam::prelude::*;

use crate::support::Scratch;

#[tokio::test]
async fn changes_are_recorded_once_and_found() {
    let scratch = Scratch::new();
    let workflow = |ctx: Context, (): ()| async move {
        ctx.set_attribute("stage", "new").await?;
        ctx.step("a", || async { Ok(()) }).await?;
        ctx.set_attribute("stage", "paid").await?;
        ctx.remove_attribute("lot").await?;
        ctx.sleep("nap", Duration::from_millis(20)).await
    };
    let engine = scratch.engine("w", workflow).await;
    let options = StartOptions::default().attribute("lot", 7).attribute("skus", ["a", "b"]);
    let run = engine.start_with("w", "r", &(), options).await.unwrap();
    run.result::<()>().await.unwrap();
    let client = engine.client();
    let history = client.history(run.id()).await.unwrap();
    let changes = history.iter().filter(|recorded| recorded.event.name() == "attributes.changed").count();
    assert_eq!(changes, 3, "replay after the sleep writes nothing again");
    let found = client.search("stage = \"paid\" and skus = \"b\" and not has lot").unwrap();
    assert_eq!(found.count().await.unwrap(), 1);
    assert_eq!(client.search("stage = \"new\"").unwrap().count().await.unwrap(), 0);
    engine.shutdown().await;
}

#[tokio::test]
async fn continue_as_new_keeps_attributes() {
    let scratch = Scratch::new();
    let workflow = |ctx: Context, left: u32| async move {
        if left > 0 {
            ctx.set_attribute("left", left).await?;
            return ctx.continue_as_new(&(left - 1));
        }
        Ok(())
    };
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &2_u32).await.unwrap();
    run.result::<()>().await.unwrap();
    let left = engine.client().get(run.id()).await.unwrap().attributes.get("left").cloned();
    assert_eq!(left, Some(1.into()));
    engine.shutdown().await;
}

#[tokio::test]
async fn too_many_or_wrong_values_fail_the_call() {
    let scratch = Scratch::new();
    let workflow = |ctx: Context, (): ()| async move {
        let long = ctx.set_attribute("a", "x".repeat(257)).await.unwrap_err();
        let code = long.code().unwrap_or_default().to_owned();
        for n in 0..32 {
            ctx.set_attribute(format!("n{n}"), n).await?;
            ctx.step("s", || async { Ok(()) }).await?;
        }
        let many = ctx.set_attribute("one-more", 1).await.unwrap_err();
        Ok(format!("{code} {}", many.code().unwrap_or_default()))
    };
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "GS0142 GS0142");
    engine.shutdown().await;
}
