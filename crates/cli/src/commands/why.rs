//! `goldseam why`.

use clap::Args;
use goldseam::recovery::Code;
use goldseam::{Millis, RunId};
use goldseam_api::doc::run::{ExplanationDoc, LinkDoc};

use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::{out, text, time};

/// Explain why a run is in its state and what would move it
///
/// The first line is the verdict: fine, waits, stalled, needs you, failed or ended, and why. Then follow the chain of
/// what the run waits for, down to its children; which node has it and since when; when it moves next; what is wrong
/// with it; and what you can do.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  goldseam why ord-7\n  goldseam why ord-7 --json | jq -r '.you_can[]'")]
pub(crate) struct WhyArgs {
    /// The run
    run: String,
}

pub(crate) async fn run(app: &App, args: WhyArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let explained = app.api().await?.why(&run).await?;
    match () {
        () if app.wants_json() => out::json(&explained),
        () if app.quiet => out::line(run.as_str()),
        () => lines(app, &explained).into_iter().for_each(out::line),
    }
    Ok(Exit::Ok)
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
        lines.push(format!("{}: rule {}, {evidence}", colors.apply(Hue::Bad, "wrong"), wrong.code));
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
