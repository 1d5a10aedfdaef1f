//! An agent that thinks, acts, asks a person when unsure, and continues as new so that its history stays short.
//!
//! `cargo run -p goldseam --example agent_loop`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Memory {
    goal: String,
    turns: u32,
    notes: Vec<String>,
}

async fn agent(ctx: Context, mut memory: Memory) -> goldseam::Result<String> {
    let thought = ctx.step("think", || think(&memory)).await?;
    let note = match thought.as_str() {
        "ask" => ctx.ask::<String>("advice", "Which way?").text().await?,
        "done" => return Ok(format!("{}: {}", memory.goal, memory.notes.join(", "))),
        tool => ctx.step("act", || act(tool)).retry(Retry::exponential().attempts_max(3)).await?,
    };
    memory.notes.push(note);
    memory.turns += 1;
    ctx.continue_as_new(&memory)
}

async fn think(memory: &Memory) -> goldseam::Result<String> {
    Ok(match memory.turns {
        0 => "look",
        1 => "ask",
        _ => "done",
    }
    .to_owned())
}

async fn act(tool: &str) -> goldseam::Result<String> {
    Ok(format!("{tool}ed around"))
}

/// Runs the example on the store at `url` and gives the advice.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let engine = Engine::open(url).await?.workflow("agent", agent).start().await?;
    let memory = Memory { goal: "find the way".into(), turns: 0, notes: vec![] };
    let run = engine.start(agent, "agent-1", &memory).await?;
    run.wait_until(|run| !run.inputs.is_empty()).await?;
    // If the example runs a second time, the advice was already given.
    let _ = run.answer("advice", "go left").await;
    let result = run.result().await?;
    engine.shutdown().await;
    Ok(result)
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:agent_loop.db").await?);
    Ok(())
}
