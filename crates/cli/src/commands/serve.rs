//! `goldseam serve` and `goldseam dev`.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use goldseam_server::config::Settings;
use goldseam_server::{Running, serve};
use serde_json::json;

use super::{Signals, StopSignal};
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::out;

/// Serve a store over HTTP
///
/// Listens on this machine only, unless --listen says otherwise; a server that other machines can reach requires keys.
/// Heals stalled runs while it runs. Settings come from a file, the environment and the command line: see goldseam
/// config show.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam serve --store sqlite:orders.db\n  goldseam key create ops --scope admin,read && goldseam serve --listen 0.0.0.0:7733 --tls-cert chain.pem --tls-key key.pem\n  goldseam serve --namespace shop=sqlite:shop.db --namespace crm=postgres://db/crm\n\nThen:\n  curl http://127.0.0.1:7733/v1/runs\n  goldseam ls --server http://127.0.0.1:7733"
)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: SettingArgs,
}

/// Serve a temporary store on this machine, for experiments
///
/// Requires no key, and deletes the store when it ends.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam dev\n\nTo keep the data: goldseam serve")]
pub(crate) struct DevArgs {
    /// Address and port on this machine
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

/// Settings of a server from the command line.
#[derive(Debug, Args)]
pub(crate) struct SettingArgs {
    /// The settings file; defaults to goldseam.toml if it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// A namespace and its store; may be given several times
    #[arg(long, value_name = "NAME=URL")]
    namespace: Vec<String>,
    /// File with the certificate chain (PEM)
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// File with the private key (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Where to send traces, as http://HOST:4318
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// The archive for pruned logs: a directory, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "PLACE")]
    archive: Option<String>,
    /// Require no keys, although other machines can reach the server
    #[arg(long)]
    insecure_no_keys: bool,
    /// Any other setting, as in healing.silence_max=20s; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
}

/// Parses `NAME=VALUE`.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("invalid setting {text:?}; write NAME=VALUE")),
    }
}

impl SettingArgs {
    /// Merges the settings of all sources.
    pub(crate) fn gather(self, app: &App) -> Result<Settings, CliError> {
        let mut flags: BTreeMap<&'static str, String> = BTreeMap::new();
        for (name, value) in self.set {
            flags.insert(known_setting(&name)?, value);
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
        gather(&flags, self.config.as_deref())
    }
}

/// Returns the name of a setting for `--set`.
pub(crate) fn known_setting(name: &str) -> Result<&'static str, CliError> {
    Settings::name_of(name).map_err(|error| CliError {
        code: Some(error.code().to_owned()),
        message: error.to_string(),
        help: Some("goldseam config show lists all settings".to_owned()),
        next: Vec::new(),
        exit: Exit::Usage,
    })
}

/// Merges flags with the environment and the file.
pub(crate) fn gather(
    flags: &BTreeMap<&'static str, String>,
    file: Option<&Path>,
) -> Result<Settings, CliError> {
    Settings::refuse_unknown_env(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))?;
    Ok(Settings::gather(flags, |name| std::env::var(name).ok(), file)?)
}

pub(crate) async fn run(app: &App, args: ServeArgs) -> Result<Exit, CliError> {
    let settings = args.settings.gather(app)?;
    let signals = Signals::install()?;
    let config = settings.config()?;
    app.redaction.replace(config.redactor(|name| std::env::var(name).ok())?);
    let store = goldseam::shown_url(&config.store);
    std::iter::once(&config.store)
        .chain(config.namespaces.values())
        .for_each(|url| app.warn_exposed_files(url));
    let running = serve(config).await?;
    announce(app, &running, &store);
    until_ended(app, running, signals).await;
    Ok(Exit::Ok)
}

/// Serves until a signal arrives. SIGTERM drains first, Ctrl-C does not, and a second signal ends the server
/// immediately.
async fn until_ended(app: &App, running: Running, mut signals: Signals) {
    let first = signals.next().await;
    let ending = async {
        if first == StopSignal::Terminate {
            running.drain().await;
        }
        running.shutdown().await;
    };
    tokio::select! {
        () = ending => {}
        _ = signals.next() => app.warn("ended by a second signal before all requests were finished"),
    }
}

fn announce(app: &App, running: &Running, store: &str) {
    let url = running.url();
    let keys = running.asks_for_keys;
    if app.wants_json() {
        return out::json(&json!({ "url": url, "store": store, "asks_for_keys": keys }));
    }
    if app.is_quiet() {
        return out::line(&url);
    }
    out::line(format!("serving {store} on {url}"));
    out::line(match (keys, running.address.ip().is_loopback()) {
        (true, _) => "every request needs a key: goldseam key list",
        (false, true) => "no keys are required: only this machine can reach the server",
        (false, false) => "no keys are required: any machine that reaches the server has full access",
    });
}

pub(crate) async fn dev(app: &App, args: DevArgs) -> Result<Exit, CliError> {
    let signals = Signals::install()?;
    // Other users can neither guess the name nor read the folder.
    let scratch = tempfile::Builder::new()
        .prefix("goldseam-dev-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|error| CliError::plain(format!("cannot create a temporary folder: {error}")))?;
    let store = format!("sqlite:{}", scratch.path().join("dev.db").display());
    let served = dev_on(app, args, &store, signals).await;
    let _ = scratch.close();
    served
}

async fn dev_on(app: &App, args: DevArgs, store: &str, signals: Signals) -> Result<Exit, CliError> {
    let mut flags = BTreeMap::from([("store", store.to_owned()), ("drain_seconds", "0".to_owned())]);
    flags.extend(args.listen.map(|listen| ("listen", listen)));
    // A settings file in the working directory belongs to other stores.
    let config = Settings::of_flags(&flags).config()?;
    let running = serve(config).await?;
    if !running.address.ip().is_loopback() {
        running.shutdown().await;
        return Err(CliError::usage(
            "goldseam dev listens on this machine only",
            "use goldseam serve to listen on other addresses",
        ));
    }
    announce(app, &running, store);
    app.remark(&format!("to use the store in a program: GOLDSEAM_STORE={store}; it is deleted at the end"));
    until_ended(app, running, signals).await;
    Ok(Exit::Ok)
}
