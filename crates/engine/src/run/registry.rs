//! The registered workflows of this process.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use goldseam_core::reserved::{Named, prefix};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Payload, StepName, WorkflowName};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ledger::error::EngineError;
use crate::ledger::open_name::open_name;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::context::Context;
use crate::run::workflow_ref::WorkflowTarget;

/// A workflow function with its types erased.
pub(crate) type WorkflowFn =
    Arc<dyn Fn(Context, Payload) -> BoxFuture<'static, Result<Payload>> + Send + Sync>;

/// Every registered workflow with its versions.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    functions: BTreeMap<WorkflowName, BTreeMap<u32, WorkflowFn>>,
    remote: BTreeSet<(WorkflowName, u32)>,
    plans: BTreeMap<WorkflowName, Vec<StepName>>,
    /// Under which names and versions each function is registered.
    names: BTreeMap<TypeId, BTreeSet<(WorkflowName, u32)>>,
}

impl Registry {
    pub(crate) fn add<F, Fut, I, O, E>(&mut self, name: WorkflowName, version: u32, function: F)
    where
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = std::result::Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Into<Error>,
    {
        self.names.entry(TypeId::of::<F>()).or_default().insert((name.clone(), version));
        let function = Arc::new(function);
        let erased: WorkflowFn = Arc::new(move |context, input: Payload| {
            let function = Arc::clone(&function);
            Box::pin(async move {
                let limits = Arc::clone(&context.live.ledger.limits);
                let input = context.read_logged::<I>("the input", &input).await;
                let output = function(context, input).await.map_err(Into::into)?;
                Ok(Payload::of(&output, &limits)?)
            })
        });
        self.functions.entry(name).or_default().insert(version, erased);
    }

    /// Removes all versions of a workflow.
    #[cfg(feature = "testing")]
    pub(crate) fn remove(&mut self, name: &WorkflowName) {
        self.functions.remove(name);
        self.names.values_mut().for_each(|known| known.retain(|(known, _)| known != name));
    }

    /// Registers a workflow of a remote worker: its name and version are known, its function is never called.
    pub(crate) fn add_remote(&mut self, name: WorkflowName, version: u32) {
        let never_called: WorkflowFn = Arc::new(|_, _| Box::pin(std::future::pending()));
        self.remote.insert((name.clone(), version));
        self.functions.entry(name).or_default().insert(version, never_called);
    }

    /// Whether the code of this version is in another process.
    pub(crate) fn is_remote(&self, name: &WorkflowName, version: u32) -> bool {
        self.remote.contains(&(name.clone(), version))
    }

    pub(crate) fn declare(&mut self, name: WorkflowName, steps: Vec<StepName>) {
        self.plans.insert(name, steps);
    }

    /// The steps that a workflow declared; empty if it declared none.
    pub(crate) fn plan(&self, name: &WorkflowName) -> Vec<StepName> {
        self.plans.get(name).cloned().unwrap_or_default()
    }

    /// The function for this version of a workflow.
    pub(crate) fn get(&self, name: &WorkflowName, version: u32) -> Option<WorkflowFn> {
        self.functions.get(name)?.get(&version).cloned()
    }

    /// Whether this version of a workflow is registered; for an undecided version, whether any is.
    pub(crate) fn has(&self, name: &WorkflowName, version: u32) -> bool {
        let versions = self.functions.get(name);
        versions.is_some_and(|versions| version == UNDECIDED || versions.contains_key(&version))
    }

    /// Every workflow with its versions.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&WorkflowName, impl Iterator<Item = u32>)> {
        self.functions.iter().map(|(name, versions)| (name, versions.keys().copied()))
    }

    /// The newest version of a workflow.
    pub(crate) fn newest(&self, name: &WorkflowName) -> Option<u32> {
        self.functions.get(name)?.keys().next_back().copied()
    }

    /// Resolves a reference to a workflow: its name, and the version if the reference is a function.
    pub(crate) fn resolve(
        &self,
        target: WorkflowTarget<'_>,
    ) -> Result<(WorkflowName, Option<u32>), EngineError> {
        let (function, label) = match target {
            WorkflowTarget::Name(name) => return Ok((WorkflowName::new(name).and_then(open_name)?, None)),
            WorkflowTarget::Function { id, label } => (id, label),
        };
        let known = self.names.get(&function).into_iter().flatten();
        let mut newest: BTreeMap<&WorkflowName, u32> = BTreeMap::new();
        for (name, version) in known {
            newest.insert(name, *version);
        }
        match (newest.pop_first(), newest.is_empty()) {
            (Some((name, version)), true) => Ok((name.clone(), Some(version))),
            (Some(_), false) => Err(EngineError::AmbiguousWorkflow { function: label }),
            (None, _) => Err(self.unknown(label)),
        }
    }

    /// The refusal of a workflow that is not registered.
    pub(crate) fn unknown(&self, name: &str) -> EngineError {
        let is_open = |name: &&WorkflowName| prefix(Named::Workflow, name.as_str()).is_none();
        let known = self.names().filter(is_open).map(|name| name.as_str().to_owned()).collect();
        EngineError::UnknownWorkflow { name: name.to_owned(), known }
    }

    /// The registered names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &WorkflowName> {
        self.functions.keys()
    }

    /// The label `name@version` of each version.
    pub(crate) fn labels(&self) -> Vec<String> {
        let versions = |(name, versions): (&WorkflowName, &BTreeMap<u32, WorkflowFn>)| {
            versions.keys().map(|version| format!("{name}@{version}")).collect::<Vec<_>>()
        };
        self.functions.iter().flat_map(versions).collect()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.labels()).finish()
    }
}
