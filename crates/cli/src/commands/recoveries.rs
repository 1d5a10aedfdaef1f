//! `goldseam recoveries`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use goldseam::healer::feed::Healing;
use goldseam::{Client, Millis, RunId, Seq};
use serde_json::{Value, json};

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::spread::Spread;
use crate::table::Table;
use crate::{out, text, when};

/// Shown unless told otherwise.
const LIMIT: usize = 20;
/// Most recoveries that statistics are made of.
const STATS_MAX: usize = 1_000_000;
/// A recovery may be read a little later than others that bear a later time.
const SLACK: Duration = Duration::from_secs(60);

/// List what was healed, newest first
///
/// Every recovery stands in its run's log for ever: the rule, what was seen, how long the run had been still, and the
/// branch that was opened, if one was. HEAL is the time from the recovery to the run's next sign of progress.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam recoveries\n  goldseam recoveries --since 1h --stats\n  goldseam recoveries -f --jsonl"
)]
pub(crate) struct RecoveriesArgs {
    /// Stay and show recoveries as they come
    #[arg(short, long, conflicts_with = "stats")]
    follow: bool,
    /// Count by rule, with the spread of times
    #[arg(long)]
    stats: bool,
    /// At most so many; 20 unless given, or all with --stats
    #[arg(long)]
    limit: Option<usize>,
    /// Only within this span, as in 90s, 1h, 2d
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span)]
    since: Option<Duration>,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: RecoveriesArgs) -> Result<Exit, Fail> {
    let client = app.client().await?;
    let since = args.since.map(|span| app.now() - span);
    let limit = args.limit.unwrap_or(if args.stats { STATS_MAX } else { LIMIT });
    let mut healings = client.recoveries(since, limit).await?;
    if args.follow {
        healings.reverse();
        return follow(app, &client, healings).await;
    }
    match () {
        () if args.stats => stats(app, &healings),
        () if app.json => {
            let items: Vec<Value> = healings.iter().map(document).collect();
            out::json(&json!({ "items": items }));
        }
        () if app.jsonl => healings.iter().for_each(|healing| out::jsonl(&document(healing))),
        () if app.quiet => healings.iter().for_each(|healing| out::line(healing.run.as_str())),
        () => {
            let mut table = Table::wrapping(HEAD);
            healings.iter().for_each(|healing| table.row(cells(app, healing)));
            app.table(&table);
            if healings.is_empty() {
                app.remark("nothing had to be healed");
            }
        }
    }
    Ok(Exit::Ok)
}

const HEAD: &[&str] = &["WHEN", "RUN", "WORKFLOW", "RULE", "STALLED", "HEAL", "ATTEMPT", "SEAM", "EVIDENCE"];

/// From the recovery to the next sign of progress.
fn heal(healing: &Healing) -> Option<Duration> {
    healing.moved_at.map(|moved| moved.since(healing.at))
}

fn stalled(healing: &Healing) -> Duration {
    Duration::from_millis(healing.recovered.stale_ms)
}

fn cells(app: &App, healing: &Healing) -> Vec<String> {
    let recovered = &healing.recovered;
    let none = || "-".to_owned();
    let time = |span: Duration| match app.terminal {
        true => when::span(span),
        false => span.as_millis().to_string(),
    };
    let at = match app.terminal {
        true => format!("{} ago", when::age(healing.at, app.now())),
        false => when::iso(healing.at),
    };
    let seam = match (recovered.previous_branch, recovered.new_branch) {
        (Some(old), Some(new)) => format!("{old}→{new}"),
        _ => none(),
    };
    vec![
        at,
        healing.run.to_string(),
        healing.workflow.to_string(),
        recovered.rule.clone(),
        time(stalled(healing)),
        heal(healing).map_or_else(none, time),
        recovered.attempt.to_string(),
        seam,
        text::one_line(&recovered.evidence),
    ]
}

fn document(healing: &Healing) -> Value {
    let recovered = &healing.recovered;
    let branch = |branch: Option<goldseam::core::BranchId>| branch.map(|branch| branch.to_string());
    json!({ "at": when::iso(healing.at), "at_ms": healing.at, "run": healing.run, "workflow": healing.workflow,
        "rule": recovered.rule, "reason": recovered.reason, "evidence": recovered.evidence,
        "stalled_ms": recovered.stale_ms, "heal_ms": heal(healing).map(millis), "attempt": recovered.attempt,
        "event": healing.seq, "node": recovered.node, "cutoff": recovered.cutoff,
        "previous_branch": branch(recovered.previous_branch), "new_branch": branch(recovered.new_branch) })
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// Shows what comes, oldest first, until somebody ends it.
async fn follow(app: &App, client: &Client, mut new: Vec<Healing>) -> Result<Exit, Fail> {
    let mut seen: BTreeSet<(Millis, RunId, Seq)> = BTreeSet::new();
    let (mut mark, mut from) = (0, app.now() - SLACK);
    if !app.wants_json() && !app.quiet {
        out::line(HEAD.join(separator(app)));
    }
    loop {
        for healing in &new {
            let known = !seen.insert((healing.at, healing.run.clone(), healing.seq));
            match () {
                () if known => {}
                () if app.wants_json() => out::jsonl(&document(healing)),
                () if app.quiet => out::line(healing.run.as_str()),
                () => out::line(cells(app, healing).join(separator(app))),
            }
            from = from.max(healing.at - SLACK);
        }
        seen.retain(|(at, _, _)| *at >= from);
        mark = client.wait_for_change(mark).await?;
        new = client.recoveries(Some(from), STATS_MAX).await?;
        new.reverse();
    }
}

fn separator(app: &App) -> &'static str {
    if app.terminal { "  " } else { "\t" }
}

/// By rule: how many, how long they had been still, how long healing took.
fn stats(app: &App, healings: &[Healing]) {
    let mut rules: BTreeMap<&str, Vec<&Healing>> = BTreeMap::new();
    for healing in healings {
        rules.entry(&healing.recovered.rule).or_default().push(healing);
    }
    let spreads = |of: &[&Healing]| {
        let still = of.iter().map(|healing| millis(stalled(healing))).collect();
        let heal = of.iter().filter_map(|healing| heal(healing).map(millis)).collect();
        (Spread::of(still), Spread::of(heal))
    };
    if app.wants_json() {
        let item = |(rule, of): (&&str, &Vec<&Healing>)| {
            let (still, heal) = spreads(of);
            json!({ "rule": rule, "count": of.len(), "stalled_ms": still, "heal_ms": heal })
        };
        return out::json(&json!({ "items": rules.iter().map(item).collect::<Vec<_>>() }));
    }
    let mut table =
        Table::new(&["RULE", "COUNT", "STALLED P50", "STALLED P99", "HEAL P50", "HEAL P99", "WHAT"]);
    let time = |ms: i64| match app.terminal {
        true => when::span(Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
        false => ms.to_string(),
    };
    for (rule, of) in &rules {
        let (still, heal) = spreads(of);
        let title = rule.parse().map_or("", |code: goldseam::recovery::Code| code.rule().title);
        table.row(vec![
            (*rule).to_owned(),
            of.len().to_string(),
            time(still.p50),
            time(still.p99),
            time(heal.p50),
            time(heal.p99),
            title.to_owned(),
        ]);
    }
    app.table(&table);
}
