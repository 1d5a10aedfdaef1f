//! `goldseam store`.

mod copy;

use clap::Subcommand;
use goldseam::{Fact, Migrated, Report};
use serde_json::json;

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::{out, progress, text};

/// Check, prepare or move the store itself
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Read all of the store and say whether it is sound; changes nothing
    ///
    /// Every row, log, task, lock and node is read: rows that are lost, unreadable or false, events that are missing,
    /// changed or undecodable, and every other record that cannot be read are named. On object storage that is one LIST
    /// for 1,000 objects and two GETs for each object.
    #[command(
        after_help = "Exit code 1 if something is wrong.\n\nExamples:\n  goldseam store check sqlite:goldseam.db\n  goldseam store check 's3://my-bucket/orders?region=eu-west-1'"
    )]
    Check {
        /// The store; the one of --store unless given
        url: Option<String>,
    },
    /// Bring the schema up to date, or make a new store
    #[command(
        after_help = "Examples:\n  goldseam store migrate sqlite:goldseam.db\n  goldseam store migrate 's3://my-bucket/orders?region=eu-west-1'"
    )]
    Migrate {
        /// The store; the one of --store unless given
        url: Option<String>,
    },
    Copy(copy::CopyArgs),
    Reopen(copy::ReopenArgs),
}

/// Carries it out.
pub(crate) async fn run(app: &App, command: &StoreCommand) -> Result<Exit, Fail> {
    let names_one = match command {
        StoreCommand::Check { url } | StoreCommand::Migrate { url } => url.is_some(),
        StoreCommand::Copy(_) => true,
        StoreCommand::Reopen(args) => args.names_one(),
    };
    if !names_one {
        app.needs_store("store")?;
    }
    match command {
        StoreCommand::Check { url } => check(app, url.as_deref().unwrap_or(&app.url)).await,
        StoreCommand::Migrate { url } => migrate(app, url.as_deref().unwrap_or(&app.url)).await,
        StoreCommand::Copy(args) => copy::run(app, args).await,
        StoreCommand::Reopen(args) => copy::reopen(app, args).await,
    }
}

async fn check(app: &App, url: &str) -> Result<Exit, Fail> {
    let mut report = goldseam::check_store(url).await?;
    if report.schema == report.schema_latest {
        audit(app, url, &mut report).await?;
    }
    let store = goldseam::shown_url(url);
    let mark = match report.schema == report.schema_latest {
        true => goldseam::copy_mark(url).await?,
        false => None,
    };
    let Report { schema, schema_latest, facts, runs, events, tasks, locks, nodes, complaints } = &report;
    if app.wants_json() {
        let mut told = json!({ "store": store, "sound": report.is_sound(), "schema": schema,
            "schema_latest": schema_latest, "runs": runs, "events": events, "tasks": tasks,
            "locks": locks, "nodes": nodes, "complaints": complaints, "copy": mark });
        for (name, fact) in facts {
            told[*name] = match fact {
                Fact::Text(text) => json!(text),
                Fact::Number(number) => json!(number),
            };
        }
        out::json(&told);
    } else {
        let verdict = match report.is_sound() {
            true => app.paint.on(Hue::Good, "✔ sound"),
            false => app.paint.on(Hue::Bad, "✖ damaged"),
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
        facts_of(app, &lines);
        for complaint in complaints {
            out::line(format!("wrong: {complaint}"));
        }
    }
    Ok(if report.is_sound() { Exit::Ok } else { Exit::Error })
}

/// Reads every record of the store, and adds what is wrong with them.
async fn audit(app: &App, url: &str, report: &mut Report) -> Result<(), Fail> {
    let client = goldseam::connect_existing(url).await?;
    let line = progress::line(app, None, "{spinner} {msg} runs read  {elapsed}");
    let tell = line.clone();
    let audit = client.audit(&mut move |runs| tell.set_message(text::thousands(runs))).await;
    line.finish_and_clear();
    for complaint in audit?.complaints {
        if !report.complaints.contains(&complaint) {
            report.complaints.push(complaint);
        }
    }
    Ok(())
}

async fn migrate(app: &App, url: &str) -> Result<Exit, Fail> {
    let Migrated { from, to } = goldseam::migrate_store(url).await?;
    let url = goldseam::shown_url(url);
    match () {
        () if app.wants_json() => out::json(&json!({ "store": url, "from": from, "to": to })),
        () if from == to => out::line(format!("{url} has schema {to} already")),
        () if from == 0 => out::line(format!("{url} is new, with schema {to}")),
        () => out::line(format!("{url}: schema {from} → {to}")),
    }
    Ok(Exit::Ok)
}

/// Names and values, below each other.
fn facts_of(app: &App, lines: &[(String, String)]) {
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in lines {
        out::line(if app.terminal { format!("{name:<width$} {value}") } else { format!("{name}\t{value}") });
    }
}
