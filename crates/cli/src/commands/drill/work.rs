//! The work that the drill disturbs: short steps, or a question and one step.

use std::time::Duration;

use goldseam::core::{QueueName, WorkflowName};
use goldseam::prelude::*;
use goldseam::{Config, Recovery};
use serde::{Deserialize, Serialize};

use crate::fail::Fail;

/// Name of the workflow.
pub(crate) const WORKFLOW: &str = "goldseam-drill";
/// The question that a run may ask.
pub(crate) const QUESTION: &str = "go-on";
/// How long the lock is held that a killed worker leaves behind: its expiry is the last resort.
pub(crate) const LOCK_TTL: Duration = Duration::from_secs(3);

/// Input of the workflow.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Ask before the steps.
    pub(crate) ask: bool,
    /// How many steps.
    pub(crate) steps: u32,
    /// How long each takes.
    pub(crate) step_ms: u64,
}

/// Asks, if it is to, then works step by step.
pub(crate) async fn drill(ctx: Context, load: Load) -> goldseam::Result<()> {
    if load.ask {
        let _: String = ctx.ask(QUESTION, "May the drill go on?").await?;
    }
    for number in 0..load.steps {
        let work = || async {
            tokio::time::sleep(Duration::from_millis(load.step_ms)).await;
            Ok::<_, Error>(())
        };
        ctx.step(("work", number), work).await?;
    }
    Ok(())
}

/// A worker of the drill takes its own queue only, and heals its own runs at the first look.
pub(crate) fn configure(config: &mut Config, queue: &str) -> Result<(), Fail> {
    config.queues = vec![QueueName::new(queue)?];
    config.linger = Duration::from_millis(50);
    let recovery = Recovery { stale_after: Duration::ZERO, ..Recovery::default() };
    config.recovery_of.insert(WorkflowName::new(WORKFLOW)?, recovery);
    Ok(())
}
