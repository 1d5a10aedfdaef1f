//! Connections: HTTP/1.1 only, each with patience for its headers and for its other end, no more than a bound.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use goldseam_api::Problem;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::config::Config;
use crate::guard::Peer;
use crate::patient::Patient;
use crate::spawn::spawn;
use crate::{meter, routes, tls};

/// How long a handshake may take.
const TLS_PATIENCE: Duration = Duration::from_secs(10);
/// How long the other end may take nothing in.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// All headers of a request together.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// How many there may be.
const HEADERS_MAX: usize = 64;

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it asks for keys.
    pub asks_for_keys: bool,
    app: Arc<App>,
    accepting: JoinHandle<()>,
}

impl Running {
    /// Where it can be reached.
    pub fn url(&self) -> String {
        let scheme = if self.app.config.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Takes no more requests, lets those under way finish, tells followers to come back, and leaves every store: what
    /// this process had is handed over, and counts as no attempt.
    pub async fn shutdown(self) {
        self.app.leaving.send_replace(true);
        let _ = self.accepting.await;
        self.app.leave().await;
    }
}

/// Opens the stores, listens, and answers.
pub async fn serve(config: Config) -> Result<Running, Problem> {
    let failed = |error: std::io::Error| {
        Problem::new(500, format!("{} cannot be listened on: {error}", config.listen))
            .code("GS0610")
            .hint("choose another address with --listen")
    };
    meter::install();
    let listener = TcpListener::bind(&config.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let acceptor = config.tls.as_ref().map(|(chain, key)| tls::acceptor(chain, key)).transpose()?;
    let connections_max = config.connections_max;
    let (router, scopes) = routes::build();
    let app = Arc::new(App::open(config, address.ip().is_loopback(), scopes).await?);
    let asks_for_keys = !app.is_open().await?;
    let service = routes::layered(router, Arc::clone(&app));
    let accepting = Accepting { service, app: Arc::clone(&app), acceptor, connections_max };
    Ok(Running { address, asks_for_keys, app, accepting: spawn(accepting.run(listener)) })
}

struct Accepting {
    service: Router,
    app: Arc<App>,
    acceptor: Option<TlsAcceptor>,
    connections_max: usize,
}

impl Accepting {
    async fn run(self, listener: TcpListener) {
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(self.connections_max));
        let mut leaving = self.app.leaving.subscribe();
        loop {
            let next = async {
                let permit = Arc::clone(&room).acquire_owned().await;
                (permit, listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                next = next => next,
                _ = leaving.wait_for(|leaving| *leaving) => break,
            };
            let Ok(permit) = permit else { break };
            match accepted {
                Ok((stream, peer)) => self.converse(stream, peer, permit, &graceful),
                // Out of descriptors, mostly: others must end first.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        let drain = self.app.config.drain;
        if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
    }

    /// Answers one connection until it ends.
    fn converse(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
        graceful: &GracefulShutdown,
    ) {
        let _ = stream.set_nodelay(true);
        let service = Service { router: self.service.clone(), peer };
        let patience = self.app.config.header_patience;
        let watcher = graceful.watcher();
        let acceptor = self.acceptor.clone();
        spawn(async move {
            let _permit = permit;
            let stream = Patient::new(stream, WRITE_PATIENCE);
            match acceptor {
                None => answer(stream, service, patience, watcher).await,
                Some(acceptor) => {
                    let handshake = tokio::time::timeout(TLS_PATIENCE, acceptor.accept(stream)).await;
                    if let Ok(Ok(stream)) = handshake {
                        answer(stream, service, patience, watcher).await;
                    }
                }
            }
        });
    }
}

/// The routes, as one connection sees them: every request says where it came from.
#[derive(Debug, Clone)]
struct Service {
    router: Router,
    peer: SocketAddr,
}

impl tower::Service<Request<Incoming>> for Service {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        tower::Service::<Request<Incoming>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(Peer(self.peer));
        self.router.call(request)
    }
}

async fn answer<T>(
    stream: T,
    service: Service,
    header_patience: Duration,
    watcher: hyper_util::server::graceful::Watcher,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_patience)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}
