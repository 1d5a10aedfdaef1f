//! Runs: starting, listing, details, questions, branches.

use std::collections::BTreeMap;

use goldseam::search::Group;
use goldseam::unstable::core::StepName;
use goldseam::unstable::core::WorkflowName;
use goldseam::unstable::core::event::Terminated;
use goldseam::unstable::core::summary::OpenInput;
use goldseam::{AttributeValue, Failure, Payload, RunId, Seq, Status, Summary};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::doc::ending::PendingDoc;
use crate::doc::{DamageDoc, UnreadableDoc};
use crate::next_step::NextStepDoc;
use crate::timestamp::Timestamp;
use crate::view::timeline::{OperationDoc, OperationSpan, Seam};

/// A run to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// The workflow.
    pub workflow: String,
    /// The run's id; random by default. The same id with the same input is the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Input of the workflow; defaults to null.
    #[serde(default = "Payload::null")]
    pub input: Payload,
    /// Tags to search by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Typed values to search by: text, number, true, false, a list of texts, or `{"time": MILLISECONDS}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Larger priorities go first.
    #[serde(default)]
    pub priority: i32,
    /// The queue of the run; defaults to `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The version of the workflow, from 1. Defaults to the newest version that a live node has; if no live node has
    /// the workflow, the first node that claims the run decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// How long the run may take, from its begin until its end, in milliseconds; not with `deadline_ms`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub timeout_ms: Option<u64>,
    /// When the run must have ended, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// Delay before the run begins, in milliseconds; not with `start_at_ms`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub delay_ms: Option<u64>,
    /// When the run begins, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_ms: Option<i64>,
    /// At most one run of a lane is executed at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
}

/// The result of a start, or of an earlier start of the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Started)]
pub struct StartedDoc {
    /// The run.
    pub run: RunId,
    /// The status.
    pub status: Status,
    /// Its workflow.
    pub workflow: WorkflowName,
}

/// Selects runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsQuery {
    /// Only runs with these statuses, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Only runs of this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only runs with this tag, as `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Only runs that this condition selects, as in `status = failed and amount > 100`.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    #[param(rename = "where")]
    pub condition: Option<String>,
    /// Only runs queued at or after this time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Only runs that failed or parked for this cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Only children of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The order; defaults to `newest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub order: Option<ListOrder>,
    /// Cursor: the previous page's `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of runs, up to 500; defaults to 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Selects a state of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DetailQuery {
    /// The state as derived from the events up to this position; defaults to the end of the log.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub at: Option<u64>,
    /// The branch whose operations are shown, as in `b1`; defaults to the active branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// Selects runs to count and to group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupsQuery {
    /// What to group by: `cause`, `workflow`, `status`, `version`, `tag.NAME`, or the name of an attribute. Without it,
    /// the runs are only counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Only runs that this condition selects.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    #[param(rename = "where")]
    pub condition: Option<String>,
    /// Maximum number of groups, up to 500; defaults to 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The number of runs, and their groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Groups)]
pub struct GroupsDoc {
    /// Number of runs.
    pub total: u64,
    /// What they are grouped by; null if they are only counted.
    pub by: Option<String>,
    /// The groups, the largest first.
    pub groups: Vec<Group>,
    /// Runs of further groups than the limit allows. A run with a list is in several groups.
    #[serde(default)]
    pub left_out: u64,
    /// Unreadable records among the runs, which are not counted. Absent if every record is readable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableDoc>,
    /// Why the result may be empty although the condition is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Order of a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Order)]
pub enum ListOrder {
    /// Latest queued first.
    Newest,
    /// Earliest queued first.
    Oldest,
    /// Latest recovered first; only runs that were recovered.
    Recovered,
}

/// Everything about one run: its summary, and details from its log.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDoc {
    /// The summary.
    pub summary: Summary,
    /// Details from the log.
    pub more: RunDocParts,
}

