//! `goldseam why`.

use clap::Args;
use goldseam::healer::Found;
use goldseam::healer::why::{Explanation, Link};
use goldseam::{Millis, RunId, Summary};
use serde_json::{Value, json};

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::{out, text, when};

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
    let client = app.client().await?;
    let mut explained = client.why(&run).await?;
    if let Ok(summary) = client.get(&run).await {
        fill_in(&mut explained, &summary);
    }
    match () {
        () if app.wants_json() => out::json(&document(&explained)),
        () if app.quiet => out::line(run.as_str()),
        () => lines(app, &explained).into_iter().for_each(out::line),
    }
    Ok(Exit::Ok)
}

/// Answers that would fit instead of the word ANSWER.
fn fill_in(explained: &mut Explanation, summary: &Summary) {
    for input in &summary.inputs {
        let start = format!("goldseam answer {} {} ", explained.run, input.path);
        for line in explained.you_can.iter_mut().filter(|line| **line == format!("{start}ANSWER")) {
            *line = format!("{start}{}", text::sample_answer(input));
        }
    }
}

fn lines(app: &App, explained: &Explanation) -> Vec<String> {
    let (paint, now) = (app.paint, app.now());
    let status = if app.terminal { paint.status(explained.status) } else { explained.status.to_string() };
    let mut lines = vec![format!("{} is {status}", paint.on(Hue::Bold, explained.run.as_str()))];
    let is_over = explained.status.is_terminal();
    lines.extend(explained.links.iter().map(|link| chain(link, is_over, now)));
    for Found { diagnosis, .. } in &explained.found {
        lines.push(format!(
            "{}: rule {}, {}",
            paint.on(Hue::Bad, "wrong"),
            diagnosis.rule,
            diagnosis.evidence
        ));
        if diagnosis.remedy.is_automatic() {
            lines.push(format!("  remedy: {}", diagnosis.remedy.describe()));
        }
    }
    if explained.found.is_empty() {
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
    let since = match link.since.map(|since| when::span(now.since(since))) {
        None => String::new(),
        Some(span) if is_over => format!(", {span} ago"),
        Some(span) => format!(", for {span}"),
    };
    let until = match link.until {
        None => String::new(),
        Some(Millis::NEVER) => ", until something wakes it".to_owned(),
        Some(until) if until <= now => ", due now".to_owned(),
        Some(until) => format!(", until {} ({} left)", when::iso(until), when::span(until.since(now))),
    };
    format!("{indent}{}{since}{until}", link.what)
}

/// When it moves without anybody's help.
fn moves(explained: &Explanation, now: Millis) -> String {
    let sick = explained.found.iter().any(|found| found.diagnosis.remedy.is_automatic());
    match explained.moves_at {
        _ if sick => {
            let run = &explained.run;
            format!("a running engine heals it by itself after a while, goldseam recover {run} does so now")
        }
        Some(at) if at > now => {
            format!("it moves by itself in {}, at {}", when::span(at.since(now)), when::iso(at))
        }
        Some(_) => "it moves by itself now, as soon as a node has room".to_owned(),
        None if explained.status.is_active() && explained.found.is_empty() && explained.links.is_empty() => {
            "it moves by itself".to_owned()
        }
        None => waits_for_others(explained),
    }
}

fn waits_for_others(explained: &Explanation) -> String {
    use goldseam::Status::{Compensating, Queued, Running};
    match explained.status {
        Queued | Running | Compensating if explained.found.is_empty() => "it moves by itself".to_owned(),
        _ => "it does not move by itself".to_owned(),
    }
}

fn document(explained: &Explanation) -> Value {
    let moment = |at: Option<Millis>| at.map(when::iso);
    let link = |link: &Link| {
        json!({ "depth": link.depth, "what": link.what, "since": moment(link.since),
        "until": moment(link.until) })
    };
    let found = |Found { at, diagnosis, .. }: &Found| {
        json!({ "code": diagnosis.rule, "evidence": diagnosis.evidence,
        "remedy": diagnosis.remedy.describe(), "automatic": diagnosis.remedy.is_automatic(), "event": at })
    };
    json!({ "run": explained.run, "status": explained.status,
        "links": explained.links.iter().map(link).collect::<Vec<_>>(),
        "findings": explained.found.iter().map(found).collect::<Vec<_>>(),
        "moves_at": moment(explained.moves_at), "you_can": explained.you_can })
}
