//! Admission of authorised requests: a request slot of the namespace, or a wait slot for long polls and streams.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::ServerState;
use crate::extract::Access;
use crate::reply::ProblemResponse;
use crate::route_table::{self, Waits};

/// Waits for a request slot, or takes a wait slot until the key of the request ends.
pub(crate) async fn admit(State(app): State<Arc<ServerState>>, mut request: Request, next: Next) -> Response {
    let Some(access) = request.extensions().get::<Access>().cloned() else { return next.run(request).await };
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let waits = route_table::find(request.method(), path).map_or(Waits::No, |route| route.waits);
    if waits == Waits::No {
        let _slot = access.namespace.request_slots.take().await;
        return next.run(request).await;
    }
    let key = access.principal.key.clone();
    let wait = match app.waits.take(key, access.namespace.name.clone()) {
        Ok(wait) => Arc::new(wait),
        Err(problem) => return ProblemResponse(problem).into_response(),
    };
    request.extensions_mut().insert(Arc::clone(&wait));
    if waits == Waits::ToCompletion {
        return next.run(request).await;
    }
    // The end first: a worker of a revoked key leaves at the same moment, and its reply must not hide the reason.
    tokio::select! {
        biased;
        problem = wait.ended() => ProblemResponse(problem).into_response(),
        response = next.run(request) => response,
    }
}
