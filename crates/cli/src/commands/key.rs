//! `goldseam key`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Subcommand;
use goldseam::unstable::core::{IdError, QueueName};
use goldseam_api::doc::key::{CurrentKeyDoc, KeyDoc, NewKey, Scope};
use serde_json::json;

use super::actor;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, time};

/// Manage the keys of a server
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key; its credential is shown once
    ///
    /// Once a store has a key, its servers require one. The store keeps only a hash of the credential.
    #[command(
        after_help = "Examples:\n  goldseam key create ops --scope admin,read,operate\n  goldseam key create ci --scope start,read --expires 90d\n  (umask 077 && goldseam key create gpu-7 --scope worker --queue images -q > key)\n\nScopes: read, start, signal, operate, worker, admin; none includes another"
    )]
    Create {
        /// Who or what will use the key
        name: String,
        /// What the key may do; separate several scopes with commas
        #[arg(long, value_delimiter = ',', required = true)]
        scope: Vec<Scope>,
        /// Queues that the key may claim from, with the scope worker; defaults to all queues
        #[arg(long, value_delimiter = ',', value_parser = queue_name)]
        queue: Vec<QueueName>,
        /// The namespace that the key gives access to
        #[arg(long)]
        namespace: Option<String>,
        /// How long the key is valid, as in 90d; without a limit by default
        #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
        expires: Option<Duration>,
    },
    /// Show the scopes of the key that this command uses
    Current,
    /// List keys, including revoked ones
    List,
    /// Revoke a key permanently
    Revoke {
        /// The id from `goldseam key list`
        key: String,
    },
}

pub(crate) async fn run(app: &App, command: KeyCommand) -> Result<Exit, CliError> {
    let caller = actor::caller(None);
    match command {
        KeyCommand::Current => current(app, &app.api().await?.current_key().await?),
        KeyCommand::List => list(app, &app.api().await?.keys().await?.items),
        KeyCommand::Revoke { key } => {
            let key = app.api().await?.revoke_key(&caller, &key).await?;
            match () {
                () if app.wants_json() => out::json(&key),
                () if app.is_quiet() => out::line(&key.id),
                () => out::line(format!("revoked key {} ({})", key.id, key.name)),
            }
        }
        KeyCommand::Create { name, scope, queue, namespace, expires } => {
            let valid_for_ms = expires.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
            let scopes: BTreeSet<Scope> = scope.into_iter().collect();
            let queues = (!queue.is_empty()).then(|| queue.into_iter().collect());
            let new = NewKey { name, scopes, queues, namespace, valid_for_ms };
            let created = app.api_or_new().await?.create_key(&caller, new).await?;
            match () {
                () if app.wants_json() => out::json(&created),
                () if app.is_quiet() => out::line(&created.credential),
                () => {
                    out::line(&created.credential);
                    app.remark("the credential is shown only once; keep it secret");
                }
            }
        }
    }
    Ok(Exit::Ok)
}

fn current(app: &App, key: &CurrentKeyDoc) {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    match () {
        () if app.wants_json() => out::json(key),
        () if app.is_quiet() => scopes.iter().for_each(out::line),
        () => out::line(format!("{} in {}: {}", key.name, key.namespace, scopes.join(", "))),
    }
}

fn queue_name(text: &str) -> Result<QueueName, IdError> {
    QueueName::new(text)
}

fn list(app: &App, keys: &[KeyDoc]) {
    match () {
        () if app.json => return out::json(&json!({ "items": keys })),
        () if app.jsonl => return keys.iter().for_each(out::jsonl),
        () if app.quiet => return keys.iter().for_each(|key| out::line(&key.id)),
        () => {}
    }
    let mut table = TextTable::new(&["KEY", "NAME", "NAMESPACE", "SCOPES", "QUEUES", "STATE", "CREATED"]);
    let now = app.now();
    for key in keys {
        let queues = key.queues.as_ref().map(|all| all.iter().map(QueueName::as_str).collect::<Vec<_>>());
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        let state = match (key.revoked_at, key.expires_at) {
            (Some(at), _) => format!("revoked {}", time::iso(at)),
            (None, Some(end)) if end <= now => format!("expired {}", time::iso(end)),
            (None, Some(end)) => format!("until {}", time::iso(end)),
            (None, None) => "valid".to_owned(),
        };
        table.row(vec![
            key.id.clone(),
            key.name.clone(),
            key.namespace.clone(),
            scopes.join(","),
            queues.map_or_else(|| "all".to_owned(), |queues| queues.join(",")),
            state,
            time::iso(key.created_at),
        ]);
    }
    app.table(&table);
    if keys.is_empty() {
        app.remark("no keys: a server requires none, and listens on this machine only");
    }
}
