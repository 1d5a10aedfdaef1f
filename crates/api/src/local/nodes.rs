//! Nodes, their workflows, and changes of the store.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use goldseam::recovery::Owner;
use goldseam::unstable::core::reserved::{Named, prefix};
use goldseam::unstable::core::task::TaskState;
use goldseam::unstable::core::version::UNDECIDED;
use goldseam::unstable::core::{NodeId, WorkflowName};
use goldseam::unstable::store::{NodeSeen, NodeState, Pulse, TaskFilter};

use super::{LocalApi, limit};
use crate::api::{ApiResult, NodesApi};
use crate::doc::ItemsDoc;
use crate::doc::node::{NodeDoc, WorkflowDoc};
use crate::doc::run::{ChangesQuery, MarkDoc};

/// Claimed tasks per read of the store.
const CLAIMS_PAGE: u32 = 1_000;
/// Maximum number of claimed tasks counted.
const CLAIMS_MAX: usize = 100_000;

impl LocalApi {
    /// Counts the runs that each node executes, which are its claimed advance tasks. Skips stores that charge per
    /// request, because they read every task for it.
    async fn running(&self) -> ApiResult<Option<BTreeMap<String, u32>>> {
        if !self.client.store().pace().sweep.is_zero() {
            return Ok(None);
        }
        let mut running: BTreeMap<String, u32> = BTreeMap::new();
        let mut filter = TaskFilter {
            state: Some(TaskState::Claimed),
            advance: Some(true),
            limit: CLAIMS_PAGE,
            ..TaskFilter::default()
        };
        let mut counted = 0;
        loop {
            let page = self.client.store().tasks(filter.clone()).await?;
            counted += page.len();
            filter.after = page.last().map(|last| last.id.clone());
            let is_last = page.len() < CLAIMS_PAGE as usize || counted >= CLAIMS_MAX;
            for owner in page.into_iter().filter_map(|task| task.owner) {
                *running.entry(owner).or_default() += 1;
            }
            if is_last {
                return Ok(Some(running));
            }
        }
    }
}

fn node(seen: NodeSeen, why: Option<String>, running: Option<u32>) -> NodeDoc {
    let state = match seen.record.state {
        NodeState::Up => "up",
        NodeState::Leaving => "leaving",
        NodeState::Left => "left",
        NodeState::Gone => "gone",
    };
    let pulse = match seen.pulse {
        Pulse::Held => "held",
        Pulse::Dropped => "dropped",
        Pulse::Suspect => "suspect",
        Pulse::Unknown => "unknown",
    };
    let release = seen.record.release().map(str::to_owned);
    let queues = seen.record.queues().map(|queues| queues.into_iter().map(str::to_owned).collect());
    NodeDoc {
        alive: why.is_none(),
        beat_at: seen.beat_at,
        beats: seen.beats,
        id: seen.record.id,
        name: seen.record.name,
        pulse: pulse.to_owned(),
        queues,
        release,
        running,
        slots: seen.record.slots,
        started_at: seen.record.started_at,
        state: state.to_owned(),
        why,
        workflows: seen.record.workflows.into_iter().filter(|label| is_open(label)).collect(),
    }
}

/// Whether a label names a workflow of users. The built-in ones are part of every engine.
fn is_open(label: &str) -> bool {
    prefix(Named::Workflow, label).is_none()
}

#[async_trait]
impl NodesApi for LocalApi {
    async fn nodes(&self) -> ApiResult<ItemsDoc<NodeDoc>> {
        let liveness = self.client.healer().liveness().await?;
        let alive: BTreeSet<NodeId> = liveness.working().map(|seen| seen.record.id.clone()).collect();
        let running = self.running().await?;
        let why = |seen: &NodeSeen| match liveness.holder(seen.record.id.as_str(), None) {
            _ if alive.contains(&seen.record.id) => None,
            Owner::Lost { evidence, .. } => Some(evidence),
            Owner::Alive | Owner::None => Some("it is leaving and takes no new runs".to_owned()),
        };
        let node = |seen: &NodeSeen| {
            let id = seen.record.id.as_str();
            let running = running.as_ref().map(|running| running.get(id).copied().unwrap_or_default());
            node(seen.clone(), why(seen), running)
        };
        Ok(liveness.nodes.iter().map(node).collect::<Vec<_>>().into())
    }

    async fn workflows(&self) -> ApiResult<ItemsDoc<WorkflowDoc>> {
        let mut found: BTreeMap<WorkflowName, (u32, BTreeSet<u32>)> = BTreeMap::new();
        let liveness = self.client.healer().liveness().await?;
        for seen in liveness.working() {
            let mut names = BTreeSet::new();
            for label in seen.record.workflows.iter().filter(|label| is_open(label)) {
                let Some((name, version)) = label.rsplit_once('@') else { continue };
                let Ok(name) = WorkflowName::new(name) else { continue };
                let (nodes, versions) = found.entry(name.clone()).or_default();
                versions.extend(version.parse::<u32>());
                *nodes += u32::from(names.insert(name));
            }
        }
        let item = |(name, (nodes, versions)): (_, (u32, BTreeSet<u32>))| WorkflowDoc {
            queues: liveness.coverage(&name, UNDECIDED).queues,
            name,
            nodes,
            versions: versions.into_iter().collect(),
        };
        Ok(found.into_iter().map(item).collect::<Vec<_>>().into())
    }

    async fn changed(&self, query: ChangesQuery) -> ApiResult<MarkDoc> {
        let after = query.after.unwrap_or(0);
        let wait = limit::wait(query.wait_ms)?;
        let clock = &self.client.ledger().clock;
        let until = clock.elapsed() + wait;
        loop {
            let mark = self.client.wait_for_change(after).await?;
            if mark != after || clock.elapsed() >= until {
                return Ok(MarkDoc { mark });
            }
        }
    }
}
