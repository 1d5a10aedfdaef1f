//! Runs: starting, listing, looking at one.

use std::collections::BTreeMap;

use goldseam::core::StepName;
use goldseam::core::WorkflowName;
use goldseam::core::event::Terminated;
use goldseam::core::summary::OpenInput;
use goldseam::{Failure, Payload, RunId, Seq, Status, Summary};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::doc::Damage;
use crate::doc::ending::Pending;
use crate::moment::Moment;
use crate::view::timeline::{Row, Seam};

/// A run to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// The workflow.
    pub workflow: String,
    /// The run's id; a new one unless given. The same id with the same input is the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Input of the workflow; null unless given.
    #[serde(default = "Payload::null")]
    pub input: Payload,
    /// To search by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Larger goes first.
    #[serde(default)]
    pub priority: i32,
    /// The queue that the run stands in; `default` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The version of the workflow, from 1 on. Unless it is given, the newest that a live node has; if none has the
    /// workflow, the first node that claims the run decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A run that was started, now or before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Started {
    /// The run.
    pub run: RunId,
    /// Where it is in its life.
    pub status: Status,
    /// Its workflow.
    pub workflow: WorkflowName,
}

/// Which runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsQuery {
    /// Only in one of these statuses, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Only of this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only with this tag, as `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Only queued at or after this moment, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Only failed or parked for this cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Only children of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The latest first unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub order: Option<Order>,
    /// Begin after this cursor: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many, up to 500; 50 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Order of a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The latest queued first.
    Newest,
    /// The earliest queued first.
    Oldest,
    /// The latest recovered first, and only runs that were.
    Recovered,
}

/// Everything about one run: its summary, and what its log tells besides.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// Where it is.
    pub summary: Summary,
    /// How it came there.
    pub more: More,
}

/// What a run's log tells besides its summary.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct More {
    /// What it was started with.
    pub input: Payload,
    /// What it returned, once it is completed.
    #[schema(value_type = Payload, required = false)]
    pub output: Option<Payload>,
    /// Why it failed, or is being undone.
    pub failure: Option<Failure>,
    /// Its operations, in order of beginning.
    pub steps: Vec<Row>,
    /// Completed leaf steps.
    pub steps_done: u32,
    /// The steps that the workflow declared.
    pub plan: Vec<Planned>,
    /// Its timelines.
    pub branches: Vec<BranchItem>,
    /// What happened to it as a whole.
    pub seams: Vec<Seam>,
    /// What people are asked.
    pub questions: Vec<OpenQuestion>,
    /// Where its log is damaged; everything else is as far as it can be read. Left out if the log is whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
    /// Requests that no worker has carried out yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub pending: Vec<Pending>,
    /// What an operator left standing who ended the run without its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_standing: Option<Terminated>,
}

/// `steps` of a summary is a number; in the whole document the steps themselves stand there, and the number as
/// `steps_done`.
const STEPS: &str = "steps";

impl Serialize for Detail {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            summary: Map<String, Value>,
            #[serde(flatten)]
            more: &'a More,
        }
        let Ok(Value::Object(mut summary)) = serde_json::to_value(&self.summary) else {
            return Err(serde::ser::Error::custom("a summary is an object"));
        };
        summary.remove(STEPS);
        Whole { summary, more: &self.more }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Detail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Payloads stand beside the rest and not within it: what is flattened cannot hold raw text.
        #[derive(Deserialize)]
        struct Whole {
            input: Payload,
            #[serde(default, deserialize_with = "none_if_null")]
            output: Option<Payload>,
            failure: Option<Failure>,
            steps: Vec<Row>,
            steps_done: u32,
            plan: Vec<Planned>,
            branches: Vec<BranchItem>,
            seams: Vec<Seam>,
            questions: Vec<OpenQuestion>,
            #[serde(default)]
            damage: Vec<Damage>,
            #[serde(default)]
            pending: Vec<Pending>,
            #[serde(default)]
            left_standing: Option<Terminated>,
            #[serde(flatten)]
            summary: Map<String, Value>,
        }
        let Whole {
            input,
            output,
            failure,
            steps,
            steps_done,
            plan,
            branches,
            seams,
            questions,
            damage,
            pending,
            left_standing,
            mut summary,
        } = Whole::deserialize(deserializer)?;
        summary.insert(STEPS.to_owned(), steps_done.into());
        let summary: Summary = serde_json::from_value(Value::Object(summary)).map_err(D::Error::custom)?;
        // A run that returned null returned something.
        let output = output.or_else(|| (summary.status == Status::Completed).then(Payload::null));
        let more = More {
            input,
            output,
            failure,
            steps,
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

impl PartialSchema for Detail {
    fn schema() -> RefOr<Schema> {
        let (mut whole, more) = (object(Summary::schema()), object(More::schema()));
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

impl ToSchema for Detail {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Summary::schemas(schemas);
        More::schemas(schemas);
    }
}

/// A step that the workflow declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Planned {
    /// The step.
    pub step: StepName,
    /// Whether it is complete.
    pub done: bool,
}

/// A question of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenQuestion {
    /// What is asked.
    #[serde(flatten)]
    pub input: OpenInput,
    /// The line that would answer it.
    pub command: String,
}

