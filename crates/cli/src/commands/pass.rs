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

use super::who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::{out, when};

/// Passes: whoever holds one may do one thing through a server, once
#[derive(Debug, Subcommand)]
pub(crate) enum PassCommand {
    /// Make a pass to answer one question, or to send one signal; it is shown once
    ///
    /// A person's page sends the pass to a server's /v1/pass. A program signs what it sends to the address of the
    /// callback with the secret, and never shows the pass itself.
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
        /// For how long it is valid, as in 2d; a week unless given
        #[arg(long, value_name = "SPAN", value_parser = when::parse_span)]
        expires: Option<Duration>,
    },
    /// Make passes with something new from now on
    ///
    /// Those that were made since the last time stay valid until this is done once more.
    Rotate,
}

/// Carries it out.
pub(crate) async fn run(app: &App, command: PassCommand) -> Result<Exit, Fail> {
    let (caller, remote) = (who::caller(None), app.remote()?);
    let passes = async || {
        let store = goldseam::open_existing_store(&app.url).await?;
        // Servers of this store sign with the same file.
        let settings = Settings::gather(&BTreeMap::new(), |name| std::env::var(name).ok(), None)?;
        let own = FileSecret::read(settings.config()?.secret_file.as_deref())?;
        Ok::<_, Fail>(Passes::new(store, Arc::new(OsEntropy), Arc::new(SystemClock), own))
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
                    out::line("passes are made with something new; those before the last time open nothing");
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
    out::line(format!("expires   {}", when::iso(made.expires_at)));
    app.remark("this is shown once; keep it where nobody else can read it");
}
