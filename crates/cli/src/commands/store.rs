//! `goldseam store`.

use clap::Subcommand;
use goldseam::{Migrated, Report};
use serde_json::json;

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::out;
use crate::paint::Hue;

/// Check or prepare the store itself
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Read all of the store and say whether it is sound; changes nothing
    #[command(
        after_help = "Exit code 1 if something is wrong.\n\nExample:\n  goldseam store check sqlite:goldseam.db"
    )]
    Check {
        /// The store; the one of --store unless given
        url: Option<String>,
    },
    /// Bring the schema up to date, or make a new store
    #[command(after_help = "Example:\n  goldseam store migrate sqlite:goldseam.db")]
    Migrate {
        /// The store; the one of --store unless given
        url: Option<String>,
    },
}

/// Carries it out.
pub(crate) fn run(app: &App, command: &StoreCommand) -> Result<Exit, Fail> {
    match command {
        StoreCommand::Check { url } => check(app, url.as_deref().unwrap_or(&app.url)),
        StoreCommand::Migrate { url } => migrate(app, url.as_deref().unwrap_or(&app.url)),
    }
}

fn check(app: &App, url: &str) -> Result<Exit, Fail> {
    let report = goldseam::check_store(url)?;
    let Report { schema, schema_latest, journal_mode, durability, bytes, wal_bytes, .. } = &report;
    let Report { runs, events, tasks, locks, nodes, complaints, .. } = &report;
    if app.wants_json() {
        out::json(&json!({ "store": url, "sound": report.is_sound(), "schema": schema,
            "schema_latest": schema_latest, "journal_mode": journal_mode, "durability": durability,
            "bytes": bytes, "wal_bytes": wal_bytes, "runs": runs, "events": events, "tasks": tasks,
            "locks": locks, "nodes": nodes, "complaints": complaints }));
    } else {
        let verdict = match report.is_sound() {
            true => app.paint.on(Hue::Good, "✔ sound"),
            false => app.paint.on(Hue::Bad, "✖ damaged"),
        };
        for (name, value) in [
            ("store", url.to_owned()),
            ("verdict", verdict),
            ("schema", format!("{schema} (newest {schema_latest})")),
            ("journal", format!("{journal_mode}, durability {durability}")),
            ("size", format!("{bytes} bytes, {wal_bytes} in the write-ahead log")),
            ("holds", format!("{runs} runs, {events} events, {tasks} tasks, {locks} locks, {nodes} nodes")),
        ] {
            out::line(if app.terminal { format!("{name:<8} {value}") } else { format!("{name}\t{value}") });
        }
        for complaint in complaints {
            out::line(format!("wrong: {complaint}"));
        }
    }
    Ok(if report.is_sound() { Exit::Ok } else { Exit::Error })
}

fn migrate(app: &App, url: &str) -> Result<Exit, Fail> {
    let Migrated { from, to } = goldseam::migrate_store(url)?;
    match () {
        () if app.wants_json() => out::json(&json!({ "store": url, "from": from, "to": to })),
        () if from == to => out::line(format!("{url} has schema {to} already")),
        () if from == 0 => out::line(format!("{url} is new, with schema {to}")),
        () => out::line(format!("{url}: schema {from} → {to}")),
    }
    Ok(Exit::Ok)
}
