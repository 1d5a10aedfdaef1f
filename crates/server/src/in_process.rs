//! The routes of a server without a listener: a program that embeds a store sends requests to itself.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use goldseam::EngineError;
use goldseam::unstable::core::NodeId;
use goldseam::unstable::engine::{Clock, SystemClock};
use goldseam::unstable::store::Store;
use goldseam_api::Problem;
use tower::Service as _;

use crate::app::ServerState;
use crate::config::ServerConfig;
use crate::foundation::Foundation;
use crate::rate::Rate;
use crate::reply::ProblemResponse;
use crate::routes;

/// Effectively no limit: the caller is this process.
const UNLIMITED: usize = 1 << 24;

/// What [`InProcess::open`] needs besides the settings of a server.
#[derive(Debug)]
pub struct InProcessOptions {
    /// The clock of the engine and of all nodes.
    pub clock: Arc<dyn Clock>,
    /// The store; none: the URL of the settings is opened.
    pub store: Option<Arc<dyn Store>>,
}

impl Default for InProcessOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), store: None }
    }
}

/// A server without a socket. Requests need no key: the process that sends them has the store.
///
/// Workers that register here are nodes of this process: they die with it.
#[derive(Debug)]
pub struct InProcess {
    app: Arc<ServerState>,
    router: Router,
}

impl InProcess {
    /// Opens the store and starts an engine on it, which heals its runs.
    pub async fn open(config: ServerConfig, options: InProcessOptions) -> Result<Self, Problem> {
        let InProcessOptions { clock, store } = options;
        let foundation = Foundation { clock, store };
        let app = Arc::new(ServerState::open_on(foundation, unlimited(config), true).await?);
        let router = routes::in_process(Arc::clone(&app));
        Ok(Self { app, router })
    }

    /// Answers a request. A panic of a handler becomes a response.
    pub async fn call(&self, request: Request<Body>) -> Response {
        let mut router = self.router.clone();
        match AssertUnwindSafe(router.call(request)).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => {
                tracing::error!("request handler panicked");
                ProblemResponse(Problem::new(500, "internal error in the engine")).into_response()
            }
        }
    }

    /// Ends a worker as a crash of its process would, for tests of workflows.
    pub async fn crash_worker(&self, worker: &str) -> Result<(), Problem> {
        let worker = NodeId::new(worker).map_err(EngineError::from)?;
        for namespace in self.app.namespaces() {
            namespace.api.remote_workers().crash(&worker).await?;
        }
        Ok(())
    }

    /// Asks workers to release their runs, waits for them up to `drain`, ends waiting requests and streams, and closes
    /// the store. Counts no attempt.
    pub async fn close(&self, drain: Duration) {
        self.app.leaving.send_replace(true);
        for namespace in self.app.namespaces() {
            namespace.api.remote_workers().shutdown(drain).await;
        }
        self.app.close().await;
    }
}

fn unlimited(config: ServerConfig) -> ServerConfig {
    let rate = Rate { per_second: f64::from(u32::MAX), burst: f64::from(u32::MAX) };
    ServerConfig {
        connections_max: UNLIMITED,
        waits_max: UNLIMITED,
        followers_max: UNLIMITED,
        workers_per_key: UNLIMITED,
        requests_at_once: UNLIMITED,
        rate_failures: rate,
        ..config
    }
}
