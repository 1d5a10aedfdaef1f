//! One connection: made when it is needed, made again when it is lost.
//!
//! Invariant: a statement is repeated only if the server certainly did nothing. Whoever waits for a statement
//! holds nothing else up: several may be on their way over one connection.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam_store::StoreError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Notification, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::clock::Moment;
use crate::fault::{Failure, Fault, Nature};
use crate::tls;
use crate::url::{Options, SCHEMA_DEFAULT};

/// Values of a statement with their types, so that no round trip is needed to ask for them.
pub(crate) type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Tries of one call, the first one included.
const TRIES_MAX: u32 = 6;
/// The pause after the first try; each next one is twice as long.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a statement of the liveness session may take.
const LIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements that a connection keeps prepared.
const PREPARED_MAX: usize = 256;

/// What sessions of this store have in common: no plan is ever worth compiling, a plan that is made while a table is
/// empty must be good when it is full, nothing may wait for ever, and a server that is stricter by default must not
/// make conflicts of what is none.
const SETTINGS: &str = "-c jit=off -c enable_seqscan=off -c lock_timeout=5s -c statement_timeout=60s \
    -c default_transaction_isolation=read\\ committed";
/// The same for the liveness session, whose end the server must notice soon when a machine is gone.
const SETTINGS_LIVE: &str = "-c jit=off -c default_transaction_isolation=read\\ committed \
    -c tcp_keepalives_idle=2 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=3 \
    -c tcp_user_timeout=5000 -c idle_session_timeout=0";

/// Where connections go.
pub(crate) struct Target {
    pub(crate) options: Options,
    tls: Option<MakeRustlsConnect>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Which session is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Statements, perhaps through a pooler.
    Work,
    /// The one that holds a node's lock; never through a pooler.
    Live,
}

impl Target {
    pub(crate) fn new(options: Options) -> Result<Self, StoreError> {
        let tls = match options.config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(tls::connector(options.root_cert.as_deref())?),
        };
        Ok(Self { options, tls })
    }

    /// The statement for the schema that is configured.
    pub(crate) fn sql<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.options.schema.as_str() {
            SCHEMA_DEFAULT => Cow::Borrowed(text),
            schema => Cow::Owned(text.replace("goldseam.", &[schema, "."].concat())),
        }
    }

    fn config(&self, role: Role) -> Config {
        let mut config = self.options.config.clone();
        let settings = match role {
            Role::Live => SETTINGS_LIVE,
            Role::Work if self.options.pooler => return config,
            Role::Work => SETTINGS,
        };
        let settings = [settings, config.get_options().unwrap_or_default()].join(" ");
        config
            .options(settings)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2));
        config.keepalives_retries(3).tcp_user_timeout(Duration::from_secs(10));
        match (&self.options.direct, role) {
            (Some((host, port)), Role::Live) => past_pooler(&config, host, *port),
            _ => config,
        }
    }

    /// How long a connection may take to be made, with everything that is said before the first statement.
    fn connect_limit(&self) -> Duration {
        let options = &self.options;
        options.config.get_connect_timeout().copied().unwrap_or(options.call_timeout) * 2
    }

    /// Makes a connection and has it served until it ends. Notifications go to `heard`, the end as none.
    pub(crate) async fn connect<F>(&self, role: Role, heard: F) -> Result<(Client, Ended), Fault>
    where
        F: FnMut(Option<Notification>) + Send + 'static,
    {
        let config = self.config(role);
        let failed = |error: tokio_postgres::Error| Fault::connecting(&error, self.options.pooler);
        let limit = self.connect_limit();
        let connecting = async {
            match &self.tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls.clone()).await.map_err(failed)?;
                    Ok((client, Ended(tokio::spawn(serve(connection, heard)))))
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
                    Ok((client, Ended(tokio::spawn(serve(connection, heard)))))
                }
            }
        };
        match tokio::time::timeout(limit, connecting).await {
            Ok(made) => made,
            Err(_) => Err(unreachable_server(format!("no answer within {limit:?}"))),
        }
    }
}

