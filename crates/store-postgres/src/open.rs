//! Opens a schema: checks that the server answers, and that the schema is ours and current.

use std::sync::Arc;

use goldseam_store::{OpenMode, StoreError};
use tokio_postgres::Client;

use crate::connection::{ConnectionGuard, ConnectionTarget, SessionRole};
use crate::fault::refused;
use crate::migrate;

/// Opens a connection for one caller. It ends with the guard.
pub(crate) async fn dedicated(target: &ConnectionTarget) -> Result<(Client, ConnectionGuard), StoreError> {
    target.connect(SessionRole::Work, drop).await.map_err(|fault| match fault.to_error("connecting") {
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

/// Makes sure that the schema is usable.
pub(crate) async fn prepare(target: &Arc<ConnectionTarget>, mode: OpenMode) -> Result<(), StoreError> {
    let (client, _guard) = dedicated(target).await?;
    match mode {
        OpenMode::CreateOrMigrate => migrate::apply(&client, target).await.map(drop),
        OpenMode::RequireCurrent => migrate::refuse_older(&client, target).await,
    }
}
