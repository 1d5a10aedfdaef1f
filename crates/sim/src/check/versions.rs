//! The invariant of nodes with different workflow versions.

use goldseam_core::Event;
use goldseam_core::operation::WORKFLOW;
use goldseam_core::version::UNDECIDED;

use super::{SimEvidence, Violation};

/// I22: only nodes with the version of a run execute it, and no run is parked or moved to another version because of
/// its version. Deploys in the simulation are shorter than the grace period of rule E2.
pub fn i22_versions(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let mut version = UNDECIDED;
        for recorded in &log.events {
            let seq = recorded.seq.0;
            let mut say =
                |what: String| found.push(Violation::new("I22", format!("{run}: event {seq} {what}")));
            match &recorded.event {
                // Every node has the built-in workflow in its only version.
                Event::RunQueued(queued) if queued.workflow.as_str() == WORKFLOW => break,
                Event::RunQueued(queued) => version = queued.version,
                Event::RunClaimed(claim) => {
                    version = claim.version.filter(|_| version == UNDECIDED).unwrap_or(version);
                    let node = &claim.node;
                    let has = evidence.facts.versions.get(node);
                    if has.is_some_and(|has| !has.contains(&version)) {
                        say(format!("gives version {version} to {node}, which has {has:?}"));
                    }
                }
                Event::VersionChanged { to, note: Some(_), .. } => version = *to,
                Event::VersionChanged { from, to, reason, note: None } => {
                    version = *to;
                    say(format!("moves it from version {from} to {to}: {reason}"));
                }
                Event::RunParked { code, reason } if code == "E2" => say(format!("parks it: {reason}")),
                _ => {}
            }
        }
    }
    found
}
