//! Connections that are opened when needed, and opened again when lost.
//!
//! Invariant: a statement is repeated only if the server certainly did nothing. Several statements may be under way on
//! one connection, so a slow one does not delay the others.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam_store::StoreError;
use goldseam_store::backoff::Backoff;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Notification, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::clock::MonotonicTime;
use crate::fault::{PgFailure, PgFailureKind, PgFault};
use crate::tls;
use crate::url::{PostgresOptions, SCHEMA_DEFAULT};

/// Values of a statement with their types, which saves the round trip that would ask for the types.
pub(crate) type TypedValues<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Most attempts of one call.
const ATTEMPTS_MAX: u32 = 6;
/// The first pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(160);
/// Longest timeout of a statement of the liveness session.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(5);
/// Most statements that a connection keeps prepared.
const PREPARED_MAX: usize = 256;

/// Settings of all sessions: no plan is worth compiling, a plan for an empty table must suit a full one, every wait has
/// a limit, and a stricter default isolation must not cause conflicts.
const SETTINGS: &str = "-c jit=off -c enable_seqscan=off -c lock_timeout=5s -c statement_timeout=60s \
    -c default_transaction_isolation=read\\ committed";
/// Settings of the liveness session: the server must soon notice that a machine died.
const LIVENESS_SETTINGS: &str = "-c jit=off -c default_transaction_isolation=read\\ committed \
    -c tcp_keepalives_idle=2 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=3 \
    -c tcp_user_timeout=5000 -c idle_session_timeout=0";

/// The server, database and schema of connections.
pub(crate) struct ConnectionTarget {
    pub(crate) options: PostgresOptions,
    tls: Option<MakeRustlsConnect>,
}

impl fmt::Debug for ConnectionTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionTarget").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The purpose of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionRole {
    /// Statements, perhaps through a pooler.
    Work,
    /// Locks of nodes; never through a pooler.
    Liveness,
}

impl ConnectionTarget {
    pub(crate) fn new(options: PostgresOptions) -> Result<Self, StoreError> {
        let tls = match options.config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(tls::connector(options.root_cert.as_deref())?),
        };
        Ok(Self { options, tls })
    }

    /// Replaces the default schema in a statement by the configured one.
    pub(crate) fn sql<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.options.schema.as_str() {
            SCHEMA_DEFAULT => Cow::Borrowed(text),
            schema => Cow::Owned(text.replace("goldseam.", &[schema, "."].concat())),
        }
    }

    fn config(&self, role: SessionRole) -> Config {
        let mut config = self.options.config.clone();
        let settings = match role {
            SessionRole::Liveness => LIVENESS_SETTINGS,
            SessionRole::Work if self.options.pooler => return config,
            SessionRole::Work => SETTINGS,
        };
        let settings = [settings, config.get_options().unwrap_or_default()].join(" ");
        config
            .options(settings)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2));
        config.keepalives_retries(3).tcp_user_timeout(Duration::from_secs(10));
        match (&self.options.direct, role) {
            (Some((host, port)), SessionRole::Liveness) => past_pooler(&config, host, *port),
            _ => config,
        }
    }

    /// Timeout of opening a connection, including the login.
    fn connect_limit(&self) -> Duration {
        let options = &self.options;
        options.config.get_connect_timeout().copied().unwrap_or(options.call_timeout) * 2
    }

    /// Opens a connection and serves it until it ends. Passes notifications to `on_message`, and none at the end.
    pub(crate) async fn connect<F>(
        &self,
        role: SessionRole,
        on_message: F,
    ) -> Result<(Client, ConnectionGuard), PgFault>
    where
        F: FnMut(Option<Notification>) + Send + 'static,
    {
        let config = self.config(role);
        let failed = |error: tokio_postgres::Error| PgFault::connecting(&error, self.options.pooler);
        let limit = self.connect_limit();
        let connecting = async {
            match &self.tls {
                Some(tls) => {
                    let (client, driver) = config.connect(tls.clone()).await.map_err(failed)?;
                    Ok((client, ConnectionGuard(tokio::spawn(serve(driver, on_message)))))
                }
                None => {
                    let (client, driver) = config.connect(NoTls).await.map_err(failed)?;
                    Ok((client, ConnectionGuard(tokio::spawn(serve(driver, on_message)))))
                }
            }
        };
        match tokio::time::timeout(limit, connecting).await {
            Ok(opened) => opened,
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

fn unreachable_server(message: String) -> PgFault {
    PgFault::Unreachable(PgFailure { kind: PgFailureKind::Passing, message })
}

/// Ends the connection when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard(tokio::task::JoinHandle<()>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve<S, T, F>(mut driver: tokio_postgres::Connection<S, T>, mut on_message: F)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
    F: FnMut(Option<Notification>),
{
    loop {
        match std::future::poll_fn(|cx| driver.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(note))) => on_message(Some(note)),
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(%notice, "received a notice from Postgres");
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "lost a connection to Postgres");
                break;
            }
            None => break,
        }
    }
    on_message(None);
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct OpenSession {
    client: Client,
    prepared: Option<Mutex<HashMap<String, Statement>>>,
    timeout: Duration,
    _guard: ConnectionGuard,
}

impl OpenSession {
    fn new(client: Client, guard: ConnectionGuard, options: &PostgresOptions) -> Self {
        // Behind a pooler, the next transaction may have a session without the prepared statement.
        let prepared = (!options.pooler).then(Mutex::default);
        Self { client, prepared, timeout: options.call_timeout, _guard: guard }
    }

