//! Task tokens: the proof that a caller has claimed a task.

use goldseam::unstable::core::TaskId;
use goldseam::unstable::core::task::Task;
use goldseam_api::Problem;
use goldseam_api::doc::key::Scope;
use serde::{Deserialize, Serialize};

use crate::app::ServerState;
use crate::extract::Access;

const PURPOSE: &str = "task";

/// The content of a token.
#[derive(Debug, Serialize, Deserialize)]
struct TokenContent {
    task: TaskId,
    fence: u64,
    /// The key of the claim; `None` if the server requires no key.
    #[serde(default)]
    key: Option<String>,
}

/// The proof of a claim that a request carries.
pub(super) struct Proof {
    pub(super) fence: Option<u64>,
    pub(super) token: Option<String>,
}

/// Returns the token of a task that was just claimed.
pub(super) fn seal(app: &ServerState, access: &Access, task: &Task) -> Result<String, Problem> {
    let content =
        TokenContent { task: task.id.clone(), fence: task.fence, key: access.principal.key.clone() };
    app.tokens.seal(PURPOSE, &access.namespace.name, &content)
}

/// Returns the fence that a request proves. A bare fence can be guessed, so only a key with the scope `operate` may
/// send one, or use the token of another key.
pub(super) fn fence(app: &ServerState, access: &Access, task: &TaskId, proof: Proof) -> Result<u64, Problem> {
    let bad = || {
        Problem::new(403, "this token is not valid for this task and key")
            .code("GS0611")
            .hint("send the token of the claim unchanged, with the key of the claim")
    };
    let operates = access.principal.scopes.contains(&Scope::Operate);
    match (proof.token, proof.fence) {
        (Some(token), _) => {
            let content: TokenContent =
                app.tokens.open(PURPOSE, &access.namespace.name, &token).ok_or_else(bad)?;
            let is_own = content.key == access.principal.key || operates;
            if content.task == *task && is_own { Ok(content.fence) } else { Err(bad()) }
        }
        (None, Some(fence)) if operates => Ok(fence),
        (None, Some(_)) => Err(bad()),
        (None, None) => Err(Problem::bad_request("`token` is missing")
            .code("GS0611")
            .hint("send the token from the response of the claim")),
    }
}