/// The same database at another address.
fn past_pooler(config: &Config, host: &str, port: u16) -> Config {
    let mut direct = Config::new();
    direct.host(host).port(port).ssl_mode(config.get_ssl_mode());
    if let Some(user) = config.get_user() {
        direct.user(user);
    }
    if let Some(password) = config.get_password() {
        direct.password(password);
    }
    if let Some(name) = config.get_dbname() {
        direct.dbname(name);
    }
    if let Some(name) = config.get_application_name() {
        direct.application_name(name);
    }
    if let Some(options) = config.get_options() {
        direct.options(options);
    }
    if let Some(limit) = config.get_connect_timeout() {
        direct.connect_timeout(*limit);
    }
    direct.keepalives_idle(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        direct.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        direct.keepalives_retries(retries);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        direct.tcp_user_timeout(*limit);
    }
    direct
}

fn unreachable_server(words: String) -> Fault {
    Fault::Unreachable(Failure { nature: Nature::Passing, words })
}

/// Dropped, it ends the connection.
#[derive(Debug)]
pub(crate) struct Ended(tokio::task::JoinHandle<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve<S, T, F>(mut connection: Connection<S, T>, mut heard: F)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
    F: FnMut(Option<Notification>),
{
    loop {
        match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(note))) => heard(Some(note)),
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(%notice, "received a notice from Postgres")
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "lost a connection to Postgres");
                break;
            }
            None => break,
        }
    }
    heard(None);
}

/// A connection that stands.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    prepared: Option<Mutex<HashMap<String, Statement>>>,
    limit: Duration,
    _ended: Ended,
}

impl Session {
    fn new((client, ended): (Client, Ended), options: &Options) -> Self {
        // What a pooler's next session does not know must not be relied on.
        let prepared = (!options.pooler).then(Mutex::default);
        Self { client, prepared, limit: options.call_timeout, _ended: ended }
    }

