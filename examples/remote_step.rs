//! A remote step: the workflow hands work out, and a worker without the workflow's code does it.
//!
//! `cargo run -p goldseam --example remote_step`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;
use goldseam::queue::{QueueName, Task, Want};
use goldseam::{EngineError, Failure, Limits, Payload};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Job {
    url: String,
    width: u32,
}

async fn thumbnail(ctx: Context, url: String) -> goldseam::Result<String> {
    // While a worker executes the step, the run waits, and soon leaves memory.
    ctx.remote("resize", &Job { url, width: 200 })
        .queue("gpu")
        .retry(Retry::exponential().attempts_max(3))
        .heartbeat_timeout(secs(60))
        .priority(5)
        .await
}

/// A worker. It may run in another process or on another machine, and needs only the store.
async fn work(client: Client) -> Result<(), EngineError> {
    let queue = client.queue();
    let mut mark = 0;
    loop {
        let owner = "worker-1".to_owned();
        let kind = Some("resize".to_owned());
        let want = Want { owner, queue: QueueName::new("gpu")?, kind, limit: 1 };
        let Some(task) = queue.claim(want).await?.pop() else {
            mark = client.wait_for_change(mark).await?;
            continue;
        };
        // During long work, send heartbeats. If one is refused, stop: the claim has ended.
        queue.heartbeat(&task.id, task.fence).await?;
        match resize(&task) {
            Ok(thumb) => {
                let thumb = Payload::of(&thumb, &Limits::default())?;
                // When this returns, the result is in the run's log. It is safe to repeat the call.
                queue.complete(&task.id, task.fence, thumb).await?;
            }
            Err(why) => {
                queue.fail(&task.id, task.fence, Failure::terminal(why.to_string())).await?;
            }
        }
    }
}

fn resize(task: &Task) -> Result<String, serde_json::Error> {
    let Job { url, width } = task.payload.read()?;
    // The key is the same for every attempt: pass it to the service that must not act twice.
    let _key = task.step.as_ref().map(|step| step.key.as_str());
    Ok(format!("{url}@{width}"))
}

/// Runs the example on the store at `url`.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let engine = Engine::open(url).await?.workflow("thumbnail", thumbnail).start().await?;
    let run = engine.start(thumbnail, "cat-1", &"cat.png".to_owned()).await?;
    let thumb = tokio::select! {
        thumb = run.result() => thumb?,
        stopped = work(goldseam::connect(url).await?) => {
            stopped?;
            return Err(Error::terminal("the worker stopped"));
        }
    };
    engine.shutdown().await;
    Ok(thumb)
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:remote_step.db").await?);
    Ok(())
}
