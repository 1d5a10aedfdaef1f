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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::addresses::{Addresses, Connection};
use crate::app::App;
use crate::config::Config;
use crate::guard::Peer;
use crate::patient::Patient;
use crate::spawn::spawn;
use crate::{meter, routes, tls, waits};

/// How long a handshake may take.
const TLS_PATIENCE: Duration = Duration::from_secs(10);
/// How long the other end may take nothing in.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// All headers of a request together.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// How many there may be.
const HEADERS_MAX: usize = 64;
/// Connections at once to the listener for health and numbers: probes are few, and short.
const HEALTH_CONNECTIONS_MAX: usize = 64;

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it asks for keys.
    pub asks_for_keys: bool,
    /// Where it answers about its health alone, if it was told to.
    pub health_address: Option<SocketAddr>,
    app: Arc<App>,
    accepting: JoinHandle<()>,
    health: Option<Health>,
}

/// The listener for health and numbers.
#[derive(Debug)]
struct Health {
    closing: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Running {
    /// Where it can be reached.
    pub fn url(&self) -> String {
        let scheme = if self.app.config.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Takes no more requests, lets those under way finish, tells followers to come back, and leaves every store: what
    /// this process had is handed over, and counts as no attempt. The listener for health answers until then.
    pub async fn shutdown(self) {
        self.app.leaving.send_replace(true);
        let _ = self.accepting.await;
        self.app.leave().await;
        if let Some(Health { closing, accepting }) = self.health {
            closing.send_replace(true);
            let _ = accepting.await;
        }
    }
}

/// Listens on an address.
async fn bind(address: &str, setting: &str) -> Result<(TcpListener, SocketAddr), Problem> {
    let failed = |error: std::io::Error| {
        Problem::new(500, format!("{address} cannot be listened on: {error}"))
            .code("GS0610")
            .hint(format!("choose another address: {setting}"))
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Opens the stores, listens, and answers.
pub async fn serve(config: Config) -> Result<Running, Problem> {
    meter::install();
    let (listener, address) = bind(&config.listen, "--listen").await?;
    let beside = match &config.health_listen {
        Some(health) => Some(bind(health, "health_listen").await?),
        None => None,
    };
    let acceptor = config.tls.as_ref().map(|(chain, key)| tls::acceptor(chain, key)).transpose()?;
    let (most, per_address) = (config.connections_max, config.connections_per_address);
    let (router, scopes) = routes::build();
    let app = Arc::new(App::open(config, address.ip().is_loopback(), scopes).await?);
    let asks_for_keys = !app.is_open().await?;
    let accepting = |router, address: SocketAddr, (most, per_address)| Accepting {
        service: routes::layered(router, Arc::clone(&app)),
        app: Arc::clone(&app),
        acceptor: acceptor.clone(),
        is_loopback: address.ip().is_loopback(),
        connections_max: most,
        addresses: Addresses::new(per_address),
    };
    let health_address = beside.as_ref().map(|(_, address)| *address);
    let health = beside.map(|(listener, address)| {
        let closing = watch::Sender::new(false);
        let health =
            accepting(routes::build_health(), address, (HEALTH_CONNECTIONS_MAX, HEALTH_CONNECTIONS_MAX));
        Health { accepting: spawn(health.run(listener, closing.subscribe())), closing }
    });
    let main = accepting(router, address, (most, per_address));
    let accepting = spawn(main.run(listener, app.leaving.subscribe()));
    spawn(waits::watch(Arc::clone(&app)));
    Ok(Running { address, asks_for_keys, health_address, app, accepting, health })
}

struct Accepting {
    service: Router,
    app: Arc<App>,
    acceptor: Option<TlsAcceptor>,
    /// Whether only this machine can reach it.
    is_loopback: bool,
    connections_max: usize,
    addresses: Addresses,
}

impl Accepting {
    async fn run(self, listener: TcpListener, mut leaving: watch::Receiver<bool>) {
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(self.connections_max));
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
                Ok((stream, peer)) => match self.addresses.take(peer.ip()) {
                    Some(connection) => self.converse(stream, peer, (permit, connection), &graceful),
                    None => self.refuse(&stream),
                },
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

    /// Tells an address that it has too many connections, if that can be said without a handshake.
    fn refuse(&self, stream: &TcpStream) {
        let most = self.addresses.most();
        tracing::debug!(most, "an address has too many connections");
        if self.acceptor.is_none() {
            let problem = Problem::new(429, format!("this address has {most} connections already"))
                .code("GS0607")
                .hint("close some first; behind a proxy, raise connections_per_address")
                .limit(most as u64);
            let body = serde_json::to_string(&problem).unwrap_or_default();
            let head = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            // The buffer of a new connection is empty: all of it fits, or the other end is gone.
            let _ = stream.try_write(answer.as_bytes());
        }
    }

    /// Answers one connection until it ends.
    fn converse(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        place: (OwnedSemaphorePermit, Connection),
        graceful: &GracefulShutdown,
    ) {
        let _ = stream.set_nodelay(true);
        let peer = Peer { address: peer, is_loopback: self.is_loopback };
        let service = Service { router: self.service.clone(), peer };
        let patience = self.app.config.header_patience;
        let watcher = graceful.watcher();
        let acceptor = self.acceptor.clone();
        spawn(async move {
            let _place = place;
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
    peer: Peer,
}

impl tower::Service<Request<Incoming>> for Service {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        tower::Service::<Request<Incoming>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
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
