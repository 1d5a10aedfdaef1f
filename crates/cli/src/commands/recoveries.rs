//! `goldseam recoveries`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use goldseam::recovery::Code;
use goldseam::{Millis, Seq};
use goldseam_api::Api;
use goldseam_api::doc::heal::{HealingDoc, HealingStatsDoc, HealingStatsQuery, RecoveriesQuery};
use goldseam_api::doc::{ItemsDoc, PageDoc};

use super::pages;
use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, text, time};

/// Default number of recoveries.
const LIMIT: u32 = 20;
/// A recovery may become visible after others that have a later timestamp.
const SLACK: Duration = Duration::from_secs(60);

/// List recoveries, newest first
///
/// The log of a run keeps every recovery: the rule, the evidence, how long the run had been stalled, and the branch
/// that was opened, if any. Heals of tasks, locks and foreign states come from the audit of the store, which is trimmed
/// by age. Runs and tasks that a rule stopped instead, as P1 does, are listed separately. HEAL is the time from the
/// recovery to the run's next progress.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam recoveries\n  goldseam recoveries --since 1h --stats\n  goldseam recoveries --stopped\n  goldseam recoveries -f --jsonl"
)]
pub(crate) struct RecoveriesArgs {
    /// Keep showing new recoveries
    #[arg(short, long, conflicts_with = "stats")]
    follow: bool,
    /// Count by rule, with percentiles of the times
    #[arg(long)]
    stats: bool,
    /// Only runs and tasks that a rule stopped instead of healing them
    #[arg(long, conflicts_with_all = ["healed", "stats"])]
    stopped: bool,
    /// Only healings
    #[arg(long, conflicts_with = "stats")]
    healed: bool,
    /// Only this rule, as in O2; `foreign` for foreign states
    #[arg(long, conflicts_with = "stats")]
    rule: Option<String>,
    /// Maximum number of recoveries; defaults to 20, or to all with --stats
    #[arg(long)]
    limit: Option<u32>,
    /// Only recoveries within this time, as in 90s, 1h, 2d
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    since: Option<Duration>,
}

pub(crate) async fn run(app: &App, args: RecoveriesArgs) -> Result<Exit, CliError> {
    let api = app.api().await?;
    let since_ms = args.since.map(|span| (app.now() - span).0);
    if args.stats {
        let query = HealingStatsQuery { since_ms, latest: args.limit };
        stats(app, &api.recovery_stats(query).await?);
        return Ok(Exit::Ok);
    }
    let ended = args.stopped.then_some(true).or(args.healed.then_some(false));
    let query = RecoveriesQuery { since_ms, ended, rule: args.rule, ..RecoveriesQuery::default() };
    let page = read(&*api, &query, args.limit.unwrap_or(LIMIT)).await?;
    if args.follow {
        let mut healings = page.items;
        healings.reverse();
        return follow(app, &*api, query, healings).await;
    }
    let healings = &page.items;
    match () {
        () if app.json => out::json(&page),
        () if app.jsonl => healings.iter().for_each(out::jsonl),
        () if app.quiet => healings.iter().for_each(|healing| out::line(healing.subject().1)),
        () => {
            let (stopped, healed): (Vec<_>, Vec<_>) = healings.iter().partition(|one| one.ended.is_some());
            if !healed.is_empty() || stopped.is_empty() {
                let mut table = TextTable::wrapping(HEAD).dropping(OPTIONAL);
                healed.iter().for_each(|healing| table.row(cells(app, healing)));
                app.table(&table);
            }
            if !stopped.is_empty() {
                out::line(app.colors.apply(Hue::Bad, STOPPED));
                let mut table = TextTable::wrapping(HEAD_STOPPED).dropping(OPTIONAL);
                stopped.iter().for_each(|healing| table.row(cells_stopped(app, healing)));
                app.table(&table);
            }
            if healings.is_empty() {
                app.remark("no recoveries");
            }
        }
    }
    pages::warn_if_cut(app, &page);
    Ok(Exit::Ok)
}

/// The heading of runs and tasks that were not healed.
const STOPPED: &str = "Stopped, not healed:";

const HEAD_STOPPED: &[&str] = &["WHEN", "SUBJECT", "WORKFLOW", "RULE", "ATTEMPT", "ENDED", "EVIDENCE"];

const HEAD: &[&str] =
    &["WHEN", "SUBJECT", "WORKFLOW", "RULE", "STALLED", "HEAL", "ATTEMPT", "SEAM", "EVIDENCE"];

/// Columns that a narrow terminal does not show, the first to be dropped first.
const OPTIONAL: &[&str] = &["ATTEMPT", "SEAM", "HEAL", "STALLED", "WORKFLOW", "ENDED", "WHEN", "EVIDENCE"];

