//! Bulk operations, and groups of failures.

use async_trait::async_trait;
use goldseam::unstable::core::SignalName;
use goldseam::unstable::core::operation::{SignalSpec, Spec, Verb};
use goldseam::unstable::engine::operation::{FailureGroup, Operation};
use goldseam::unstable::store::Unreadable;
use goldseam::{Payload, RunId};

use super::{LocalApi, limit};
use crate::api::{ApiResult, CommandsApi, OperationsApi};
use crate::caller::Caller;
use crate::doc::change::NewNote;
use crate::doc::operation::{
    BulkOperationDoc, FailureGroupDoc, FailuresDoc, FailuresQuery, NewOperation, OperationsQuery, PreviewDoc,
};
use crate::doc::{PageDoc, UnreadableDoc};
use crate::problem::Problem;

/// Default number of operations in a page.
const OPERATIONS_DEFAULT: u32 = 20;

#[async_trait]
impl OperationsApi for LocalApi {
    async fn begin_operation(&self, caller: &Caller, new: NewOperation) -> ApiResult<BulkOperationDoc> {
        self.check_text("the reason", &new.reason)?;
        let by = self.who(caller, new.by.clone())?;
        let spec = Spec { by, ..self.spec(new).await? };
        let derived = caller.command_id("operation", "");
        let id = match &derived {
            Some(derived) => RunId::new(format!("op-{derived}"))?,
            None => {
                let random = self.client.new_id();
                RunId::new(random.as_str().replacen("run-", "op-", 1))?
            }
        };
        // Relative times of the condition differ in a repeat, so the rest is compared.
        if derived.is_some()
            && let Ok(earlier) = self.client.operation(&id).await
        {
            let same = Spec { condition: earlier.spec.condition.clone(), ..spec } == earlier.spec;
            return if same { Ok(document(earlier)) } else { Err(Problem::key_reused(&id)) };
        }
        self.refuse_unknown_attributes(&spec.condition).await?;
        self.client.begin_operation(&id, spec).await?;
        self.operation(&id).await
    }

    async fn preview_operation(&self, new: NewOperation) -> ApiResult<PreviewDoc> {
        let spec = self.spec(new).await?;
        let preview = self.client.preview_operation(&spec).await?;
        if preview.matched == 0 {
            self.refuse_unknown_attributes(&spec.condition).await?;
        }
        Ok(PreviewDoc {
            groups: preview.groups,
            matched: preview.matched,
            samples: preview.samples,
            skipped: preview.skipped,
            stages: preview.stages,
            unreadable: preview.unreadable.into_iter().map(unreadable).collect(),
            verb: spec.verb,
            condition: preview.condition,
            would_act: preview.would_act,
        })
    }

    async fn operations(&self, query: OperationsQuery) -> ApiResult<PageDoc<BulkOperationDoc>> {
        let limit = limit::page(query.limit, OPERATIONS_DEFAULT)?;
        let page = self.client.operations(query.after, limit).await?;
        let mut operations = PageDoc::new(page.items.into_iter().map(document).collect(), page.next);
        operations.unreadable = page.unreadable.into_iter().map(unreadable).collect();
        Ok(operations)
    }

    async fn operation(&self, id: &RunId) -> ApiResult<BulkOperationDoc> {
        Ok(document(self.client.operation(id).await?))
    }

    async fn pause_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc> {
        self.client.operation(id).await?;
        self.pause(caller, id, reason).await?;
        self.operation(id).await
    }

    async fn resume_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc> {
        self.client.operation(id).await?;
        self.resume(caller, id, reason).await?;
        self.operation(id).await
    }

    async fn stop_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc> {
        self.client.operation(id).await?;
        self.cancel(caller, id, reason).await?;
        self.operation(id).await
    }

    async fn failures(&self, query: FailuresQuery) -> ApiResult<FailuresDoc> {
        let condition = match &query.condition {
            Some(text) => Some(self.client.parse_condition(text).await?),
            None => None,
        };
        let found = self.client.failures(condition.clone()).await?;
        if found.total == 0 {
            self.note_on(condition.as_ref()).await?;
        }
        Ok(FailuresDoc {
            groups: found.groups.into_iter().map(group).collect(),
            left_out: found.left_out,
            total: found.total,
            unreadable: found.unreadable.into_iter().map(unreadable).collect(),
        })
    }
}

impl LocalApi {
    /// Checks a request, and resolves the relative times of its condition.
    async fn spec(&self, new: NewOperation) -> ApiResult<Spec> {
        let condition = self.client.parse_condition(&new.condition).await?.to_string();
        let signal = match (new.signal, new.payload) {
            (Some(name), payload) => {
                let payload = self.payload(&payload.unwrap_or_else(Payload::null))?;
                Some(SignalSpec { name: SignalName::new(name)?, payload })
            }
            (None, Some(_)) => {
                return Err(nameless("a payload needs a signal"));
            }
            (None, None) => None,
        };
        if new.verb == Verb::Signal && signal.is_none() {
            return Err(nameless("the verb signal needs the name of a signal"));
        }
        let spec = Spec {
            verb: new.verb,
            condition,
            rate: new.rate.map(|rate| rate.parse()).transpose()?,
            canary: new.canary.map(|canary| canary.parse()).transpose()?,
            canary_timeout_ms: new.canary_timeout_ms,
            signal,
            reason: new.reason,
            by: None,
        };
        spec.check()?;
        Ok(spec)
    }
}

/// The problem of an operation without the name of its signal.
fn nameless(detail: &str) -> Problem {
    Problem::bad_request(detail).code("GS0145").hint("name the signal")
}

fn unreadable(found: Unreadable) -> UnreadableDoc {
    UnreadableDoc::new(found.key, found.reason)
}

fn document(operation: Operation) -> BulkOperationDoc {
    let Operation { summary, spec, progress } = operation;
    BulkOperationDoc {
        begun_at: summary.created_at,
        by: spec.by,
        canary: spec.canary.map(|canary| canary.to_string()),
        ended_at: summary.finished_at,
        id: summary.run,
        progress,
        rate: spec.rate.map(|rate| rate.to_string()),
        reason: spec.reason,
        status: summary.status,
        verb: spec.verb,
        condition: spec.condition,
    }
}

fn group(group: FailureGroup) -> FailureGroupDoc {
    let command = |cause: &String| format!("goldseam retry --where 'cause = \"{cause}\"' --canary 1,10%,all");
    FailureGroupDoc {
        command: group.cause.as_ref().map(command),
        cause: group.cause,
        code: group.code,
        count: group.count,
        example: group.example,
        first: group.first,
        last: group.last,
        message: group.message,
        step: group.step,
        workflows: group.workflows,
    }
}
