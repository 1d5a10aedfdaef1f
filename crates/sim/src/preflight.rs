//! Replays every prefix of every log with unchanged code: none may park, and no effect may begin.
//!
//! A log grows by whole appends, so each prefix that ends with an append is a history that a deploy could meet.

use std::collections::BTreeMap;
use std::sync::Arc;

use goldseam_core::{RunId, Seq};
use goldseam_engine::Engine;
use goldseam_engine::preflight::{Preflight, Verdict};
use goldseam_engine::testing::Log;
use goldseam_store::{Append, MemoryStore, Store};

use crate::check::Violation;
use crate::clock::TrueTime;
use crate::cluster::config;
use crate::journal::{Journal, Trace};
use crate::workflows::{Effects, register};

/// Returns the violations.
pub async fn check(logs: &BTreeMap<RunId, Log>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in logs {
        // Other checks report damaged logs.
        if log.flaw.is_none() {
            found.extend(check_one(run, log).await);
        }
    }
    found
}

async fn check_one(run: &RunId, log: &Log) -> Vec<Violation> {
    let time = TrueTime::begin();
    let journal = Arc::new(Journal::new(time, Trace::Hash));
    let memory = Arc::new(MemoryStore::new(time.store_clock()));
    let effects = Effects::new(Arc::clone(&journal), 0);
    let build = register(Engine::builder(memory.clone()).config(config()), &effects, &[1, 2, 3]);
    let mut found = Vec::new();
    let mut begun = 0;
    while begun < log.events.len() {
        let write = log.events[begun].write;
        let end = log.events[begun..].iter().position(|event| event.write != write);
        let end = end.map_or(log.events.len(), |more| begun + more);
        let bodies = log.records[begun..end].iter().map(|record| record.body.clone()).collect();
        let after = Seq(begun as u64);
        let append = Append { run: run.clone(), after, bodies, row: None, tasks: Vec::new() };
        if let Err(error) = memory.append(append).await {
            found.push(Violation::new("V3", format!("{run}: cannot copy its log: {error}")));
            return found;
        }
        begun = end;
        let tried = build.preflight(Preflight::runs([run.clone()]).in_task()).await;
        let bad = match &tried {
            Ok(report) => report.findings.first().map(|finding| finding.verdict.clone()),
            Err(error) => Some(Verdict::Unknown { reason: error.to_string() }),
        };
        // A workflow that fails by itself also fails in a preflight.
        if let Some(verdict) = bad.filter(|verdict| !matches!(verdict, Verdict::Fails { .. })) {
            let word = verdict.word();
            let reason = verdict.reason();
            found.push(Violation::new("V3", format!("{run} {word} after event {begun}: {reason}")));
        }
    }
    if memory.head(run).await.ok().flatten().is_none_or(|head| head.end != Seq(begun as u64)) {
        found.push(Violation::new("V3", format!("{run}: a preflight wrote to its log")));
    }
    if !journal.read().effects.is_empty() {
        found.push(Violation::new("V3", format!("{run}: a preflight began an effect")));
    }
    found
}