/// Details from a run's log, besides its summary.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = More)]
pub struct RunDocParts {
    /// The input of the workflow.
    pub input: Payload,
    /// The output, once the run is completed.
    #[schema(value_type = Payload, required = false)]
    pub output: Option<Payload>,
    /// Why it failed or compensates.
    pub failure: Option<Failure>,
    /// Its operations, ordered by start.
    pub steps: Vec<OperationDoc>,
    /// When the run waited for a node, and which node owned it, on the same branch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<OperationSpan>,
    /// Completed leaf steps.
    pub steps_done: u32,
    /// The steps that the workflow declares.
    pub plan: Vec<PlannedDoc>,
    /// Its branches.
    pub branches: Vec<BranchDoc>,
    /// Its seams.
    pub seams: Vec<Seam>,
    /// Its open questions.
    pub questions: Vec<OpenQuestionDoc>,
    /// Damage of its log; the other fields cover the readable part. Absent if the log is intact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<DamageDoc>,
    /// Requests that no worker has carried out yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub pending: Vec<PendingDoc>,
    /// What a termination left standing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_standing: Option<Terminated>,
}

/// In a summary, `steps` is a number. In the detail document, `steps` is the list and `steps_done` the number.
const STEPS: &str = "steps";

impl Serialize for RunDoc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct RunDocText<'a> {
            #[serde(flatten)]
            summary: Map<String, Value>,
            #[serde(flatten)]
            more: &'a RunDocParts,
        }
        let Ok(Value::Object(mut summary)) = serde_json::to_value(&self.summary) else {
            return Err(serde::ser::Error::custom("a summary is an object"));
        };
        summary.remove(STEPS);
        RunDocText { summary, more: &self.more }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RunDoc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Payloads are separate fields because flattened fields cannot hold raw text.
        #[derive(Deserialize)]
        struct RunDocFields {
            input: Payload,
            #[serde(default, deserialize_with = "none_if_null")]
            output: Option<Payload>,
            failure: Option<Failure>,
            steps: Vec<OperationDoc>,
            #[serde(default)]
            spans: Vec<OperationSpan>,
            steps_done: u32,
            plan: Vec<PlannedDoc>,
            branches: Vec<BranchDoc>,
            seams: Vec<Seam>,
            questions: Vec<OpenQuestionDoc>,
            #[serde(default)]
            damage: Vec<DamageDoc>,
            #[serde(default)]
            pending: Vec<PendingDoc>,
            #[serde(default)]
            left_standing: Option<Terminated>,
            #[serde(flatten)]
            summary: Map<String, Value>,
        }
        let RunDocFields {
            input,
            output,
            failure,
            steps,
            spans,
            steps_done,
            plan,
            branches,
            seams,
            questions,
            damage,
            pending,
            left_standing,
            mut summary,
        } = RunDocFields::deserialize(deserializer)?;
        summary.insert(STEPS.to_owned(), steps_done.into());
        let summary: Summary = serde_json::from_value(Value::Object(summary)).map_err(D::Error::custom)?;
        // A completed run without output returned null.
        let output = output.or_else(|| (summary.status == Status::Completed).then(Payload::null));
        let more = RunDocParts {
            input,
            output,
            failure,
            steps,
            spans,
            steps_done,
            plan,
            branches,
            seams,
            questions,
            damage,
            pending,
            left_standing,
        };
        Ok(Self { summary, more })
    }
}

pub(crate) fn none_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    let payload = Payload::deserialize(deserializer)?;
    Ok((payload != Payload::null()).then_some(payload))
}

impl PartialSchema for RunDoc {
    fn schema() -> RefOr<Schema> {
        let mut whole = object(Summary::schema());
        let more = object(RunDocParts::schema());
        whole.properties.extend(more.properties);
        whole.required.extend(more.required);
        whole.required.sort();
        whole.required.dedup();
        whole.description = Some("Everything about one run.".to_owned());
        whole.into()
    }
}

fn object(schema: RefOr<Schema>) -> Object {
    match schema {
        RefOr::T(Schema::Object(object)) => object,
        _ => Object::default(),
    }
}

impl ToSchema for RunDoc {
    fn name() -> std::borrow::Cow<'static, str> {
        "Detail".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Summary::schemas(schemas);
        RunDocParts::schemas(schemas);
    }
}

