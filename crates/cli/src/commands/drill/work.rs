//! The workflow of the drill: short steps, or a question and one step.

use std::time::Duration;

use goldseam::prelude::*;
use goldseam::unstable::core::{QueueName, WorkflowName};
use goldseam::{Config, Recovery};
use serde::{Deserialize, Serialize};

use crate::error::CliError;

pub(crate) const WORKFLOW: &str = "goldseam-drill";
/// The question that a run may ask.
pub(crate) const QUESTION: &str = "go-on";
/// The time to live of the lock that a killed worker leaves behind.
pub(crate) const LOCK_TTL: Duration = Duration::from_secs(3);

/// Input of the workflow.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Ask a question before the steps.
    pub(crate) ask: bool,
    /// The number of steps.
    pub(crate) steps: u32,
    /// The duration of each step.
    pub(crate) step_ms: u64,
}

/// Asks a question if `ask` is set, then executes the steps.
pub(crate) async fn drill(ctx: Context, load: Load) -> goldseam::Result<()> {
    if load.ask {
        let _: String = ctx.ask(QUESTION, "May the drill go on?").await?;
    }
    for number in 0..load.steps {
        let work = || async {
            tokio::time::sleep(Duration::from_millis(load.step_ms)).await;
            Ok(())
        };
        ctx.step(("work", number), work).await?;
    }
    Ok(())
}

/// Configures a worker to use only the drill's queue, and to heal its runs immediately.
pub(crate) fn configure(config: &mut Config, queue: &str) -> Result<(), CliError> {
    config.queues = vec![QueueName::new(queue)?];
    config.linger = Duration::from_millis(50);
    let recovery = Recovery { stale_after: Duration::ZERO, ..Recovery::default() };
    config.recovery_of.insert(WorkflowName::new(WORKFLOW)?, recovery);
    Ok(())
}
