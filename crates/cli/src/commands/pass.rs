//! `goldseam pass`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use goldseam::core::SignalName;
use goldseam::engine::{OsEntropy, SystemClock};
use goldseam::{Path, RunId};
use goldseam_api::Local;
use goldseam_api::doc::pass::{MadePass, NewPass};
use goldseam_server::NAMESPACE_DEFAULT;
use goldseam_server::config::Settings;
use goldseam_server::pass::{Maker, Passes};
use goldseam_server::token::FileSecret;

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

pub(crate) async fn run(app: &App, command: PassCommand) -> Result<Exit, CliError> {
    let caller = actor::caller(None);
    let remote = app.remote()?;
    let passes = async || {
        let store = goldseam::open_existing_store(&app.url).await?;
        // Servers of this store sign with the same file.
        let settings = Settings::gather(&BTreeMap::new(), |name| std::env::var(name).ok(), None)?;
        let own = FileSecret::read(settings.config()?.secret_file.as_deref())?;
        Ok::<_, CliError>(Passes::new(store, Arc::new(OsEntropy), Arc::new(SystemClock), own))
    };
    match command {
        PassCommand::Create { run, answer, signal, expires } => {
            let valid_for_ms = expires.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
            let new = NewPass { answer, signal, valid_for_ms };
            let made = match remote {
                Some(remote) => remote.create_pass(&caller, &run, &new).await?,
                None => {
                    let local = Local::new(goldseam::connect_existing(&app.url).await?);
                    let maker = Maker { who: caller.who, ..Maker::default() };
                    passes().await?.make((NAMESPACE_DEFAULT, &local), maker, &run, new).await?
                }
            };
            show(app, &made);
        }
        PassCommand::Rotate => {
            let rotated = match remote {
                Some(remote) => remote.rotate_passes(&caller).await?,
                None => passes().await?.rotate(&caller).await?,
            };
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

fn show(app: &App, made: &MadePass) {
    match () {
        () if app.wants_json() => return out::json(made),
        () if app.is_quiet() => return out::line(&made.pass),
        () => {}
    }
    out::line(format!("pass      {}", made.pass));
    out::line(format!("callback  {}", made.callback));
    out::line(format!("secret    {}", made.secret));
    out::line(format!("expires   {}", time::iso(made.expires_at)));
    app.remark("the pass is shown only once; keep it secret");
}