/// A step that the workflow declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Planned)]
pub struct PlannedDoc {
    /// The step.
    pub step: StepName,
    /// Whether it is complete.
    pub done: bool,
}

/// An open question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = OpenQuestion)]
pub struct OpenQuestionDoc {
    /// The question.
    #[serde(flatten)]
    pub input: OpenInput,
    /// The command that answers it.
    pub command: String,
}

/// An open question with its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Question)]
pub struct QuestionDoc {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// The question.
    #[serde(flatten)]
    pub open: OpenQuestionDoc,
}

/// Selects questions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct QuestionsQuery {
    /// Only questions of runs of this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Cursor: the previous page's `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of runs whose questions the page holds, up to 500; defaults to 100. Only the last page may be
    /// empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A branch of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BranchItem)]
pub struct BranchDoc {
    /// The name, as in `b1`.
    pub branch: String,
    /// The parent branch.
    pub parent: Option<String>,
    /// The last event that it shares with its parent.
    pub cutoff: Seq,
    /// The position of its `branch.opened`.
    pub opened: Seq,
    /// The number of events on this branch only.
    pub events: u64,
    /// Whether it is the active branch.
    pub active: bool,
    /// Why it was opened.
    pub why: String,
}

/// How long to wait for the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Maximum wait in milliseconds, up to 60000; defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// How a run ended, or its current status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Ending)]
pub struct EndingDoc {
    /// The end of its log.
    pub event: Seq,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The output.
    #[serde(default, deserialize_with = "super::change::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub output: Option<Payload>,
    /// The run.
    pub run: RunId,
    /// The status.
    pub status: Status,
}

/// Waits for a change of the store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChangesQuery {
    /// The mark from the previous response. Without one, the response is immediate.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub after: Option<u64>,
    /// Maximum wait in milliseconds, up to 60000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub wait_ms: Option<u64>,
}

/// A mark of the latest change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Mark)]
pub struct MarkDoc {
    /// Differs from the previous mark if something may have changed.
    pub mark: u64,
}

/// Why a run is in its state, and what would move it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Explanation)]
pub struct ExplanationDoc {
    /// What is wrong.
    pub findings: Vec<DiagnosisDoc>,
    /// What it waits for, and what that waits for.
    pub links: Vec<LinkDoc>,
    /// When it moves next, if time alone moves it.
    pub moves_at: Option<Timestamp>,
    /// What to do, for programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<NextStepDoc>,
    /// The quarantine in which the run waits. Absent if it waits in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<QuarantineDoc>,
    /// The run.
    pub run: RunId,
    /// Its status.
    pub status: Status,
    /// Verdict in one line: fine, waits, stalled, needs you, failed or ended, and why.
    #[serde(default)]
    pub verdict: String,
    /// What to do, as commands.
    pub you_can: Vec<String>,
}

/// A quarantine in which a run waits, because its process died while the run was executing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Quarantine)]
pub struct QuarantineDoc {
    /// The node, and the number of suspects before this one.
    pub place: String,
    /// When it began.
    pub since: Timestamp,
    /// When it ends at the latest, if the suspects before this one survive.
    pub until: Timestamp,
}

/// One thing that a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Link)]
pub struct LinkDoc {
    /// 0 for the run itself, 1 for a child, 2 for a child's child.
    pub depth: u32,
    /// When the wait began.
    pub since: Option<Timestamp>,
    /// The latest end of the wait.
    pub until: Option<Timestamp>,
    /// Description.
    pub what: String,
}

/// A diagnosis of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Wrong)]
pub struct DiagnosisDoc {
    /// Whether an engine applies the remedy automatically.
    pub automatic: bool,
    /// The rule.
    pub code: goldseam::recovery::Code,
    /// The end of the log that was examined.
    pub event: Seq,
    /// The evidence for the diagnosis.
    pub evidence: String,
    /// The remedy, or what an operator must do.
    pub remedy: String,
    /// The name of the rule, as in `worker-lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
}
