//! `goldseam diff`.

use std::collections::BTreeMap;

use clap::Args;
use goldseam::core::{Event, Recorded};
use goldseam::{RunId, Seq};
use serde_json::json;

use crate::app::App;
use crate::describe::{Much, describe};
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::{log, out};

/// Compare two timelines of a run
///
/// Shows where they part and what each did after that. Lines with - stand on the first branch
/// only, with + on the second only, with ~ on both with other results.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam diff ord-7 b1 b2")]
pub(crate) struct DiffArgs {
    /// The run
    run: String,
    /// One branch
    left: String,
    /// Another branch
    right: String,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: DiffArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let history = app.client().await?.history(&run).await?;
    let branches = log::branches(&history);
    let (left, right) = (log::branch(&branches, &args.left)?, log::branch(&branches, &args.right)?);
    let (one, two) = (log::seen_by(&history, &branches, left), log::seen_by(&history, &branches, right));
    let same = one.iter().zip(&two).take_while(|(a, b)| a.seq == b.seq).count();
    let parted = one.get(same.saturating_sub(1)).map_or(Seq::ZERO, |recorded| recorded.seq);
    let (before, after) = (facts(&one[same..], app.much()), facts(&two[same..], app.much()));
    let mut lines = Vec::new();
    for (path, fact) in &before {
        match after.get(path) {
            None => lines.push(("-", path, Some(fact), None)),
            Some(other) if other != fact => lines.push(("~", path, Some(fact), Some(other))),
            Some(_) => {}
        }
    }
    let new = after.iter().filter(|(path, _)| !before.contains_key(*path));
    lines.extend(new.map(|(path, fact)| ("+", path, None, Some(fact))));
    if app.wants_json() {
        let item = |(sign, path, left, right): &(&str, &String, Option<&String>, Option<&String>)| {
            let change = match *sign {
                "-" => "left",
                "+" => "right",
                _ => "changed",
            };
            json!({ "path": path, "change": change, "left": left, "right": right })
        };
        let items: Vec<_> = lines.iter().map(item).collect();
        out::json(&json!({ "run": run, "left": left.to_string(), "right": right.to_string(),
            "parted_after": parted, "items": items }));
        return Ok(Exit::Ok);
    }
    app.remark(&format!("{left} and {right} are the same up to event {parted}"));
    for (sign, _, left, right) in lines {
        for (sign, fact) in [(if sign == "~" { "-" } else { sign }, left), ("+", right)] {
            let hue = if sign == "-" { Hue::Bad } else { Hue::Good };
            if let Some(fact) = fact {
                out::line(app.paint.on(hue, format!("{sign} {fact}")));
            }
        }
    }
    Ok(Exit::Ok)
}

/// How each operation ended, in the words of its last event.
fn facts(events: &[&Recorded], much: Much) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for recorded in events {
        let event = &recorded.event;
        let path = match event {
            Event::RunCompleted { .. } | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                "run".to_owned()
            }
            Event::JumpRequested(_) => continue,
            _ if event.is_mail() => continue,
            _ => match event.path() {
                Some(path) => path.to_string(),
                None => continue,
            },
        };
        facts.insert(path, format!("{} {}", event.name(), describe(event, much)));
    }
    facts
}
