//! `goldseam lock`.

use std::time::Duration;

use clap::Subcommand;
use goldseam::Millis;
use goldseam::unstable::core::LockName;
use goldseam::unstable::core::lock::Lock;
use goldseam::unstable::engine::claims::StaleLock;
use goldseam_api::doc::ItemsDoc;
use goldseam_api::doc::lock::{LocksQuery, NewExtension, NewHold, NewRelease};
use serde_json::json;

use super::{actor, pages};
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, time};

/// Manage named locks, held with a fence until they expire
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// List locks
    Ls {
        /// Maximum number of locks
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Acquire a lock that is free or expired; prints the fence
    #[command(
        after_help = "Example:\n  fence=$(goldseam lock acquire nightly --holder $HOSTNAME --ttl 10m -q)"
    )]
    Acquire {
        /// The lock
        name: String,
        /// The new holder
        #[arg(long)]
        holder: String,
        /// How long to hold it
        #[arg(long, value_name = "SPAN", value_parser = time::parse_span, default_value = "300s")]
        ttl: Duration,
    },
    /// Release a lock; a repeat is harmless
    Release {
        /// The lock
        name: String,
        /// The holder
        #[arg(long)]
        holder: String,
        /// The fence that `acquire` printed
        #[arg(long)]
        fence: u64,
    },
    /// Extend a held lock; a lock that was lost cannot be extended
    Extend {
        /// The lock
        name: String,
        /// The holder
        #[arg(long)]
        holder: String,
        /// The fence that `acquire` printed
        #[arg(long)]
        fence: u64,
        /// How long to hold it from now
        #[arg(long, value_name = "SPAN", value_parser = time::parse_span, default_value = "300s")]
        ttl: Duration,
    },
    /// List stale locks: expired, or their node is gone
    ///
    /// The next claim, any engine, or `goldseam queue reclaim` frees them. A node that is only silent keeps its locks
    /// until they expire.
    #[command(after_help = "Exit code 0, even for an empty list.\n\nExample:\n  goldseam lock stale --json")]
    Stale,
    /// Show one lock
    Get {
        /// The lock
        name: String,
    },
}

pub(crate) async fn run(app: &App, command: LockCommand) -> Result<Exit, CliError> {
    let now = app.now();
    let caller = actor::caller(None);
    match command {
        LockCommand::Ls { limit } => {
            let api = app.api().await?;
            let page = |after, limit| api.locks(LocksQuery { after, limit: Some(limit) });
            let page = pages::gather(limit, None, page).await?;
            match app.json {
                true => out::json(&page),
                false => list(app, &page.items, now),
            }
            pages::warn_if_cut(app, &page);
        }
        LockCommand::Acquire { name, holder, ttl } => {
            let name = LockName::new(name)?;
            let new = NewHold { holder, ttl_ms: millis(ttl) };
            one(app, &app.api_or_new().await?.acquire_lock(&caller, &name, new).await?, now);
        }
        LockCommand::Release { name, holder, fence } => {
            let name = LockName::new(name)?;
            let new = NewRelease { holder: holder.clone(), fence };
            let released = app.api().await?.release_lock(&caller, &name, new).await?;
            match () {
                () if app.wants_json() => out::json(&released),
                () if released.released => out::line(format!("released {name}")),
                () => out::line(format!(
                    "lock {name} is not held by {holder} with fence {fence}; nothing was released"
                )),
            }
        }
        LockCommand::Extend { name, holder, fence, ttl } => {
            let name = LockName::new(name)?;
            let new = NewExtension { holder, fence, ttl_ms: millis(ttl) };
            one(app, &app.api().await?.extend_lock(&caller, &name, new).await?, now);
        }
        LockCommand::Stale => stale(app, &app.api().await?.stale_locks().await?, now),
        LockCommand::Get { name } => one(app, &app.api().await?.lock(&LockName::new(name)?).await?, now),
    }
    Ok(Exit::Ok)
}

fn millis(span: Duration) -> Option<u64> {
    u64::try_from(span.as_millis()).ok()
}

fn one(app: &App, lock: &Lock, now: Millis) {
    match () {
        () if app.wants_json() => out::json(lock),
        () if app.quiet => out::line(lock.fence.to_string()),
        () => list(app, std::slice::from_ref(lock), now),
    }
}

fn stale(app: &App, locks: &ItemsDoc<StaleLock>, now: Millis) {
    match () {
        () if app.json => out::json(locks),
        () if app.jsonl => locks.items.iter().for_each(out::jsonl),
        () if app.quiet => locks.items.iter().for_each(|stale| out::line(stale.lock.name.as_str())),
        () => {
            let mut table = TextTable::new(&["LOCK", "HOLDER", "EXPIRED", "WHY"]);
            for StaleLock { lock, why } in &locks.items {
                let expired = match (lock.is_stale(now), app.terminal) {
                    (false, _) => "not yet".to_owned(),
                    (true, false) => time::iso(lock.expires_at),
                    (true, true) => format!("{} ago", time::span(now.since(lock.expires_at))),
                };
                let holder = lock.holder.clone().unwrap_or_else(|| "-".to_owned());
                table.row(vec![lock.name.to_string(), holder, expired, why.clone()]);
            }
            app.table(&table);
        }
    }
}

fn list(app: &App, locks: &[Lock], now: Millis) {
    match () {
        () if app.json => out::json(&json!({ "items": locks })),
        () if app.jsonl => locks.iter().for_each(out::jsonl),
        () if app.quiet => locks.iter().for_each(|lock| out::line(lock.name.as_str())),
        () => {
            let mut table = TextTable::new(&["LOCK", "STATE", "HOLDER", "FENCE", "EXPIRES"]);
            for lock in locks {
                let state = match () {
                    () if lock.is_held(now) => "held",
                    () if lock.is_stale(now) => "expired",
                    () => "free",
                };
                let expires = match (state, app.terminal) {
                    ("free", _) => "-".to_owned(),
                    (_, false) => time::iso(lock.expires_at),
                    ("held", true) => format!("in {}", time::span(lock.expires_at.since(now))),
                    _ => format!("{} ago", time::span(now.since(lock.expires_at))),
                };
                let holder = lock.holder.clone().unwrap_or_else(|| "-".to_owned());
                let fence = lock.fence.to_string();
                table.row(vec![lock.name.to_string(), state.to_owned(), holder, fence, expires]);
            }
            app.table(&table);
        }
    }
}
