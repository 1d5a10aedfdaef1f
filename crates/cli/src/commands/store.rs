//! `goldseam store`.

mod backup;
mod copy;

use clap::Subcommand;
use goldseam::admin::{Compacted, Fact, Migrated, StoreReport};
use serde_json::json;

use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::{out, progress, text};

/// Check, migrate, compact, move, back up or restore a store
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Read the whole store and report damage; changes nothing
    ///
    /// Reads every row, log, task, lock and node, and reports lost, unreadable or wrong rows, missing, changed or
    /// undecodable events, and other unreadable records. On object storage this costs one LIST for 1,000 objects and
    /// two GETs for each object.
    #[command(
        after_help = "Exit code 1 if something is wrong.\n\nExamples:\n  goldseam store check sqlite:goldseam.db\n  goldseam store check 's3://my-bucket/orders?region=eu-west-1'"
    )]
    Check {
        /// The store; defaults to --store
        url: Option<String>,
    },
    /// Update the schema, or create a new store
    #[command(
        after_help = "Examples:\n  goldseam store migrate sqlite:goldseam.db\n  goldseam store migrate 's3://my-bucket/orders?region=eu-west-1'"
    )]
    Migrate {
        /// The store; defaults to --store
        url: Option<String>,
    },
    /// Give the space of removed records back
    ///
    /// Run it after goldseam prune. SQLite: rewrites the file without unused pages, which needs as much free disk space
    /// as the store has data, and refuses while an engine or a server works on the store. Postgres: vacuums the tables
    /// of the store while nodes work; the space is used again by new runs. Object storage has no unused space.
    #[command(
        after_help = "Examples:\n  goldseam store compact sqlite:goldseam.db\n  goldseam store compact postgres://app@db/orders --json"
    )]
    Compact {
        /// The store; defaults to --store
        url: Option<String>,
    },
    #[command(visible_alias = "copy")]
    Move(copy::MoveArgs),
    Reopen(copy::ReopenArgs),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
}

pub(crate) async fn run(app: &App, command: &StoreCommand) -> Result<Exit, CliError> {
    let names_store = match command {
        StoreCommand::Check { url } | StoreCommand::Migrate { url } | StoreCommand::Compact { url } => {
            url.is_some()
        }
        StoreCommand::Move(_) | StoreCommand::Restore(_) => true,
        StoreCommand::Backup(_) => false,
        StoreCommand::Reopen(args) => args.names_store(),
    };
    if !names_store {
        app.needs_store("store")?;
    }
    match command {
        StoreCommand::Check { url } => check(app, url.as_deref().unwrap_or(&app.url)).await,
        StoreCommand::Migrate { url } => migrate(app, url.as_deref().unwrap_or(&app.url)).await,
        StoreCommand::Compact { url } => compact(app, url.as_deref().unwrap_or(&app.url)).await,
        StoreCommand::Move(args) => copy::run(app, args).await,
        StoreCommand::Reopen(args) => copy::reopen(app, args).await,
        StoreCommand::Backup(args) => backup::run(app, args).await,
        StoreCommand::Restore(args) => backup::restore(app, args).await,
    }
}

async fn check(app: &App, url: &str) -> Result<Exit, CliError> {
    let mut report = goldseam::admin::check_store(url).await?;
    if report.schema == report.schema_latest {
        audit(app, url, &mut report).await?;
    }
    let store = goldseam::shown_url(url);
    let mark = match report.schema == report.schema_latest {
        true => goldseam::admin::copy_mark(url).await?,
        false => None,
    };
    let StoreReport { schema, schema_latest, facts, runs, events, tasks, locks, nodes, complaints } = &report;
    if app.wants_json() {
        let mut document = json!({ "store": store, "sound": report.is_sound(), "schema": schema,
            "schema_latest": schema_latest, "runs": runs, "events": events, "tasks": tasks,
            "locks": locks, "nodes": nodes, "complaints": complaints, "copy": mark });
        for (name, fact) in facts {
            document[*name] = match fact {
                Fact::Text(text) => json!(text),
                Fact::Number(number) => json!(number),
            };
        }
        out::json(&document);
    } else {
        let verdict = match report.is_sound() {
            true => app.colors.apply(Hue::Good, "✔ sound"),
            false => app.colors.apply(Hue::Bad, "✖ damaged"),
        };
        let mut lines = vec![
            ("store".to_owned(), store),
            ("verdict".to_owned(), verdict),
            ("schema".to_owned(), format!("{schema} (newest {schema_latest})")),
        ];
        lines.extend(facts.iter().map(|(name, fact)| (name.replace('_', " "), fact.to_string())));
        let holds = format!("{runs} runs, {events} events, {tasks} tasks, {locks} locks, {nodes} nodes");
        lines.push(("holds".to_owned(), holds));
        lines.extend(mark.map(|mark| ("copy".to_owned(), mark.to_string())));
        print_facts(app, &lines);
        for complaint in complaints {
            out::line(format!("wrong: {complaint}"));
        }
    }
    Ok(if report.is_sound() { Exit::Ok } else { Exit::Error })
}

/// Reads every record of the store and adds its complaints to the report.
async fn audit(app: &App, url: &str, report: &mut StoreReport) -> Result<(), CliError> {
    let client = goldseam::connect_existing(url).await?;
    let line = progress::line(app, None, "{spinner} {msg} runs read  {elapsed}");
    let message = line.clone();
    let audit = client.audit(&mut move |runs| message.set_message(text::thousands(runs))).await;
    line.finish_and_clear();
    for complaint in audit?.complaints {
        if !report.complaints.contains(&complaint) {
            report.complaints.push(complaint);
        }
    }
    Ok(())
}

async fn migrate(app: &App, url: &str) -> Result<Exit, CliError> {
    let Migrated { from, to } = goldseam::admin::migrate_store(url).await?;
    let url = goldseam::shown_url(url);
    match () {
        () if app.wants_json() => out::json(&json!({ "store": url, "from": from, "to": to })),
        () if from == to => out::line(format!("{url} already has schema {to}")),
        () if from == 0 => out::line(format!("created {url} with schema {to}")),
        () => out::line(format!("{url}: schema {from} → {to}")),
    }
    Ok(Exit::Ok)
}

async fn compact(app: &App, url: &str) -> Result<Exit, CliError> {
    let line = progress::line(app, None, "{spinner} compacting  {elapsed}");
    let compacted = goldseam::admin::compact_store(url).await;
    line.finish_and_clear();
    let Compacted { before, after, note } = compacted?;
    let freed = before.saturating_sub(after);
    let url = goldseam::shown_url(url);
    if app.wants_json() {
        out::json(&json!({ "store": url, "before": before, "after": after, "freed": freed, "note": note }));
    } else {
        if before > 0 {
            let sizes = [before, after, freed].map(text::thousands);
            out::line(format!("{url}: {} → {} bytes, {} given back", sizes[0], sizes[1], sizes[2]));
        }
        out::line(note);
    }
    Ok(Exit::Ok)
}

/// Prints names and values, one pair per line.
fn print_facts(app: &App, lines: &[(String, String)]) {
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in lines {
        out::line(if app.terminal { format!("{name:<width$} {value}") } else { format!("{name}\t{value}") });
    }
}
