//! `goldseam serve` and `goldseam dev`.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use clap::Args;
use goldseam::core::argument::meant;
use goldseam_server::config::Settings;
use goldseam_server::{Running, serve};
use serde_json::json;

use super::{Signals, Told};
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::out;

/// Make a store reachable over HTTP, for any language and any operator
///
/// Listens on this machine only unless told otherwise; whoever can be reached from elsewhere asks for keys. Heals what
/// stalls while it runs. Settings come from a file, the environment and the command line: goldseam config show.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam serve --store sqlite:orders.db\n  goldseam key create ops --scope admin,read && goldseam serve --listen 0.0.0.0:7733 --tls-cert chain.pem --tls-key key.pem\n  goldseam serve --namespace shop=sqlite:shop.db --namespace crm=postgres://db/crm\n\nThen:\n  curl http://127.0.0.1:7733/v1/runs\n  goldseam ls --server http://127.0.0.1:7733"
)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: SettingArgs,
}

/// A server to try things with: on this machine only, on a scratch store
///
/// Asks nobody for a key, and forgets everything when it ends.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam dev\n\nKeep what you do: goldseam serve")]
pub(crate) struct DevArgs {
    /// Address and port on this machine
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

/// Settings of a server, as far as they are typed.
#[derive(Debug, Args)]
pub(crate) struct SettingArgs {
    /// The file with settings; goldseam.toml if it is there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// A namespace and its store; may be given several times
    #[arg(long, value_name = "NAME=URL")]
    namespace: Vec<String>,
    /// File with the chain of certificates (PEM)
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// File with its private key (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Where traces go, as http://HOST:4318
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Where pruned logs go: a directory, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "PLACE")]
    archive: Option<String>,
    /// Ask nobody for a key, although others can reach it
    #[arg(long)]
    insecure_no_keys: bool,
    /// Any other setting; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
}

/// Reads `NAME=VALUE`.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} sets nothing; write NAME=VALUE")),
    }
}

impl SettingArgs {
    /// All settings, put over one another.
    pub(crate) fn gather(self, app: &App) -> Result<Settings, Fail> {
        let mut flags: BTreeMap<&'static str, String> = BTreeMap::new();
        for (name, value) in self.set {
            let known = goldseam_server::config::FIELDS.iter().find(|field| field.name == name);
            let names = goldseam_server::config::FIELDS.iter().map(|field| field.name);
            let unknown = || {
                let words = format!("there is no setting {name:?}{}", meant(&name, names));
                Fail::usage(words, "goldseam config show lists all")
            };
            flags.insert(known.ok_or_else(unknown)?.name, value);
        }
        let typed = [
            ("store", app.names_store.then(|| app.url.clone())),
            ("listen", self.listen),
            ("namespaces", (!self.namespace.is_empty()).then(|| self.namespace.join(","))),
            ("tls_cert", self.tls_cert),
            ("tls_key", self.tls_key),
            ("otlp", self.otlp),
            ("archive", self.archive),
            ("insecure_no_keys", self.insecure_no_keys.then(|| "true".to_owned())),
        ];
        flags.extend(typed.into_iter().filter_map(|(name, value)| Some((name, value?))));
        Ok(Settings::gather(&flags, |name| std::env::var(name).ok(), self.config.as_deref())?)
    }
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: ServeArgs) -> Result<Exit, Fail> {
    let settings = args.settings.gather(app)?;
    let signals = Signals::install()?;
    let config = settings.config()?;
    app.hidden.replace(config.redactor(|name| std::env::var(name).ok())?);
    let store = goldseam::shown_url(&config.store);
    std::iter::once(&config.store)
        .chain(config.namespaces.values())
        .for_each(|url| app.warn_exposed_files(url));
    let running = serve(config).await?;
    tell(app, &running, &store);
    until_ended(app, running, signals).await;
    Ok(Exit::Ok)
}

/// Serves until a signal comes, then ends: SIGTERM drains first, Ctrl-C does not, and a second signal ends at once.
async fn until_ended(app: &App, running: Running, mut signals: Signals) {
    let first = signals.next().await;
    let ending = async {
        if first == Told::Terminate {
            running.drain().await;
        }
        running.shutdown().await;
    };
    tokio::select! {
        () = ending => {}
        _ = signals.next() => app.warn("ended by a second signal: requests under way were not finished"),
    }
}

fn tell(app: &App, running: &Running, store: &str) {
    let (url, keys) = (running.url(), running.asks_for_keys);
    if app.wants_json() {
        return out::json(&json!({ "url": url, "store": store, "asks_for_keys": keys }));
    }
    if app.is_quiet() {
        return out::line(&url);
    }
    out::line(format!("{store} is served on {url}"));
    out::line(match (keys, running.address.ip().is_loopback()) {
        (true, _) => "every request needs a key: goldseam key list",
        (false, true) => "no key is asked for: only this machine can reach it",
        (false, false) => "no key is asked for: whoever can reach it can do anything",
    });
}

/// Carries out `dev`.
pub(crate) async fn dev(app: &App, args: DevArgs) -> Result<Exit, Fail> {
    let signals = Signals::install()?;
    // Nobody else can know the name before, or look into it.
    let scratch = tempfile::Builder::new()
        .prefix("goldseam-dev-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|error| Fail::plain(format!("a scratch folder cannot be made: {error}")))?;
    let store = format!("sqlite:{}", scratch.path().join("dev.db").display());
    let served = dev_on(app, args, &store, signals).await;
    let _ = scratch.close();
    served
}

async fn dev_on(app: &App, args: DevArgs, store: &str, signals: Signals) -> Result<Exit, Fail> {
    let mut flags = BTreeMap::from([("store", store.to_owned()), ("drain_seconds", "0".to_owned())]);
    flags.extend(args.listen.map(|listen| ("listen", listen)));
    // What the file of a project says is about other stores than this one.
    let config = Settings::of_flags(&flags).config()?;
    let running = serve(config).await?;
    if !running.address.ip().is_loopback() {
        running.shutdown().await;
        return Err(Fail::usage(
            "a scratch server listens on this machine only",
            "goldseam serve can listen elsewhere",
        ));
    }
    tell(app, &running, store);
    app.remark(&format!(
        "work on it from a program: GOLDSEAM_STORE={store}; everything is forgotten at the end"
    ));
    until_ended(app, running, signals).await;
    Ok(Exit::Ok)
}
