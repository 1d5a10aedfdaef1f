//! `goldseam lock`.

use std::time::Duration;

use clap::Subcommand;
use goldseam::Millis;
use goldseam::core::LockName;
use goldseam::core::lock::Lock;
use goldseam::engine::claims::StaleLock;
use goldseam_api::doc::Items;
use goldseam_api::doc::lock::{Extension, LocksQuery, NewHold, NewRelease};
use serde_json::json;

use super::{pages, who};
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::table::Table;
use crate::{out, when};

/// Named locks, held with a fence until they expire
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// List locks
    Ls {
        /// Maximum number of locks
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Take a lock that is free or expired; prints the fence
    #[command(
        after_help = "Example:\n  fence=$(goldseam lock acquire nightly --holder $HOSTNAME --ttl 10m -q)"
    )]
    Acquire {
        /// The lock
        name: String,
        /// Who takes it
        #[arg(long)]
        holder: String,
        /// For how long
        #[arg(long, value_name = "SPAN", value_parser = when::parse_span, default_value = "300s")]
        ttl: Duration,
    },
    /// Let go; letting go twice is harmless
    Release {
        /// The lock
        name: String,
        /// Who has it
        #[arg(long)]
        holder: String,
        /// The fence that acquire printed
        #[arg(long)]
        fence: u64,
    },
    /// Hold on for a span from now; a lost lock is never revived
    Extend {
        /// The lock
        name: String,
        /// Who has it
        #[arg(long)]
        holder: String,
        /// The fence that acquire printed
        #[arg(long)]
        fence: u64,
        /// For how long from now
        #[arg(long, value_name = "SPAN", value_parser = when::parse_span, default_value = "300s")]
        ttl: Duration,
    },
    /// List locks that nobody alive holds: expired, or their node is gone
    ///
    /// The next claim frees them, or any engine, or `goldseam queue reclaim`. A node that is only silent keeps its locks
    /// until they expire.
    #[command(after_help = "Exit code 0, also if there is none.\n\nExample:\n  goldseam lock stale --json")]
    Stale,
    /// Show one lock
    Get {
        /// The lock
        name: String,
    },
}

/// Carries it out.
pub(crate) async fn run(app: &App, command: LockCommand) -> Result<Exit, Fail> {
    let (now, caller) = (app.now(), who::caller(None));
    match command {
        LockCommand::Ls { limit } => {
            let api = app.api().await?;
            let page = |after, limit| api.locks(LocksQuery { after, limit: Some(limit) });
            let page = pages::gather(limit, None, page).await?;
            match app.json {
                true => out::json(&page),
                false => list(app, &page.items, now),
            }
            pages::tell_cut(app, &page);
        }
        LockCommand::Acquire { name, holder, ttl } => {
            let name = LockName::new(name)?;
            let new = NewHold { holder, ttl_ms: millis(ttl) };
            one(app, &app.api_or_new().await?.acquire_lock(&caller, &name, new).await?, now);
        }
        LockCommand::Release { name, holder, fence } => {
            let (name, new) = (LockName::new(name)?, NewRelease { holder: holder.clone(), fence });
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
            let (name, new) = (LockName::new(name)?, Extension { holder, fence, ttl_ms: millis(ttl) });
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

fn stale(app: &App, locks: &Items<StaleLock>, now: Millis) {
    match () {
        () if app.json => out::json(locks),
        () if app.jsonl => locks.items.iter().for_each(out::jsonl),
        () if app.quiet => locks.items.iter().for_each(|stale| out::line(stale.lock.name.as_str())),
        () => {
            let mut table = Table::new(&["LOCK", "HOLDER", "EXPIRED", "WHY"]);
            for StaleLock { lock, why } in &locks.items {
                let expired = match (lock.is_stale(now), app.terminal) {
                    (false, _) => "not yet".to_owned(),
                    (true, false) => when::iso(lock.expires_at),
                    (true, true) => format!("{} ago", when::span(now.since(lock.expires_at))),
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
            let mut table = Table::new(&["LOCK", "STATE", "HOLDER", "FENCE", "EXPIRES"]);
            for lock in locks {
                let state = match () {
                    () if lock.is_held(now) => "held",
                    () if lock.is_stale(now) => "expired",
                    () => "free",
                };
                let expires = match (state, app.terminal) {
                    ("free", _) => "-".to_owned(),
                    (_, false) => when::iso(lock.expires_at),
                    ("held", true) => format!("in {}", when::span(lock.expires_at.since(now))),
                    _ => format!("{} ago", when::span(now.since(lock.expires_at))),
                };
                let holder = lock.holder.clone().unwrap_or_else(|| "-".to_owned());
                let fence = lock.fence.to_string();
                table.row(vec![lock.name.to_string(), state.to_owned(), holder, fence, expires]);
            }
            app.table(&table);
        }
    }
}
