//! Opening: is there a server, is the schema ours and whole.

use std::sync::Arc;

use goldseam_store::StoreError;
use tokio_postgres::Client;

use crate::connection::{Ended, Role, Target};
use crate::migrate;

/// What to do with an older schema, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Older {
    /// Bring it up to date.
    Migrate,
    /// Leave it and refuse.
    Refuse,
}

/// A connection that nobody else uses. It ends with what comes with it.
pub(crate) async fn alone(target: &Target) -> Result<(Client, Ended), StoreError> {
    target.connect(Role::Work, drop).await.map_err(|fault| match fault.to_error("connecting") {
        StoreError::Busy { source, .. } => {
            let hint = if fault.is_crowded() {
                "a node needs up to six connections: raise max_connections or the limit of this user, or use a pooler"
            } else {
                "check that the server runs, and check host and port in the URL"
            };
            refused("GS0205", format!("cannot reach {}: {source}", target.options.place()), hint)
        }
        error => error,
    })
}

/// Makes sure that the schema can be used.
pub(crate) async fn ready(target: &Arc<Target>, older: Older) -> Result<(), StoreError> {
    let (client, _ended) = alone(target).await?;
    match older {
        Older::Migrate => migrate::apply(&client, target).await.map(drop),
        Older::Refuse => migrate::refuse_older(&client, target).await,
    }
}

/// A refusal with its code.
pub(crate) fn refused(code: &'static str, what: String, hint: &str) -> StoreError {
    StoreError::Refused { code, what, hint: hint.to_owned() }
}