/// Reads the latest recoveries, newest first.
async fn read(api: &dyn Api, query: &RecoveriesQuery, limit: u32) -> Result<PageDoc<HealingDoc>, CliError> {
    let page = |after, limit| api.recoveries(RecoveriesQuery { after, limit: Some(limit), ..query.clone() });
    pages::gather(limit, None, page).await
}

/// The run by its id; any other subject with its kind.
fn subject(healing: &HealingDoc) -> String {
    match healing.subject() {
        ("run", name) => name.to_owned(),
        (kind, name) => format!("{kind} {name}"),
    }
}

fn workflow(healing: &HealingDoc) -> String {
    healing.workflow.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn cells(app: &App, healing: &HealingDoc) -> Vec<String> {
    let none = || "-".to_owned();
    let time = |ms: u64| match app.terminal {
        true => time::span(Duration::from_millis(ms)),
        false => ms.to_string(),
    };
    let at = match app.terminal {
        true => format!("{} ago", time::age(healing.at_ms, app.now())),
        false => time::iso(healing.at_ms),
    };
    let seam = match (&healing.previous_branch, &healing.new_branch) {
        (Some(old), Some(new)) => format!("{old}→{new}"),
        _ => healing.ended.as_ref().map_or_else(none, |ended| format!("stopped: {ended}")),
    };
    vec![
        at,
        subject(healing),
        workflow(healing),
        text::rule(&healing.rule),
        time(healing.stalled_ms),
        healing.heal_ms.map_or_else(none, |ms| time(u64::try_from(ms).unwrap_or(0))),
        healing.attempt.to_string(),
        seam,
        text::one_line(&healing.evidence),
    ]
}

fn cells_stopped(app: &App, healing: &HealingDoc) -> Vec<String> {
    let at = match app.terminal {
        true => format!("{} ago", time::age(healing.at_ms, app.now())),
        false => time::iso(healing.at_ms),
    };
    vec![
        at,
        subject(healing),
        workflow(healing),
        text::rule(&healing.rule),
        healing.attempt.to_string(),
        healing.ended.clone().unwrap_or_default(),
        text::one_line(&healing.evidence),
    ]
}

/// Shows new recoveries, oldest first, until the command is interrupted.
async fn follow(
    app: &App,
    api: &dyn Api,
    query: RecoveriesQuery,
    mut new: Vec<HealingDoc>,
) -> Result<Exit, CliError> {
    let mut seen: BTreeSet<(Millis, String, Option<Seq>)> = BTreeSet::new();
    let mut mark = 0;
    let mut from = app.now() - SLACK;
    if !app.wants_json() && !app.quiet {
        out::line(HEAD.join(separator(app)));
    }
    loop {
        for healing in &new {
            let known = !seen.insert((healing.at_ms, subject(healing), healing.event));
            match () {
                () if known => {}
                () if app.wants_json() => out::jsonl(healing),
                () if app.quiet => out::line(healing.subject().1),
                () => {
                    let line = cells(app, healing).join(separator(app));
                    let stopped = healing.ended.is_some();
                    out::line(if stopped { app.colors.apply(Hue::Bad, line) } else { line });
                }
            }
            from = from.max(healing.at_ms - SLACK);
        }
        seen.retain(|(at, _, _)| *at >= from);
        mark = api.changed(pages::changes(mark)).await?.mark;
        let recent = RecoveriesQuery { since_ms: Some(from.0), ..query.clone() };
        new = read(api, &recent, u32::MAX).await?.items;
        new.reverse();
    }
}

fn separator(app: &App) -> &'static str {
    if app.terminal { "  " } else { "\t" }
}

/// Prints the statistics by rule.
fn stats(app: &App, stats: &ItemsDoc<HealingStatsDoc>) {
    if app.wants_json() {
        return out::json(stats);
    }
    let mut table =
        TextTable::new(&["RULE", "COUNT", "STALLED P50", "STALLED P99", "HEAL P50", "HEAL P99", "WHAT"])
            .dropping(&["WHAT", "HEAL P50", "STALLED P50", "HEAL P99"]);
    let time = |ms: i64| match app.terminal {
        true => time::span(Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
        false => ms.to_string(),
    };
    let mut stopped = TextTable::new(&["RULE", "COUNT", "WHAT"]);
    for HealingStatsDoc { rule, count, ended, stalled_ms, heal_ms, .. } in &stats.items {
        let title = Code::from_code(rule).map_or("", |code| code.rule().title);
        let rule = text::rule(rule);
        if *ended {
            stopped.row(vec![rule, count.to_string(), title.to_owned()]);
            continue;
        }
        table.row(vec![
            rule,
            count.to_string(),
            time(stalled_ms.p50),
            time(stalled_ms.p99),
            time(heal_ms.p50),
            time(heal_ms.p99),
            title.to_owned(),
        ]);
    }
    app.table(&table);
    if stats.items.iter().any(|item| item.ended) {
        out::line(app.colors.apply(Hue::Bad, STOPPED));
        app.table(&stopped);
    }
}
