//! Ends the waiting requests and the workers of keys that were revoked or have expired.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use goldseam_api::Problem;

use crate::app::ServerState;
use crate::principal::unauthenticated;
use crate::spawn::spawn;

/// Interval between two checks.
const INTERVAL: Duration = Duration::from_millis(400);

/// Checks the keys of waiting requests and workers until the server shuts down. Reads nothing otherwise.
pub(crate) async fn run(app: Arc<ServerState>) {
    while tokio::time::timeout(INTERVAL, app.shutdown_started()).await.is_err() {
        check_all(&app).await;
    }
}

async fn check_all(app: &Arc<ServerState>) {
    let workers = app.namespaces().map(|namespace| namespace.api.remote_workers());
    let keys: BTreeSet<_> =
        app.waits.keys().into_iter().chain(workers.flat_map(|workers| workers.holders())).collect();
    for key in keys {
        let Some(problem) = check(app, key.as_deref()).await else { continue };
        app.waits.end(&key, &problem);
        // Workers stay if the store only fails to answer.
        if problem.status == unauthenticated().status {
            let app = Arc::clone(app);
            spawn(async move {
                for workers in app.namespaces().map(|namespace| namespace.api.remote_workers()) {
                    workers.dismiss(key.as_deref()).await;
                }
            });
        }
    }
}

/// Returns the reason why requests with this key must end, if any.
async fn check(app: &ServerState, key: Option<&str>) -> Option<Problem> {
    let valid = match key {
        Some(key) => app.keyring.is_still_valid(key).await,
        None => app.is_open().await,
    };
    match valid {
        Ok(true) => None,
        Ok(false) => Some(unauthenticated()),
        Err(problem) => Some(problem),
    }
}