    /// Has a statement done, once.
    async fn query(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Fault> {
        let asking = async {
            let Some(prepared) = &self.prepared else { return self.client.query_typed(sql, values).await };
            let known = prepared.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
            let statement = match known {
                Some(statement) => statement,
                None => self.prepare(sql, values, prepared).await?,
            };
            let bare: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
            self.client.query(&statement, &bare).await
        };
        match tokio::time::timeout(self.limit, asking).await {
            Ok(answer) => answer.map_err(|error| Fault::answering(&error)),
            Err(_) => Err(Fault::Lost(format!("no answer within {:?}", self.limit))),
        }
    }

    async fn prepare(
        &self,
        sql: &str,
        values: Values<'_>,
        prepared: &Mutex<HashMap<String, Statement>>,
    ) -> Result<Statement, tokio_postgres::Error> {
        let types: Vec<Type> = values.iter().map(|(_, of)| of.clone()).collect();
        let statement = self.client.prepare_typed(sql, &types).await?;
        let mut prepared = prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if prepared.len() >= PREPARED_MAX {
            prepared.clear();
        }
        prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// A place for one connection.
pub(crate) struct Link {
    target: Arc<Target>,
    /// Where its connection is served: the runtime that a caller happens to be in may end before it.
    home: Handle,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(target: Arc<Target>, home: Handle) -> Self {
        Self { target, home, session: tokio::sync::Mutex::default() }
    }

    /// Whether a statement is planned once for many times.
    pub(crate) fn keeps_plans(&self) -> bool {
        !self.target.options.pooler
    }

    async fn session(&self) -> Result<Arc<Session>, Fault> {
        // Whoever waits here waits for somebody's connection, and a crowd of them for one after the other.
        let limit = self.target.connect_limit();
        let Ok(mut place) = tokio::time::timeout(limit, self.session.lock()).await else {
            return Err(unreachable_server(format!("no connection within {limit:?}")));
        };
        if let Some(session) = place.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let target = Arc::clone(&self.target);
        let connecting = self.home.spawn(async move { target.connect(Role::Work, drop).await });
        let made = match connecting.await {
            Ok(made) => made?,
            Err(_) => return Err(unreachable_server("the runtime of this store has shut down".to_owned())),
        };
        let session = Arc::new(Session::new(made, &self.target.options));
        *place = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn drop_session(&self, lost: &Arc<Session>) {
        let mut place = self.session.lock().await;
        if place.as_ref().is_some_and(|session| Arc::ptr_eq(session, lost)) {
            *place = None;
        }
    }

    /// Has a statement done; what the server certainly did not do is tried again, a few times, unless it took long.
    pub(crate) async fn query(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Fault> {
        self.tries(sql, values, |fault| fault.may_pass()).await
    }

    /// The same for a statement that changes nothing, so that a lost answer is no harm either.
    pub(crate) async fn read(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        let again = |fault: &Fault| fault.may_pass() || matches!(fault, Fault::Lost(_));
        self.tries(sql, values, again).await.map_err(|fault| fault.to_read_error())
    }

    async fn tries(
        &self,
        sql: &str,
        values: Values<'_>,
        again: impl Fn(&Fault) -> bool,
    ) -> Result<Vec<Row>, Fault> {
        let sql = self.target.sql(sql);
        let (mut tried, begun) = (0, Moment::now());
        loop {
            let fault = match self.once(&sql, values).await {
                Ok(rows) => return Ok(rows),
                Err(fault) => fault,
            };
            tried += 1;
            let late = begun.elapsed() >= self.target.options.call_timeout;
            if tried >= TRIES_MAX || late || !again(&fault) {
                return Err(fault);
            }
            tracing::debug!(?fault, tried, "retrying a Postgres statement");
            tokio::time::sleep(jittered(PAUSE * 2_u32.pow(tried - 1))).await;
        }
    }

    async fn once(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Fault> {
        let session = self.session().await?;
        let answer = session.query(sql, values).await;
        if let Err(fault) = &answer
            && fault.ends_session()
        {
            self.drop_session(&session).await;
        }
        answer
    }
}

/// From half of the span to one and a half, so that those who failed together do not come back together.
pub(crate) fn jittered(span: Duration) -> Duration {
    let lot = RandomState::new().build_hasher().finish() % 1024;
    span / 2 + span * u32::try_from(lot).unwrap_or_default() / 1024
}

/// The liveness session: whoever finds it lost says so, and its keeper makes another.
#[derive(Debug)]
pub(crate) struct LiveSession {
    session: Session,
    since: Moment,
    first: bool,
    lost: Notify,
}

impl LiveSession {
    pub(crate) fn new(made: (Client, Ended), first: bool, options: &Options) -> Self {
        let limit = options.call_timeout.min(LIVE_TIMEOUT);
        let session = Session { limit, ..Session::new(made, options) };
        Self { session, since: Moment::now(), first, lost: Notify::new() }
    }

    pub(crate) async fn query(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Fault> {
        let answer = self.session.query(sql, values).await;
        if answer.as_ref().is_err_and(Fault::ends_session) {
            self.lost.notify_one();
        }
        answer
    }

    /// Statements without values or answers.
    pub(crate) async fn execute(&self, sql: &str) -> Result<(), Fault> {
        let limit = self.session.limit;
        match tokio::time::timeout(limit, self.session.client.batch_execute(sql)).await {
            Ok(answer) => answer.map_err(|error| Fault::answering(&error)),
            Err(_) => Err(Fault::Lost(format!("no answer within {limit:?}"))),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }

    /// Whether it is the first one of its process, which has lost none.
    pub(crate) fn is_first(&self) -> bool {
        self.first
    }

    /// How long it has stood.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Waits until it is lost.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }
}
