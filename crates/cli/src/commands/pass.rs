//! `goldseam pass`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use goldseam::unstable::core::SignalName;
use goldseam::{Path, RunId};
use goldseam_api::Api;
use goldseam_api::credentials::token::FileSecret;
use goldseam_api::doc::pass::{CreatedPassDoc, NewPass};
use goldseam_server::config::Settings;

use super::actor;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::{out, time};

/// Manage passes, which allow one answer or one signal through a server
#[derive(Debug, Subcommand)]
pub(crate) enum PassCommand {
    /// Create a pass to answer one question or to send one signal; it is shown once
    ///
    /// A web page sends the pass to the server's /v1/pass. A program signs its request to the callback address with the
    /// secret, and does not send the pass itself.
    #[command(
        group = clap::ArgGroup::new("what").required(true).args(["answer", "signal"]),
        after_help = "Examples:\n  goldseam pass create order-7 --answer approve --expires 2d\n  goldseam pass create order-7 --signal paid --json | jq -r .callback"
    )]
    Create {
        /// The run
        run: RunId,
        /// The question that may be answered
        #[arg(long, value_name = "QUESTION", value_parser = Path::new)]
        answer: Option<Path>,
        /// The signal that may be sent
        #[arg(long, value_name = "NAME")]
        signal: Option<SignalName>,
        /// How long the pass is valid, as in 2d; defaults to a week
        #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
        expires: Option<Duration>,
    },
    /// Rotate the signing key of passes
    ///
    /// Passes that were created since the previous rotation stay valid until the next one.
    Rotate,
}

/// Connects to the server, or to the store with the `secret_file` that its servers sign passes with.
async fn api(app: &App) -> Result<Arc<dyn Api>, CliError> {
    if let Some(remote) = app.remote()? {
        return Ok(remote);
    }
    let settings = Settings::gather(&BTreeMap::new(), |name| std::env::var(name).ok(), None)?;
    let own = FileSecret::read(settings.config()?.secret_file.as_deref())?;
    Ok(Arc::new(app.local().await?.signing_with(own)))
}

pub(crate) async fn run(app: &App, command: PassCommand) -> Result<Exit, CliError> {
    let caller = actor::caller(None);
    match command {
        PassCommand::Create { run, answer, signal, expires } => {
            let valid_for_ms = expires.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
            let new = NewPass { answer, signal, valid_for_ms };
            show(app, &api(app).await?.create_pass(&caller, &run, new).await?);
        }
        PassCommand::Rotate => {
            let rotated = api(app).await?.rotate_passes(&caller).await?;
            match () {
                () if app.wants_json() => out::json(&rotated),
                () if app.is_quiet() => {}
                () => {
                    out::line(
                        "rotated the signing key; passes from before the previous rotation are invalid",
                    );
                }
            }
        }
    }
    Ok(Exit::Ok)
}

fn show(app: &App, created: &CreatedPassDoc) {
    match () {
        () if app.wants_json() => return out::json(created),
        () if app.is_quiet() => return out::line(&created.pass),
        () => {}
    }
    out::line(format!("pass      {}", created.pass));
    out::line(format!("callback  {}", created.callback));
    out::line(format!("secret    {}", created.secret));
    out::line(format!("expires   {}", time::iso(created.expires_at)));
    app.remark("the pass is shown only once; keep it secret");
}
