//! `goldseam key`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use goldseam::core::{IdError, QueueName};
use goldseam::engine::OsEntropy;
use goldseam_api::doc::key::{Key, MadeKey, NewKey, Scope};
use goldseam_api::{Caller, Remote};
use goldseam_server::keys::Keys;
use serde_json::json;

use super::who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::table::Table;
use crate::{out, when};

/// Keys of a server: who may do what, in which namespace
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key; what to send is shown once
    ///
    /// From the first key on, a server of this store asks everybody for one. The store keeps a hash.
    #[command(
        after_help = "Examples:\n  goldseam key create ops --scope admin,read,operate\n  goldseam key create ci --scope start,read --expires 90d\n  (umask 077 && goldseam key create gpu-7 --scope worker --queue images -q > key)\n\nScopes: read, start, signal, operate, worker, admin; none includes another"
    )]
    Create {
        /// Who or what will use it
        name: String,
        /// What it may do; several are separated by commas
        #[arg(long, value_delimiter = ',', required = true)]
        scope: Vec<Scope>,
        /// Queues that it may claim from, with the scope worker; all of them unless given
        #[arg(long, value_delimiter = ',', value_parser = queue_name)]
        queue: Vec<QueueName>,
        /// The namespace that it opens
        #[arg(long)]
        namespace: Option<String>,
        /// For how long it is valid, as in 90d; for ever unless given
        #[arg(long, value_name = "SPAN", value_parser = when::parse_span)]
        expires: Option<Duration>,
    },
    /// List keys, those that were revoked too
    List,
    /// Revoke a key, for good
    Revoke {
        /// Its id, as the list has it
        key: String,
    },
}

/// Where the keys are.
enum Ring {
    Store(Keys),
    Server(Arc<Remote>),
}

impl Ring {
    async fn of(app: &App, command: &KeyCommand) -> Result<Self, Fail> {
        if let Some(remote) = app.remote()? {
            return Ok(Self::Server(remote));
        }
        let store = match command {
            KeyCommand::Create { .. } => goldseam::open_store(&app.url).await?,
            _ => goldseam::open_existing_store(&app.url).await?,
        };
        Ok(Self::Store(Keys::new(store, Arc::new(OsEntropy))))
    }

    async fn create(&self, caller: &Caller, new: NewKey) -> Result<MadeKey, Fail> {
        match self {
            Self::Server(remote) => Ok(remote.create_key(caller, &new).await?),
            Self::Store(keys) => {
                let (key, credential) = keys.create(new, caller).await?;
                Ok(MadeKey { key, credential: credential.reveal().to_owned() })
            }
        }
    }

    async fn list(&self) -> Result<Vec<Key>, Fail> {
        match self {
            Self::Server(remote) => Ok(remote.keys().await?.items),
            Self::Store(keys) => Ok(keys.list().await?),
        }
    }

    async fn revoke(&self, caller: &Caller, id: &str) -> Result<Key, Fail> {
        match self {
            Self::Server(remote) => Ok(remote.revoke_key(caller, id).await?),
            Self::Store(keys) => Ok(keys.revoke(id, caller.who.as_deref()).await?),
        }
    }
}

/// Carries it out.
pub(crate) async fn run(app: &App, command: KeyCommand) -> Result<Exit, Fail> {
    let ring = Ring::of(app, &command).await?;
    let caller = who::caller(None);
    match command {
        KeyCommand::List => list(app, &ring.list().await?),
        KeyCommand::Revoke { key } => {
            let key = ring.revoke(&caller, &key).await?;
            match () {
                () if app.wants_json() => out::json(&key),
                () if app.is_quiet() => out::line(&key.id),
                () => out::line(format!("{} ({}) opens nothing any more", key.id, key.name)),
            }
        }
        KeyCommand::Create { name, scope, queue, namespace, expires } => {
            let valid_for_ms = expires.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
            let scopes: BTreeSet<Scope> = scope.into_iter().collect();
            let queues = (!queue.is_empty()).then(|| queue.into_iter().collect());
            let new = NewKey { name, scopes, queues, namespace, valid_for_ms };
            let made = ring.create(&caller, new).await?;
            match () {
                () if app.wants_json() => out::json(&made),
                () if app.is_quiet() => out::line(&made.credential),
                () => {
                    out::line(&made.credential);
                    app.remark("this is shown once; keep it where nobody else can read it");
                }
            }
        }
    }
    Ok(Exit::Ok)
}

fn queue_name(text: &str) -> Result<QueueName, IdError> {
    QueueName::new(text)
}

fn list(app: &App, keys: &[Key]) {
    match () {
        () if app.json => return out::json(&json!({ "items": keys })),
        () if app.jsonl => return keys.iter().for_each(out::jsonl),
        () if app.quiet => return keys.iter().for_each(|key| out::line(&key.id)),
        () => {}
    }
    let mut table = Table::new(&["KEY", "NAME", "NAMESPACE", "SCOPES", "QUEUES", "STATE", "MADE"]);
    let now = app.now();
    for key in keys {
        let queues = key.queues.as_ref().map(|all| all.iter().map(QueueName::as_str).collect::<Vec<_>>());
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        let state = match (key.revoked_at, key.expires_at) {
            (Some(at), _) => format!("revoked {}", when::iso(at)),
            (None, Some(end)) if end <= now => format!("expired {}", when::iso(end)),
            (None, Some(end)) => format!("until {}", when::iso(end)),
            (None, None) => "valid".to_owned(),
        };
        table.row(vec![
            key.id.clone(),
            key.name.clone(),
            key.namespace.clone(),
            scopes.join(","),
            queues.map_or_else(|| "all".to_owned(), |queues| queues.join(",")),
            state,
            when::iso(key.created_at),
        ]);
    }
    app.table(&table);
    if keys.is_empty() {
        app.remark("no keys: a server asks nobody, and listens on this machine only");
    }
}
