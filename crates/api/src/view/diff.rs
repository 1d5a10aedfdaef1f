//! Two timelines of a run, side by side.

use std::collections::BTreeMap;

use goldseam::core::branch::Branches;
use goldseam::core::{Event, Recorded};
use goldseam::{RunId, Seq};

use super::describe::{Much, describe};
use super::log;
use crate::doc::run::{Change, Diff, DiffItem};
use crate::problem::Problem;

/// Where two branches part, and what each did after that.
pub fn diff(
    run: &RunId,
    history: &[Recorded],
    (left, right): (&str, &str),
    much: Much,
) -> Result<Diff, Problem> {
    let branches = Branches::of(history);
    let (left, right) = (log::branch(&branches, left)?, log::branch(&branches, right)?);
    let (one, two) = (log::seen_by(history, &branches, left), log::seen_by(history, &branches, right));
    let same = one.iter().zip(&two).take_while(|(a, b)| a.seq == b.seq).count();
    let parted_after = one.get(same.saturating_sub(1)).map_or(Seq::ZERO, |recorded| recorded.seq);
    let (before, mut after) = (facts(&one[same..], much), facts(&two[same..], much));
    let mut items = Vec::new();
    for (path, fact) in before {
        match after.remove(&path) {
            None => items.push(DiffItem { change: Change::Left, left: Some(fact), path, right: None }),
            Some(other) if other != fact => {
                items.push(DiffItem { change: Change::Changed, left: Some(fact), path, right: Some(other) });
            }
            Some(_) => {}
        }
    }
    let new = after.into_iter();
    items.extend(new.map(|(path, fact)| DiffItem {
        change: Change::Right,
        left: None,
        path,
        right: Some(fact),
    }));
    let (left, right) = (left.to_string(), right.to_string());
    Ok(Diff { items, left, parted_after, right, run: run.clone(), damage: Vec::new() })
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
