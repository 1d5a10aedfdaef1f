//! `goldseam why`.

use clap::Args;
use goldseam::recovery::Code;
use goldseam::{Millis, RunId};
use goldseam_api::doc::run::{Explanation, Link};

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::{out, text, when};

/// Say why a run is where it is, and what would move it
///
/// First the verdict, in one line: fine, waits, stalled, needs you, failed or ended, and why. Then the chain of what the
/// run waits for, down to its children; which node has it and since when; when it moves by itself; what is wrong with it;
/// and what you can do.
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

/// The verdict, what it rests on, and what to do.
fn lines(app: &App, explained: &Explanation) -> Vec<String> {
    let (paint, now) = (app.paint, app.now());
    let status = if app.terminal { paint.status(explained.status) } else { explained.status.to_string() };
    let verdict = text::one_line(&explained.verdict);
    let mut lines = vec![format!("{} ({status}): {verdict}", paint.on(Hue::Bold, explained.run.as_str()))];
    let is_over = explained.status.is_terminal();
    lines.extend(explained.links.iter().map(|link| chain(link, is_over, now)));
    for wrong in &explained.findings {
        let evidence = text::one_line(&wrong.evidence);
        lines.push(format!("{}: rule {}, {evidence}", paint.on(Hue::Bad, "wrong"), wrong.code));
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
    format!("{indent}{}{since}{until}", text::one_line(&link.what))
}

/// When it moves without a person, if it does. The verdict says so where it does not.
fn moves(explained: &Explanation, now: Millis) -> Option<String> {
    let run = &explained.run;
    let findings = &explained.findings;
    if explained.status.is_terminal() {
        return None;
    }
    if findings.iter().any(|wrong| wrong.code == Code::K1) {
        let parks = findings.iter().any(|wrong| wrong.automatic);
        let words = format!("no worker touches it: a running engine, or goldseam recover {run}, parks it");
        return parks.then_some(words);
    }
    if findings.iter().any(|wrong| !wrong.automatic) {
        return None;
    }
    if !findings.is_empty() {
        return Some(format!(
            "a running engine heals it by itself after a while; goldseam recover {run} does so now"
        ));
    }
    let at = explained.moves_at?.0;
    Some(match at > now {
        true => format!("it moves by itself in {}, at {}", when::span(at.since(now)), when::iso(at)),
        false => "it moves by itself now, as soon as a node has room".to_owned(),
    })
}
