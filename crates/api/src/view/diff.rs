//! Comparison of two branches of a run.

use std::collections::BTreeMap;

use goldseam::unstable::core::branch::Branches;
use goldseam::unstable::core::{Event, Recorded};
use goldseam::{RunId, Seq};

use super::describe::{PayloadLength, describe};
use super::log;
use crate::doc::diff::{DiffDoc, DiffItemDoc, DiffKind};
use crate::problem::Problem;

/// Compares two branches: where they part, and how operations differ after that.
pub fn diff(
    run: &RunId,
    history: &[Recorded],
    left: &str,
    right: &str,
    much: PayloadLength,
) -> Result<DiffDoc, Problem> {
    let branches = Branches::of(history);
    let left = log::branch(&branches, left)?;
    let right = log::branch(&branches, right)?;
    let left_events = log::seen_by(history, &branches, left);
    let right_events = log::seen_by(history, &branches, right);
    let same = left_events.iter().zip(&right_events).take_while(|(a, b)| a.seq == b.seq).count();
    let parted_after = left_events.get(same.saturating_sub(1)).map_or(Seq::ZERO, |recorded| recorded.seq);
    let left_facts = facts(&left_events[same..], much);
    let mut right_facts = facts(&right_events[same..], much);
    let mut items = Vec::new();
    for (path, fact) in left_facts {
        match right_facts.remove(&path) {
            None => items.push(DiffItemDoc { change: DiffKind::Left, left: Some(fact), path, right: None }),
            Some(other) if other != fact => {
                items.push(DiffItemDoc {
                    change: DiffKind::Changed,
                    left: Some(fact),
                    path,
                    right: Some(other),
                });
            }
            Some(_) => {}
        }
    }
    items.extend(right_facts.into_iter().map(|(path, fact)| DiffItemDoc {
        change: DiffKind::Right,
        left: None,
        path,
        right: Some(fact),
    }));
    Ok(DiffDoc {
        items,
        left: left.to_string(),
        parted_after,
        right: right.to_string(),
        run: run.clone(),
        damage: Vec::new(),
    })
}

/// Describes the last event of each operation.
fn facts(events: &[&Recorded], much: PayloadLength) -> BTreeMap<String, String> {
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
