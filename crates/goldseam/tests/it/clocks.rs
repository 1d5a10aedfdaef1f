//! Clocks that are set while runs wait.

use std::time::Duration;

use goldseam::Summary;
use goldseam::prelude::*;

use crate::peers::{World, count, id, until};
use crate::support::Witness;

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test(start_paused = true)]
async fn a_store_that_is_set_forward_has_no_run_claimed_in_vain() {
    let (world, witness) = (World::new(), Witness::default());
    let sleeper = move |ctx: Context, (): ()| {
        let claims = witness.saw("claimed");
        async move {
            // Claimed and put down for ever, it would keep virtual time from passing.
            if claims > 5 {
                return Err(Error::terminal("claimed in vain"));
            }
            ctx.sleep("long", DAY).await?;
            Ok(claims)
        }
    };
    let node = world.node(world.store.clone()).workflow("sleeper", sleeper).start().await.unwrap();
    let sleeping = node.run("sleeper", "r", &()).await.unwrap();
    let client = world.client();
    let sleeps = |run: Summary| run.owner.is_none() && !run.waits.is_empty();
    until("it sleeps", || async { client.get(&id("r")).await.is_ok_and(sleeps) }).await;
    world.set_store_forward(86_400_000);
    assert_eq!(sleeping.result::<u32>().await.unwrap(), 2);
    assert_eq!(count(&client, &id("r"), "run.claimed").await, 2);
    node.shutdown().await;
}
