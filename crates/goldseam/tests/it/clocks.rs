//! Store clocks that change while runs wait.

use std::time::Duration;

use goldseam::Summary;
use goldseam::prelude::*;

use crate::peers::{World, count, id, until};
use crate::support::Counter;

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test(start_paused = true)]
async fn store_clock_set_forward_causes_no_useless_claims() {
    let world = World::new();
    let counter = Counter::default();
    let sleeper = move |ctx: Context, (): ()| {
        let claims = counter.add("claimed");
        async move {
            // Endless claims would stop virtual time.
            if claims > 5 {
                return Err(Error::terminal("claimed too often"));
            }
            ctx.sleep("long", DAY).await?;
            Ok(claims)
        }
    };
    let node = world.node(world.store.clone()).workflow("sleeper", sleeper).start().await.unwrap();
    let sleeping = node.start("sleeper", "r", &()).await.unwrap();
    let client = world.client();
    let sleeps = |run: Summary| run.owner.is_none() && !run.waits.is_empty();
    until("the run sleeps", || async { client.get(&id("r")).await.is_ok_and(sleeps) }).await;
    world.set_store_forward(86_400_000);
    assert_eq!(sleeping.result::<u32>().await.unwrap(), 2);
    assert_eq!(count(&client, &id("r"), "run.claimed").await, 2);
    node.shutdown().await;
}
