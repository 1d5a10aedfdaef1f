//! The ids of a run's trace and spans.

use goldseam::RunId;
use goldseam::unstable::core::branch::Branches;
use goldseam::unstable::core::trace::{TraceContext, key_of};
use goldseam::unstable::core::{BranchId, Recorded};
use goldseam_api::credentials::hex;
use goldseam_api::view::timeline::OperationDoc;
use sha2::{Digest, Sha256};

/// The ids of the spans of one run.
///
/// A run that was started with a trace context joins that trace, and the ids of its spans are those that its code passes
/// to other systems. Any other run is a trace of its own.
pub(super) struct SpanIds {
    /// The id of the trace.
    pub(super) trace: String,
    /// The id of the span of the run.
    pub(super) root: String,
    run: RunId,
    joined: Option<TraceContext>,
}

impl SpanIds {
    pub(super) fn of(namespace: &str, run: &RunId, history: &[Recorded]) -> Self {
        let (trace, root, joined) = match history.iter().find_map(|recorded| recorded.event.trace()) {
            Some(joined) => (joined.trace_id().to_owned(), joined.run_span(run), Some(joined.clone())),
            None => {
                let trace = hex(&Sha256::digest(format!("{namespace}/{run}"))[..16]);
                let root = own_span(&trace, "");
                (trace, root, None)
            }
        };
        Self { trace, root, run: run.clone(), joined }
    }

    /// Returns whether the spans are exported. The starter decides, if it passed a trace context.
    pub(super) fn is_sampled(&self) -> bool {
        self.joined.as_ref().is_none_or(TraceContext::is_sampled)
    }

    /// Returns the span of the starter.
    pub(super) fn starter(&self) -> Option<&str> {
        self.joined.as_ref().map(TraceContext::parent_id)
    }

    /// Returns the `tracestate` of the starter.
    pub(super) fn state(&self) -> &str {
        self.joined.as_ref().and_then(TraceContext::tracestate).unwrap_or_default()
    }

    /// Returns the id of the span of an operation.
    pub(super) fn operation(&self, branches: &Branches, row: &OperationDoc) -> String {
        match &self.joined {
            Some(joined) => {
                let generation = branches.generation(row.branch.unwrap_or(BranchId::ROOT));
                joined.span(&key_of(&self.run, generation, &row.path))
            }
            None => own_span(&self.trace, &format!("{}/{}/{}", row.kind.as_str(), row.path, row.began.0)),
        }
    }

    /// Returns the id of the span of a recovery.
    pub(super) fn recovery(&self, recorded: &Recorded) -> String {
        match &self.joined {
            Some(joined) => joined.span(&format!("{}/recovered/{}", self.run, recorded.seq)),
            None => own_span(&self.trace, &format!("recovered/{}", recorded.seq)),
        }
    }
}

fn own_span(trace: &str, what: &str) -> String {
    hex(&Sha256::digest(format!("{trace}/{what}"))[..8])
}
