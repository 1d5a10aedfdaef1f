//! The tokens by which a worker shows that a task is its own.

use goldseam::core::TaskId;
use goldseam::core::task::Task;
use goldseam_api::Problem;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::extract::Access;
use goldseam_api::doc::key::Scope;

const PURPOSE: &str = "task";

/// What a token says.
#[derive(Debug, Serialize, Deserialize)]
struct TokenContent {
    task: TaskId,
    fence: u64,
    /// The key that claimed it; none where none is asked for.
    #[serde(default)]
    key: Option<String>,
}

/// A token for a task that was just claimed.
pub(super) fn seal(app: &App, access: &Access, task: &Task) -> Result<String, Problem> {
    let held = TokenContent { task: task.id.clone(), fence: task.fence, key: access.principal.key.clone() };
    app.tokens.seal(PURPOSE, &access.namespace.name, &held)
}

/// The fence that a token stands for. A bare fence can be guessed: only an operator may name one, or use a token that was
/// given to another key.
pub(super) fn fence(
    app: &App,
    access: &Access,
    task: &TaskId,
    (fence, token): (Option<u64>, Option<String>),
) -> Result<u64, Problem> {
    let bad = || {
        Problem::new(403, "the token is not for this task, or not for this key")
            .code("GS0611")
            .hint("send back the token that the claim brought, as it was, with the key of the claim")
    };
    let operates = access.principal.scopes.contains(&Scope::Operate);
    match (token, fence) {
        (Some(token), _) => {
            let held: TokenContent =
                app.tokens.open(PURPOSE, &access.namespace.name, &token).ok_or_else(bad)?;
            let is_own = held.key == access.principal.key || operates;
            if held.task == *task && is_own { Ok(held.fence) } else { Err(bad()) }
        }
        (None, Some(fence)) if operates => Ok(fence),
        (None, Some(_)) => Err(bad()),
        (None, None) => Err(Problem::bad_request("name the token that the claim brought").code("GS0611")),
    }
}
