//! `goldseam why`.

use std::collections::HashSet;

use clap::Args;
use goldseam::recovery::Code;
use goldseam::{Millis, RunId, Status};
use goldseam_api::Api;
use goldseam_api::doc::run::{ExplanationDoc, LinkDoc, RunsQuery};
use serde::Serialize;

use super::pages;
use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::{out, suggest, text, time};

/// Explain why runs are in their state and what would move them
///
/// The first line is the verdict: fine, waits, stalled, needs you, failed or ended, and why. Then follow the chain of
/// what the run waits for, down to its children; which node has it and since when; when it moves next; what is wrong
/// with it; and what you can do. With several runs, with - or with --status, --json prints a list, and a run that cannot
/// be explained is reported and skipped.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0 if every run was explained; otherwise that of the first error, as 3 for an unknown run.\n\nExamples:\n  goldseam why ord-7\n  goldseam why ord-7 ord-8\n  goldseam why --status parked\n  goldseam ls -q --status failed | goldseam why -\n  goldseam why ord-7 --json | jq -r '.you_can[]'"
)]
pub(crate) struct WhyArgs {
    /// The runs; - reads ids from stdin
    #[arg(required_unless_present = "status", value_name = "RUN")]
    runs: Vec<String>,
    /// Explain the newest runs with this status; may be given several times
    #[arg(long, value_name = "STATUS", value_delimiter = ',', conflicts_with = "runs")]
    status: Vec<Status>,
    /// Maximum number of runs with --status
    #[arg(long, value_name = "COUNT", default_value_t = 20, requires = "status",
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Maximum number of unknown runs for which similar ids are searched.
const SUGGESTED_MAX: usize = 3;

/// The explanations of several runs.
#[derive(Debug, Serialize)]
struct WhyList {
    items: Vec<ExplanationDoc>,
    /// Runs that cannot be explained.
    errors: Vec<WhyError>,
    /// Whether more runs have the status.
    more: bool,
}

/// A run that cannot be explained.
#[derive(Debug, Serialize)]
struct WhyError {
    run: String,
    #[serde(flatten)]
    error: CliError,
}

pub(crate) async fn run(app: &App, args: WhyArgs) -> Result<Exit, CliError> {
    if let [run] = args.runs.as_slice()
        && run != "-"
    {
        let run = RunId::new(run)?;
        let explained = app.api().await?.why(&run).await?;
        if app.wants_json() {
            out::json(&explained);
        } else {
            print(app, &explained);
        }
        return Ok(Exit::Ok);
    }
    several(app, args).await
}

/// Explains several runs. A run that cannot be explained does not stop the others.
async fn several(app: &App, args: WhyArgs) -> Result<Exit, CliError> {
    let api = app.api().await?;
    let (names, more) = names(&*api, &args).await?;
    let mut list = WhyList { items: Vec::new(), errors: Vec::new(), more };
    for (at, name) in names.iter().enumerate() {
        let explained = match RunId::new(name) {
            Ok(run) => api.why(&run).await.map_err(CliError::from),
            Err(error) => Err(error.into()),
        };
        match explained {
            Ok(explained) if app.json => list.items.push(explained),
            Ok(explained) if app.jsonl => out::jsonl(&explained),
            Ok(explained) => {
                if at > 0 && !app.quiet {
                    out::line("");
                }
                print(app, &explained);
            }
            Err(error) if !is_of_run(&error) => return Err(error),
            Err(error) => {
                let error = match list.errors.len() < SUGGESTED_MAX {
                    true => suggest::improve(app, error).await,
                    false => error,
                };
                if !app.json {
                    app.print_error(&error);
                }
                list.errors.push(WhyError { run: name.clone(), error });
            }
        }
    }
    let exit = list.errors.first().map_or(Exit::Ok, |first| first.error.exit);
    if app.json {
        out::json(&list);
    } else if names.is_empty() {
        app.remark("no such runs");
    } else if more {
        app.warn(&format!("only the newest {} are explained; use --limit COUNT for more", names.len()));
    }
    Ok(exit)
}

/// Whether an error concerns one run only, not the store or the server.
fn is_of_run(error: &CliError) -> bool {
    !matches!(error.exit, Exit::NotAuthorised | Exit::Unreachable)
}

/// The runs to explain, and whether there are more.
async fn names(api: &dyn Api, args: &WhyArgs) -> Result<(Vec<String>, bool), CliError> {
    if !args.status.is_empty() {
        let words: Vec<&str> = args.status.iter().map(|status| status.as_str()).collect();
        let status = Some(words.join(","));
        let query = |after, limit| RunsQuery { status: status.clone(), after, limit, ..RunsQuery::default() };
        let page = |after, limit| api.runs(query(after, Some(limit)));
        let page = pages::gather(args.limit, None, page).await?;
        let more = page.next.is_some();
        return Ok((page.items.into_iter().map(|summary| summary.run.to_string()).collect(), more));
    }
    let mut names: Vec<String> = Vec::new();
    for word in &args.runs {
        match word.as_str() {
            "-" => {
                let text = std::io::read_to_string(std::io::stdin())
                    .map_err(|error| CliError::plain(format!("cannot read stdin: {error}")))?;
                names.extend(text.split_whitespace().map(str::to_owned));
            }
            word => names.push(word.to_owned()),
        }
    }
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok((names, false))
}

fn print(app: &App, explained: &ExplanationDoc) {
    match app.quiet {
        true => out::line(explained.run.as_str()),
        false => lines(app, explained).into_iter().for_each(out::line),
    }
}

/// The verdict, the evidence, and what to do.
fn lines(app: &App, explained: &ExplanationDoc) -> Vec<String> {
    let colors = app.colors;
    let now = app.now();
    let status = if app.terminal { colors.status(explained.status) } else { explained.status.to_string() };
    let verdict = text::one_line(&explained.verdict);
    let mut lines =
        vec![format!("{} ({status}): {verdict}", colors.apply(Hue::Bold, explained.run.as_str()))];
    let is_over = explained.status.is_terminal();
    lines.extend(explained.links.iter().map(|link| chain(link, is_over, now)));
    for wrong in &explained.findings {
        let evidence = text::one_line(&wrong.evidence);
        lines.push(format!("{}: rule {}, {evidence}", colors.apply(Hue::Bad, "wrong"), wrong.code.label()));
        if wrong.automatic {
            lines.push(format!("  remedy: {}", wrong.remedy));
        }
    }
    lines.extend(moves(explained, now));
    if !explained.you_can.is_empty() {
        lines.push("you can:".to_owned());
        lines.extend(explained.you_can.iter().map(|line| format!("  {line}")));
    }
    lines
}

fn chain(link: &LinkDoc, is_over: bool, now: Millis) -> String {
    let indent = "  ".repeat(usize::try_from(link.depth).unwrap_or(0) + 1);
    let since = match link.since.map(|since| time::span(now.since(since.0))) {
        None => String::new(),
        Some(span) if is_over => format!(", {span} ago"),
        Some(span) => format!(", for {span}"),
    };
    let until = match link.until.map(|until| until.0) {
        None => String::new(),
        Some(Millis::NEVER) => ", until something wakes it".to_owned(),
        Some(until) if until <= now => ", due now".to_owned(),
        Some(until) => format!(", until {} ({} left)", time::iso(until), time::span(until.since(now))),
    };
    format!("{indent}{}{since}{until}", text::one_line(&link.what))
}

/// When the run moves without an operator, if it does.
fn moves(explained: &ExplanationDoc, now: Millis) -> Option<String> {
    let run = &explained.run;
    let findings = &explained.findings;
    if explained.status.is_terminal() {
        return None;
    }
    if findings.iter().any(|wrong| wrong.code == Code::K1) {
        let parks = findings.iter().any(|wrong| wrong.automatic);
        let text = format!("no worker executes it; a running engine, or goldseam recover {run}, parks it");
        return parks.then_some(text);
    }
    if findings.iter().any(|wrong| !wrong.automatic) {
        return None;
    }
    if !findings.is_empty() {
        return Some(format!("a running engine heals it automatically; goldseam recover {run} heals it now"));
    }
    let at = explained.moves_at?.0;
    Some(match at > now {
        true => format!("it moves in {}, at {}", time::span(at.since(now)), time::iso(at)),
        false => "it moves as soon as a node has a free slot".to_owned(),
    })
}