/// A question, and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Question {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// What is asked.
    #[serde(flatten)]
    pub open: OpenQuestion,
}

/// Which questions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct QuestionsQuery {
    /// Only of runs of this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Begin after this cursor: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The questions of at most so many runs, up to 500; 100 unless given. A page is empty only if nothing follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A timeline of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BranchItem {
    /// Its name, as in `b1`.
    pub branch: String,
    /// The branch that it leaves.
    pub parent: Option<String>,
    /// The last event that both share.
    pub cutoff: Seq,
    /// Where it was opened.
    pub opened: Seq,
    /// Events of its own.
    pub events: u64,
    /// Whether the run is on it.
    pub active: bool,
    /// Why it was opened.
    pub why: String,
}

/// Which two timelines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DiffQuery {
    /// One branch, as in `b1`.
    pub left: String,
    /// Another branch.
    pub right: String,
}

/// Two timelines of a run, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    /// What differs, by operation.
    pub items: Vec<DiffItem>,
    /// One branch.
    pub left: String,
    /// The last event that both share.
    pub parted_after: Seq,
    /// The other branch.
    pub right: String,
    /// The run.
    pub run: RunId,
    /// Where the log is damaged. Left out if it is whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
}

/// An operation that two timelines differ in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiffItem {
    /// Where it stands.
    pub change: Change,
    /// How it ended on the left, in words.
    pub left: Option<String>,
    /// The operation; `run` is the run itself.
    pub path: String,
    /// How it ended on the right, in words.
    pub right: Option<String>,
}

/// Where an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// On the left branch only.
    Left,
    /// On the right branch only.
    Right,
    /// On both, with other results.
    Changed,
}

/// How long to wait.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Wait for so long at the most, in milliseconds, up to 60000; not at all unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// How a run ended, or that it goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ending {
    /// Where its log ends.
    pub event: Seq,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What it returned.
    #[serde(default, deserialize_with = "super::change::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub output: Option<Payload>,
    /// The run.
    pub run: RunId,
    /// Where it is in its life.
    pub status: Status,
}

/// Which changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChangesQuery {
    /// The mark that was given before; at once unless given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub after: Option<u64>,
    /// Wait for so long at the most, in milliseconds, up to 60000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub wait_ms: Option<u64>,
}

/// A mark of the latest change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mark {
    /// Differs from the one before if something may have changed.
    pub mark: u64,
}

/// Why a run is where it is, and what would move it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// What is wrong.
    pub findings: Vec<Wrong>,
    /// What it waits for, and what that waits for.
    pub links: Vec<Link>,
    /// When it will move by itself, if time alone does it.
    pub moves_at: Option<Moment>,
    /// The run.
    pub run: RunId,
    /// Its status.
    pub status: Status,
    /// How it stands and why, in one line: fine, waits, stalled, needs you, failed or ended.
    #[serde(default)]
    pub verdict: String,
    /// What to do, as commands.
    pub you_can: Vec<String>,
}

/// One thing that holds a run up, or moves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Link {
    /// 0 for the run itself, 1 for a child, 2 for a child's child.
    pub depth: u32,
    /// Since when.
    pub since: Option<Moment>,
    /// Until when at the latest.
    pub until: Option<Moment>,
    /// In words.
    pub what: String,
}

/// Something that is wrong with a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Wrong {
    /// Whether an engine does something about it by itself.
    pub automatic: bool,
    /// The rule.
    pub code: goldseam::recovery::Code,
    /// The end of the log that was looked at.
    pub event: Seq,
    /// What was seen.
    pub evidence: String,
    /// What is done about it, or what to do.
    pub remedy: String,
}
