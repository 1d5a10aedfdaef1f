//! `goldseam why`.

use clap::Args;
use goldseam::recovery::Code;
use goldseam::{Millis, RunId};
use goldseam_api::doc::run::{Explanation, Link};

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::{out, when};

/// Say why a run is where it is, and what would move it
///
/// The chain of what it waits for, down to its children; who has it and since when; when it moves by itself; what is
/// wrong with it, if anything is; and what you can do.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  goldseam why ord-7\n  goldseam why ord-7 --json | jq -r '.you_can[]'")]
pub(crate) struct WhyArgs {
    /// The run
    run: String,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: WhyArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let explained = app.api().await?.why(&run).await?;
    match () {
        () if app.wants_json() => out::json(&explained),
        () if app.quiet => out::line(run.as_str()),
        () => lines(app, &explained).into_iter().for_each(out::line),
    }
    Ok(Exit::Ok)
}

fn lines(app: &App, explained: &Explanation) -> Vec<String> {
    let (paint, now) = (app.paint, app.now());
    let status = if app.terminal { paint.status(explained.status) } else { explained.status.to_string() };
    let mut lines = vec![format!("{} is {status}", paint.on(Hue::Bold, explained.run.as_str()))];
    let is_over = explained.status.is_terminal();
    lines.extend(explained.links.iter().map(|link| chain(link, is_over, now)));
    for wrong in &explained.findings {
        lines.push(format!("{}: rule {}, {}", paint.on(Hue::Bad, "wrong"), wrong.code, wrong.evidence));
        if wrong.automatic {
            lines.push(format!("  remedy: {}", wrong.remedy));
        }
    }
    if explained.findings.is_empty() {
        lines.push("nothing is wrong with it".to_owned());
    }
    if !explained.status.is_terminal() {
        lines.push(moves(explained, now));
    }
    if !explained.you_can.is_empty() {
        lines.push("you can:".to_owned());
        lines.extend(explained.you_can.iter().map(|line| format!("  {line}")));
    }
    lines
}

fn chain(link: &Link, is_over: bool, now: Millis) -> String {
    let indent = "  ".repeat(usize::try_from(link.depth).unwrap_or(0) + 1);
    let since = match link.since.map(|since| when::span(now.since(since.0))) {
        None => String::new(),
        Some(span) if is_over => format!(", {span} ago"),
        Some(span) => format!(", for {span}"),
    };
    let until = match link.until.map(|until| until.0) {
        None => String::new(),
        Some(Millis::NEVER) => ", until something wakes it".to_owned(),
        Some(until) if until <= now => ", due now".to_owned(),
        Some(until) => format!(", until {} ({} left)", when::iso(until), when::span(until.since(now))),
    };
    format!("{indent}{}{since}{until}", link.what)
}

/// When it moves without anybody's help.
fn moves(explained: &Explanation, now: Millis) -> String {
    let sick = explained.findings.iter().any(|wrong| wrong.automatic);
    let is_damaged = explained.findings.iter().any(|wrong| wrong.code == Code::K1);
    match explained.moves_at.map(|at| at.0) {
        _ if is_damaged && sick => {
            let run = &explained.run;
            format!(
                "it does not move by itself: its log is damaged; an engine, or goldseam recover {run}, parks it"
            )
        }
        _ if is_damaged => "it does not move by itself: its log is damaged, and it is parked".to_owned(),
        _ if sick => {
            let run = &explained.run;
            format!("a running engine heals it by itself after a while, goldseam recover {run} does so now")
        }
        Some(at) if at > now => {
            format!("it moves by itself in {}, at {}", when::span(at.since(now)), when::iso(at))
        }
        Some(_) => "it moves by itself now, as soon as a node has room".to_owned(),
        None if explained.status.is_active()
            && explained.findings.is_empty()
            && explained.links.is_empty() =>
        {
            "it moves by itself".to_owned()
        }
        None => waits_for_others(explained),
    }
}

fn waits_for_others(explained: &Explanation) -> String {
    use goldseam::Status::{Compensating, Queued, Running};
    match explained.status {
        Queued | Running | Compensating if explained.findings.is_empty() => "it moves by itself".to_owned(),
        _ => "it does not move by itself".to_owned(),
    }
}
