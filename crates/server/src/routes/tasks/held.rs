//! The tokens by which a worker shows that a task is its own.

use goldseam::core::TaskId;
use goldseam::core::task::Task;
use goldseam_api::Problem;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::extract::In;
use goldseam_api::doc::key::Scope;

const PURPOSE: &str = "task";

/// What a token says.
#[derive(Debug, Serialize, Deserialize)]
struct Held {
    task: TaskId,
    fence: u64,
}

/// A token for a task that was just claimed.
pub(super) fn seal(app: &App, place: &In, task: &Task) -> Result<String, Problem> {
    app.tokens.seal(PURPOSE, &place.space.name, &Held { task: task.id.clone(), fence: task.fence })
}

/// The fence that a token stands for. A bare fence can be guessed: only an operator may name one.
pub(super) fn fence(
    app: &App,
    place: &In,
    task: &TaskId,
    (fence, token): (Option<u64>, Option<String>),
) -> Result<u64, Problem> {
    let bad = || {
        Problem::new(403, "the token is not for this task")
            .code("GS0611")
            .hint("send back the token that the claim brought, as it was")
    };
    match (token, fence) {
        (Some(token), _) => {
            let held: Held = app.tokens.open(PURPOSE, &place.space.name, &token).ok_or_else(bad)?;
            if held.task == *task { Ok(held.fence) } else { Err(bad()) }
        }
        (None, Some(fence)) if place.principal.scopes.contains(&Scope::Operate) => Ok(fence),
        (None, Some(_)) => Err(bad()),
        (None, None) => Err(Problem::bad_request("name the token that the claim brought").code("GS0611")),
    }
}
