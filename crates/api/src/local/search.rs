//! Conditions: parsing them, counting and grouping the runs that they select, and what an empty result may mean.

use std::sync::Arc;

use goldseam::search::{Condition, ConditionSubject, GroupBy, GroupByError, Literal, RunField};
use goldseam::unstable::core::TagKey;
use goldseam::unstable::core::argument::meant;
use goldseam::unstable::store::{GroupQuery, RunFilter};
use goldseam::{AttributeValue, EngineError, Millis};

use super::{LocalApi, limit};
use crate::api::ApiResult;
use crate::doc::UnreadableDoc;
use crate::doc::run::{GroupsDoc, GroupsQuery};
use crate::problem::Problem;

/// Default number of groups.
const GROUPS_DEFAULT: u32 = 50;
/// Pages that are read to find out whether a run has an attribute.
const PROBE_PAGES_MAX: usize = 4;

/// Parses the condition of a query.
pub(super) fn condition(text: Option<&str>, now: Millis) -> Result<Option<Arc<Condition>>, Problem> {
    let parse = |text: &str| Condition::parse(text, now).map_err(EngineError::from);
    Ok(text.map(parse).transpose()?.map(Arc::new))
}

impl LocalApi {
    /// Counts runs, and groups them.
    pub(super) async fn grouped(&self, query: GroupsQuery) -> ApiResult<GroupsDoc> {
        let parse = |by: String| {
            let parsed: Result<GroupBy, GroupByError> = by.parse();
            parsed.map_err(|error| {
                Problem::bad_request(error.to_string()).code(GroupByError::CODE).hint(GroupByError::HINT)
            })
        };
        let by = query.by.map(parse).transpose()?;
        let limit = limit::page(query.limit, GROUPS_DEFAULT)?;
        let condition = condition(query.condition.as_deref(), self.client.now())?;
        let filter = RunFilter { condition: condition.clone(), ..RunFilter::default() };
        let found = self.client.groups(GroupQuery { filter, by: by.clone(), limit }).await?;
        let note = if found.total == 0 { self.note_on(condition.as_deref()).await? } else { None };
        let unreadable =
            found.unreadable.into_iter().map(|found| UnreadableDoc::new(found.key, found.reason));
        Ok(GroupsDoc {
            total: found.total,
            by: by.map(|by| by.to_string()),
            groups: found.groups,
            left_out: found.left_out,
            unreadable: unreadable.collect(),
            note,
        })
    }

    /// Explains an empty result: refuses an attribute that no run has, and notes one that has another type.
    pub(super) async fn note_on(&self, condition: Option<&Condition>) -> ApiResult<Option<String>> {
        let Some(condition) = condition else { return Ok(None) };
        let attributes = condition.attributes();
        let everything = RunFilter { limit: 1, ..RunFilter::default() };
        if attributes.is_empty() || self.client.list(everything).await?.items.is_empty() {
            return Ok(None);
        }
        for (name, literal) in attributes {
            match self.example(name).await? {
                Example::None => {
                    let near = meant(name.as_str(), RunField::ALL.map(RunField::as_str));
                    let what = format!("no run has an attribute {name}{near}");
                    return Err(Problem::bad_request(what)
                        .code("GS0140")
                        .hint("goldseam show RUN lists the attributes of a run"));
                }
                Example::Value(value) if literal.is_some_and(|literal| !literal.compares_with(&value)) => {
                    let with = literal.map_or("", Literal::kind);
                    let kind = value.kind();
                    return Ok(Some(format!(
                        "the condition compares {name} with {with}, but it is {kind} in the latest run that has it"
                    )));
                }
                Example::Value(_) | Example::Unknown => {}
            }
        }
        Ok(None)
    }

    /// Refuses a condition that selects no run because no run has one of its attributes.
    pub(super) async fn refuse_unknown_attributes(&self, text: &str) -> ApiResult<()> {
        let condition = condition(Some(text), self.client.now())?;
        if condition.as_deref().is_none_or(|condition| condition.attributes().is_empty()) {
            return Ok(());
        }
        let filter = RunFilter { condition: condition.clone(), limit: 1, ..RunFilter::default() };
        let found = self.client.list(filter).await?;
        if found.items.is_empty() && found.unreadable.is_empty() && found.next.is_none() {
            self.note_on(condition.as_deref()).await?;
        }
        Ok(())
    }

    /// Finds a run that has this attribute.
    async fn example(&self, name: &TagKey) -> ApiResult<Example> {
        let condition = Some(Arc::new(Condition::Has(ConditionSubject::Attribute(name.clone()))));
        let mut filter = RunFilter { condition, limit: 1, ..RunFilter::default() };
        for _ in 0..PROBE_PAGES_MAX {
            let page = self.client.list(filter.clone()).await?;
            if let Some(row) = page.items.into_iter().next() {
                return Ok(row
                    .summary
                    .attributes
                    .get(name)
                    .map_or(Example::Unknown, |v| Example::Value(v.clone())));
            }
            match page.next {
                Some(next) => filter.after = Some(next),
                None => return Ok(Example::None),
            }
        }
        Ok(Example::Unknown)
    }
}

/// An attribute of some run.
enum Example {
    /// A run has it, with this value.
    Value(AttributeValue),
    /// No run has it.
    None,
    /// The search ended before the last run.
    Unknown,
}
