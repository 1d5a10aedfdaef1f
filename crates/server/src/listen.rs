//! Connections: HTTP/1.1 only, each with patience for its headers and for its other end, no more than a bound.

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

use crate::address_slots::{AddressSlots, Connection};
use crate::app::App;
use crate::auth::Peer;
use crate::config::Config;
use crate::connection::{Activity, Bounds, RequestBody, ResponseBody, Timed};
use crate::spawn::spawn;
use crate::write_timeout::WriteTimeout;
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

    /// Says that the server is not ready, so that balancers send requests elsewhere, and still accepts connections for
    /// `drain_seconds`. Requests are answered; each answer closes its connection.
    pub async fn drain(&self) {
        self.app.draining.store(true, Ordering::Relaxed);
        tokio::time::sleep(self.app.config.drain).await;
    }

    /// Takes no more requests, lets those under way finish, tells followers to come back, and leaves every store: what
    /// this process had is handed over, and counts as no attempt. The listener for health answers until then.
    pub async fn shutdown(self) {
        self.app.draining.store(true, Ordering::Relaxed);
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
        addresses: AddressSlots::new(per_address),
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
    addresses: AddressSlots,
}

impl Accepting {
    async fn run(self, listener: TcpListener, mut leaving: watch::Receiver<bool>) {
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(self.connections_max));
        let (headers, idle) = (self.app.config.header_patience, self.app.config.keep_alive);
        let bounds = Bounds { headers, idle, room: (Arc::clone(&room), self.connections_max) };
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
                Ok((stream, peer)) => match self.place(peer.ip()) {
                    Ok(connection) => {
                        let (activity, bounds) = (Arc::default(), bounds.clone());
                        let (watcher, leaving) = (graceful.watcher(), leaving.clone());
                        let talk = Talk { activity, bounds, watcher, leaving };
                        self.converse(stream, peer.ip(), (permit, connection), talk);
                    }
                    Err(problem) => self.refuse(&stream, &problem),
                },
                // Out of descriptors, mostly: others must end first.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        let finish = self.app.config.finish;
        if tokio::time::timeout(finish, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
    }

    /// A place for a connection of this address. A trusted proxy needs none: its clients are counted by request.
    fn place(&self, peer: IpAddr) -> Result<Option<Connection>, Problem> {
        match self.app.config.proxies.trust(peer) {
            true => Ok(None),
            false => self.addresses.take(peer).map(Some),
        }
    }

    /// Tells an address that it has too many connections, if that can be said without a handshake.
    fn refuse(&self, stream: &TcpStream, problem: &Problem) {
        tracing::debug!(limit = problem.limit, "an address has too many connections");
        if self.acceptor.is_none() {
            let body = serde_json::to_string(problem).unwrap_or_default();
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
        peer: IpAddr,
        place: (OwnedSemaphorePermit, Option<Connection>),
        talk: Talk,
    ) {
        let _ = stream.set_nodelay(true);
        let (router, app, activity) =
            (self.service.clone(), Arc::clone(&self.app), Arc::clone(&talk.activity));
        let service = Service { router, app, peer, is_loopback: self.is_loopback, activity };
        let acceptor = self.acceptor.clone();
        spawn(async move {
            let _place = place;
            let stream = WriteTimeout::new(stream, WRITE_PATIENCE, Arc::clone(&talk.activity));
            match acceptor {
                None => answer(stream, service, talk).await,
                Some(acceptor) => {
                    let mut leaving = talk.leaving.clone();
                    let handshake = tokio::select! {
                        handshake = tokio::time::timeout(TLS_PATIENCE, acceptor.accept(stream)) => handshake,
                        _ = leaving.wait_for(|leaving| *leaving) => return,
                    };
                    if let Ok(Ok(stream)) = handshake {
                        answer(stream, service, talk).await;
                    }
                }
            }
        });
    }
}

/// What a connection is answered by.
struct Talk {
    activity: Arc<Activity>,
    bounds: Bounds,
    watcher: Watcher,
    leaving: watch::Receiver<bool>,
}

/// The routes, as one connection sees them: every request says where it came from.
#[derive(Debug, Clone)]
struct Service {
    router: Router,
    app: Arc<App>,
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
        let under_way = self.activity.begin();
        let mut request = request.map(|body| Body::new(RequestBody::new(body, Arc::clone(&self.activity))));
        let client = self.app.config.proxies.client(self.peer, request.headers());
        let is_behind_proxy = client != self.peer.to_canonical();
        request.extensions_mut().insert(Peer { client, is_behind_proxy, is_loopback: self.is_loopback });
        let (answered, app) = (self.router.call(request), Arc::clone(&self.app));
        Box::pin(async move {
            let mut response = answered.await?;
            if app.is_draining() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| Body::new(ResponseBody::new(body, under_way))))
        })
    }
}

async fn answer<T>(stream: T, service: Service, talk: Talk)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Timed::new(stream, talk.activity, talk.bounds);
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    if let Err(error) = talk.watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}