    /// Runs a statement once.
    async fn query(&self, sql: &str, values: TypedValues<'_>) -> Result<Vec<Row>, PgFault> {
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
        match tokio::time::timeout(self.timeout, asking).await {
            Ok(answer) => answer.map_err(|error| PgFault::answering(&error)),
            Err(_) => Err(PgFault::Lost(format!("no answer within {:?}", self.timeout))),
        }
    }

    async fn prepare(
        &self,
        sql: &str,
        values: TypedValues<'_>,
        prepared: &Mutex<HashMap<String, Statement>>,
    ) -> Result<Statement, tokio_postgres::Error> {
        let types: Vec<Type> = values.iter().map(|(_, kind)| kind.clone()).collect();
        let statement = self.client.prepare_typed(sql, &types).await?;
        let mut prepared = prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if prepared.len() >= PREPARED_MAX {
            prepared.clear();
        }
        prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// A connection that is opened when needed, and opened again when lost.
pub(crate) struct PgConnection {
    target: Arc<ConnectionTarget>,
    /// The runtime that serves the connection: the runtime of a caller may end before it.
    runtime: Handle,
    session: tokio::sync::Mutex<Option<Arc<OpenSession>>>,
}

impl fmt::Debug for PgConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgConnection").finish_non_exhaustive()
    }
}

impl PgConnection {
    pub(crate) fn new(target: Arc<ConnectionTarget>, runtime: Handle) -> Self {
        Self { target, runtime, session: tokio::sync::Mutex::default() }
    }

    /// Whether statements stay prepared.
    pub(crate) fn keeps_statements(&self) -> bool {
        !self.target.options.pooler
    }

    async fn session(&self) -> Result<Arc<OpenSession>, PgFault> {
        // Callers wait here while another caller opens the connection, one after the other.
        let limit = self.target.connect_limit();
        let Ok(mut current) = tokio::time::timeout(limit, self.session.lock()).await else {
            return Err(unreachable_server(format!("no connection within {limit:?}")));
        };
        if let Some(session) = current.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let target = Arc::clone(&self.target);
        let connecting = self.runtime.spawn(async move { target.connect(SessionRole::Work, drop).await });
        let (client, guard) = match connecting.await {
            Ok(opened) => opened?,
            Err(_) => return Err(unreachable_server("the runtime of this store has shut down".to_owned())),
        };
        let session = Arc::new(OpenSession::new(client, guard, &self.target.options));
        *current = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn drop_session(&self, lost: &Arc<OpenSession>) {
        let mut current = self.session.lock().await;
        if current.as_ref().is_some_and(|session| Arc::ptr_eq(session, lost)) {
            *current = None;
        }
    }

    /// Runs a statement. Repeats it a few times if the server certainly did nothing, unless it took long.
    pub(crate) async fn query(&self, sql: &str, values: TypedValues<'_>) -> Result<Vec<Row>, PgFault> {
        self.with_retries(sql, values, |fault| fault.may_pass()).await
    }

    /// Runs a statement that changes nothing. Repeats it after a lost response too.
    pub(crate) async fn read(&self, sql: &str, values: TypedValues<'_>) -> Result<Vec<Row>, StoreError> {
        let again = |fault: &PgFault| fault.may_pass() || matches!(fault, PgFault::Lost(_));
        self.with_retries(sql, values, again).await.map_err(|fault| fault.to_read_error())
    }

    async fn with_retries(
        &self,
        sql: &str,
        values: TypedValues<'_>,
        again: impl Fn(&PgFault) -> bool,
    ) -> Result<Vec<Row>, PgFault> {
        let sql = self.target.sql(sql);
        let begun = MonotonicTime::now();
        let mut attempts = 0;
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
        loop {
            let fault = match self.once(&sql, values).await {
                Ok(rows) => return Ok(rows),
                Err(fault) => fault,
            };
            attempts += 1;
            let is_late = begun.elapsed() >= self.target.options.call_timeout;
            if attempts >= ATTEMPTS_MAX || is_late || !again(&fault) {
                return Err(fault);
            }
            tracing::debug!(?fault, attempts, "retrying a Postgres statement");
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    async fn once(&self, sql: &str, values: TypedValues<'_>) -> Result<Vec<Row>, PgFault> {
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

/// An open liveness session.
#[derive(Debug)]
pub(crate) struct LivenessSession {
    session: OpenSession,
    since: MonotonicTime,
    is_first: bool,
    lost: Notify,
}

impl LivenessSession {
    pub(crate) fn new(
        client: Client,
        guard: ConnectionGuard,
        is_first: bool,
        options: &PostgresOptions,
    ) -> Self {
        let timeout = options.call_timeout.min(LIVENESS_TIMEOUT);
        let session = OpenSession { timeout, ..OpenSession::new(client, guard, options) };
        Self { session, since: MonotonicTime::now(), is_first, lost: Notify::new() }
    }

    pub(crate) async fn query(&self, sql: &str, values: TypedValues<'_>) -> Result<Vec<Row>, PgFault> {
        let answer = self.session.query(sql, values).await;
        if answer.as_ref().is_err_and(PgFault::ends_session) {
            self.lost.notify_one();
        }
        answer
    }

    /// Runs statements without values and results.
    pub(crate) async fn execute(&self, sql: &str) -> Result<(), PgFault> {
        let limit = self.session.timeout;
        match tokio::time::timeout(limit, self.session.client.batch_execute(sql)).await {
            Ok(answer) => answer.map_err(|error| PgFault::answering(&error)),
            Err(_) => Err(PgFault::Lost(format!("no answer within {limit:?}"))),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }

    /// Whether it is the first session of its process.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// How long it has been open.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Waits until a statement finds that it is lost.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }
}
