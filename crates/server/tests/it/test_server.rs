//! A test server on a free port with temporary stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goldseam::prelude::*;
use goldseam::unstable::engine::OsEntropy;
use goldseam_api::Caller;
use goldseam_api::credentials::keys::KeyStore;
use goldseam_api::doc::key::NewKey;
use goldseam_api::doc::key::Scope;
use goldseam_server::config::{ServerConfig, Settings};
use goldseam_server::{Running, serve};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server with a store for each of two namespaces.
pub(crate) struct TestServer {
    pub(crate) running: Option<Running>,
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    pub(crate) dir: TempDir,
    flags: BTreeMap<&'static str, String>,
}

impl TestServer {
    /// Starts a server that requires no key.
    pub(crate) async fn open() -> Self {
        Self::with(&[]).await
    }

    /// Starts a server with these settings.
    pub(crate) async fn with(settings: &[(&'static str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = |name: &str| format!("sqlite:{}", dir.path().join(name).display());
        let mut flags = BTreeMap::from([
            ("listen", "127.0.0.1:0".to_owned()),
            ("store", store("main.db")),
            ("namespaces", format!("other={}", store("other.db"))),
            ("finish_seconds", "2".to_owned()),
        ]);
        flags.extend(settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let mut server = Self { running: None, url: String::new(), http: client(), dir, flags };
        server.begin().await;
        server
    }

    /// Starts a server with this time limit for headers and bodies.
    pub(crate) async fn impatient(patience: Duration) -> Self {
        let mut server = Self::open().await;
        server.running.take().unwrap().shutdown().await;
        let config = ServerConfig { header_timeout: patience, body_timeout: patience, ..server.config() };
        server.begin_with(config).await;
        server
    }

    fn config(&self) -> ServerConfig {
        Settings::gather(&self.flags, |_| None, None).unwrap().config().unwrap()
    }

    async fn begin(&mut self) {
        self.begin_with(self.config()).await;
    }

    async fn begin_with(&mut self, config: ServerConfig) {
        let running = serve(config).await.unwrap();
        self.url = running.url();
        self.running = Some(running);
    }

    /// Restarts the server on the same stores.
    pub(crate) async fn restart(&mut self) {
        self.running.take().unwrap().shutdown().await;
        self.begin().await;
    }

    /// Returns the URL of a store.
    pub(crate) fn store(&self, name: &str) -> String {
        format!("sqlite:{}", self.dir.path().join(name).display())
    }

    /// Starts an engine on the main store, as a user's program would.
    pub(crate) async fn engine(&self) -> Engine {
        Self::engine_on(&self.store("main.db")).await
    }

    /// Starts an engine on any store.
    pub(crate) async fn engine_on(store: &str) -> Engine {
        let builder = Engine::open(store).await.unwrap();
        builder.workflow("greet", greet).workflow("ask", ask).workflow("far", far).start().await.unwrap()
    }

    /// Creates a key with these scopes.
    pub(crate) async fn key(&self, namespace: &str, scopes: &[Scope]) -> String {
        self.key_for(namespace, scopes, None).await
    }

    pub(crate) async fn key_for(
        &self,
        namespace: &str,
        scopes: &[Scope],
        valid_for_ms: Option<u64>,
    ) -> String {
        let new = NewKey {
            name: format!("test {namespace}"),
            scopes: scopes.iter().copied().collect(),
            queues: None,
            namespace: Some(namespace.to_owned()),
            valid_for_ms,
        };
        let key = self.keys().await.create(new, &Caller::default()).await.unwrap().1.reveal().to_owned();
        // The server learns of the key a moment later.
        while valid_for_ms.is_none() && self.is_unknown(&key).await {
            tokio::task::yield_now().await;
        }
        key
    }

    async fn is_unknown(&self, key: &str) -> bool {
        let reply = self.ask(Method::GET, "/nowhere").bearer_auth(key).send().await.unwrap();
        matches!(reply.status().as_u16(), 401 | 429)
    }

    pub(crate) async fn keys(&self) -> KeyStore {
        let store = goldseam::open_existing_store(&self.store("main.db")).await.unwrap();
        KeyStore::new(store, Arc::new(OsEntropy))
    }

    pub(crate) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        Reply::of(self.ask(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        Reply::of(self.ask(Method::POST, path).json(body).send().await.unwrap()).await
    }

    /// Starts a run and returns its id.
    pub(crate) async fn start(&self, workflow: &str, id: &str, input: Value) -> String {
        let reply = self.post("/v1/runs", &json!({ "workflow": workflow, "id": id, "input": input })).await;
        reply.ok()["run"].as_str().unwrap().to_owned()
    }
}

/// Returns an HTTP client without proxy settings.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// A response with its body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) kind: String,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) async fn of(response: Response) -> Self {
        let status = response.status();
        let kind =
            response.headers().get("content-type").map_or("", |kind| kind.to_str().unwrap()).to_owned();
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Self { status, kind, body, text }
    }

    /// Asserts success and returns the document.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        self.body
    }

    /// Asserts the status and code, and returns the problem.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.kind, "application/problem+json");
        assert_eq!(self.body["code"], json!(code), "{}", self.text);
        assert_eq!(self.body["status"], json!(status));
        self.body
    }
}

async fn greet(ctx: Context, name: String) -> goldseam::Result<String> {
    let greeting = ctx.step("compose", || async { Ok(format!("Hello, {name}!")) }).await?;
    ctx.signal::<Value>("go").await?;
    Ok(greeting)
}

async fn ask(ctx: Context, _: Value) -> goldseam::Result<Value> {
    ctx.ask("approve", "May it be done?").choice(["yes", "no"]).await
}

async fn far(ctx: Context, input: Value) -> goldseam::Result<Value> {
    ctx.remote("resize", &input).await
}
