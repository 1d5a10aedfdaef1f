//! Listeners and connections: HTTP/1.1 only, with time limits and a maximum number of connections.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use goldseam_api::Problem;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::address_slots::{AddressSlot, AddressSlots};
use crate::app::ServerState;
use crate::config::ServerConfig;
use crate::connection::{Activity, ConnectionTimeouts, RequestBody, ResponseBody, Timed};
use crate::dashboard::Listener;
use crate::principal::Peer;
use crate::spawn::spawn;
use crate::unparsed::{Explaining, HeadLimits};
use crate::write_timeout::WriteTimeout;
use crate::{key_watch, meter, routes, tls};

/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of a write without progress.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of all headers of a request.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 64;
/// Maximum number of concurrent connections to the health listener.
const HEALTH_CONNECTIONS_MAX: usize = 64;

/// A running server.
#[derive(Debug)]
pub struct Running {
    /// The listen address.
    pub address: SocketAddr,
    /// Whether requests need a key.
    pub asks_for_keys: bool,
    /// The address of the health listener, if configured.
    pub health_address: Option<SocketAddr>,
    app: Arc<ServerState>,
    accepting: JoinHandle<()>,
    health: Option<Health>,
}

/// The listener for health and metrics.
#[derive(Debug)]
struct Health {
    closing: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Running {
    /// Returns the base URL.
    pub fn url(&self) -> String {
        let scheme = if self.app.config.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Makes `/readyz` answer 503 while connections are accepted for `drain_seconds`, so that load balancers move on.
    /// Each response closes its connection.
    pub async fn drain(&self) {
        self.app.draining.store(true, Ordering::Relaxed);
        tokio::time::sleep(self.app.config.drain).await;
    }

    /// Stops accepting requests, waits for running ones, ends the followers' streams and closes every store. Releases
    /// all runs of this process, which counts no attempt. The health listener answers until then.
    pub async fn shutdown(self) {
        self.app.draining.store(true, Ordering::Relaxed);
        self.app.leaving.send_replace(true);
        let _ = self.accepting.await;
        self.app.close().await;
        if let Some(Health { closing, accepting }) = self.health {
            closing.send_replace(true);
            let _ = accepting.await;
        }
    }
}

/// Binds a listener.
async fn bind(address: &str, setting: &str) -> Result<(TcpListener, SocketAddr), Problem> {
    let failed = |error: std::io::Error| {
        Problem::new(500, format!("cannot listen on {address}: {error}"))
            .code("GS0610")
            .hint(format!("choose another address with {setting}"))
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Opens the stores and starts the server.
pub async fn serve(config: ServerConfig) -> Result<Running, Problem> {
    meter::install();
    let (listener, address) = bind(&config.listen, "--listen").await?;
    let health_listener = match &config.health_listen {
        Some(health) => Some(bind(health, "health_listen").await?),
        None => None,
    };
    let tls = config.tls.as_ref().map(|(chain, key)| tls::acceptor(chain, key)).transpose()?;
    let main_limits =
        ConnectionLimits { all: config.connections_max, per_address: config.connections_per_address };
    let app = Arc::new(ServerState::open(config, address.ip().is_loopback()).await?);
    let asks_for_keys = !app.is_open().await?;
    let acceptor_of = |listener, address: SocketAddr, limits: ConnectionLimits| Acceptor {
        service: routes::build(listener, Arc::clone(&app)),
        app: Arc::clone(&app),
        tls: tls.clone(),
        is_loopback: address.ip().is_loopback(),
        connections_max: limits.all,
        addresses: AddressSlots::new(limits.per_address),
    };
    let health_address = health_listener.as_ref().map(|(_, address)| *address);
    let health = health_listener.map(|(listener, address)| {
        let closing = watch::Sender::new(false);
        let limits = ConnectionLimits { all: HEALTH_CONNECTIONS_MAX, per_address: HEALTH_CONNECTIONS_MAX };
        let health = acceptor_of(Listener::Health, address, limits);
        Health { accepting: spawn(health.run(listener, closing.subscribe())), closing }
    });
    let main = acceptor_of(Listener::Main, address, main_limits);
    let accepting = spawn(main.run(listener, app.leaving.subscribe()));
    spawn(key_watch::run(Arc::clone(&app)));
    Ok(Running { address, asks_for_keys, health_address, app, accepting, health })
}

/// The connection limits of a listener.
struct ConnectionLimits {
    all: usize,
    per_address: usize,
}

struct Acceptor {
    service: Router,
    app: Arc<ServerState>,
    tls: Option<TlsAcceptor>,
    /// Whether only this machine can reach the listener.
    is_loopback: bool,
    connections_max: usize,
    addresses: AddressSlots,
}

impl Acceptor {
    async fn run(self, listener: TcpListener, mut leaving: watch::Receiver<bool>) {
        let graceful = GracefulShutdown::new();
        let slots = Arc::new(Semaphore::new(self.connections_max));
        let limits = ConnectionTimeouts {
            headers: self.app.config.header_timeout,
            idle: self.app.config.keep_alive,
            free_slots: Arc::clone(&slots),
            connections_max: self.connections_max,
        };
        loop {
            let next = async {
                let permit = Arc::clone(&slots).acquire_owned().await;
                (permit, listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                next = next => next,
                _ = leaving.wait_for(|leaving| *leaving) => break,
            };
            let Ok(permit) = permit else { break };
            match accepted {
                Ok((stream, peer)) => match self.address_slot(peer.ip()) {
                    Ok(address_slot) => {
                        let connection = AcceptedConnection {
                            peer: peer.ip(),
                            activity: Arc::default(),
                            limits: limits.clone(),
                            watcher: graceful.watcher(),
                            leaving: leaving.clone(),
                            _slots: (permit, address_slot),
                        };
                        self.serve(stream, connection);
                    }
                    Err(problem) => self.refuse(&stream, &problem),
                },
                // Usually out of file descriptors: other connections must end first.
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        let finish = self.app.config.finish;
        if tokio::time::timeout(finish, graceful.shutdown()).await.is_err() {
            tracing::warn!("running requests exceeded finish_seconds; closing their connections");
        }
    }

    /// Takes a connection slot of this address. A trusted proxy needs none: its clients are counted by request.
    fn address_slot(&self, peer: IpAddr) -> Result<Option<AddressSlot>, Problem> {
        match self.app.config.proxies.trust(peer) {
            true => Ok(None),
            false => self.addresses.take(peer).map(Some),
        }
    }

    /// Answers 429 to an address with too many connections, unless that needs a TLS handshake.
    fn refuse(&self, stream: &TcpStream, problem: &Problem) {
        tracing::debug!(limit = problem.limit, "refused a connection: too many from this address");
        if self.tls.is_none() {
            let body = serde_json::to_string(problem).unwrap_or_default();
            let head = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            // The send buffer of a new connection is empty: the response fits, or the peer is gone.
            let _ = stream.try_write(answer.as_bytes());
        }
    }

    /// Serves one connection until it ends.
    fn serve(&self, stream: TcpStream, connection: AcceptedConnection) {
        let _ = stream.set_nodelay(true);
        let service = Service {
            router: self.service.clone(),
            app: Arc::clone(&self.app),
            peer: connection.peer,
            is_loopback: self.is_loopback,
            activity: Arc::clone(&connection.activity),
        };
        let tls = self.tls.clone();
        spawn(async move {
            let stream = WriteTimeout::new(stream, WRITE_TIMEOUT, Arc::clone(&connection.activity));
            match tls {
                None => serve_http(stream, service, connection).await,
                Some(acceptor) => {
                    let mut leaving = connection.leaving.clone();
                    let handshake = tokio::select! {
                        handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => handshake,
                        _ = leaving.wait_for(|leaving| *leaving) => return,
                    };
                    if let Ok(Ok(stream)) = handshake {
                        serve_http(stream, service, connection).await;
                    }
                }
            }
        });
    }
}

/// An accepted connection.
struct AcceptedConnection {
    peer: IpAddr,
    activity: Arc<Activity>,
    limits: ConnectionTimeouts,
    watcher: Watcher,
    leaving: watch::Receiver<bool>,
    /// Freed when the connection ends.
    _slots: (OwnedSemaphorePermit, Option<AddressSlot>),
}

/// The service of one connection, which adds the peer to every request.
#[derive(Debug, Clone)]
struct Service {
    router: Router,
    app: Arc<ServerState>,
    peer: IpAddr,
    is_loopback: bool,
    activity: Arc<Activity>,
}

impl tower::Service<Request<Incoming>> for Service {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        tower::Service::<Request<Body>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let in_progress = self.activity.begin();
        let mut request = request.map(|body| Body::new(RequestBody::new(body, Arc::clone(&self.activity))));
        let client = self.app.config.proxies.client(self.peer, request.headers());
        let is_behind_proxy = client != self.peer.to_canonical();
        request.extensions_mut().insert(Peer { client, is_behind_proxy, is_loopback: self.is_loopback });
        let response = self.router.call(request);
        let app = Arc::clone(&self.app);
        Box::pin(async move {
            let mut response = response.await?;
            if app.is_draining() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| Body::new(ResponseBody::new(body, in_progress))))
        })
    }
}

async fn serve_http<T>(stream: T, service: Service, connection: AcceptedConnection)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Timed::new(stream, Arc::clone(&connection.activity), connection.limits);
    let limits = HeadLimits { bytes: HEADER_BYTES_MAX, headers: HEADERS_MAX };
    let stream = Explaining::new(stream, connection.activity, limits);
    let http = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    if let Err(error) = connection.watcher.watch(http).await {
        tracing::debug!(%error, "connection ended with an error");
    }
}
