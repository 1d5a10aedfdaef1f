//! Counting all runs by status, and values that filters may take.

use std::collections::BTreeMap;

use goldseam::unstable::store::RunFilter;
use goldseam::{Status, Summary};

use super::{LocalApi, limit};
use crate::api::{ApiResult, NodesApi};
use crate::doc::overview::{StatusCountDoc, StatusesDoc, SuggestionDoc, SuggestionKind, SuggestionsQuery};
use crate::doc::{ItemsDoc, PAGE_MAX};

/// Default number of suggestions.
const SUGGESTIONS_DEFAULT: u32 = 50;

impl LocalApi {
    /// Counts all runs by status.
    pub(super) async fn count_statuses(&self) -> ApiResult<StatusesDoc> {
        let counts = self.client.status_counts().await?;
        let of = |status: Status| counts.iter().find(|(found, _)| *found == status).map(|(_, count)| *count);
        let item = |status| of(status).map(|count| StatusCountDoc { count, status });
        let items: Vec<StatusCountDoc> = Status::ALL.into_iter().filter_map(item).collect();
        Ok(StatusesDoc { total: items.iter().map(|item| item.count).sum(), items })
    }

    /// Suggests values of a filter, the most frequent among the latest runs first.
    pub(super) async fn suggest(&self, query: SuggestionsQuery) -> ApiResult<ItemsDoc<SuggestionDoc>> {
        let SuggestionsQuery { of, text, limit } = query;
        let most = usize::try_from(limit::page(limit, SUGGESTIONS_DEFAULT)?).unwrap_or(usize::MAX);
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        if of == SuggestionKind::Workflow {
            let served = self.workflows().await?.items;
            counts.extend(served.into_iter().map(|workflow| (workflow.name.to_string(), 0)));
        }
        let page = self.client.list(RunFilter { limit: PAGE_MAX, ..RunFilter::default() }).await?;
        for value in page.items.iter().flat_map(|row| values(of, &row.summary)) {
            *counts.entry(value).or_default() += 1;
        }
        let text = text.unwrap_or_default().to_lowercase();
        counts.retain(|value, _| value.to_lowercase().contains(&text));
        let item = |(value, count)| SuggestionDoc { count, value };
        let mut items: Vec<SuggestionDoc> = counts.into_iter().map(item).collect();
        items.sort_by(|one, other| (other.count, &one.value).cmp(&(one.count, &other.value)));
        items.truncate(most);
        Ok(items.into())
    }
}

/// The values that a run has for a filter.
fn values(of: SuggestionKind, run: &Summary) -> Vec<String> {
    match of {
        SuggestionKind::Workflow => vec![run.workflow.to_string()],
        SuggestionKind::Tag => run.tags.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        SuggestionKind::Attribute => run.attributes.keys().map(ToString::to_string).collect(),
        SuggestionKind::Queue => vec![run.queue.to_string()],
        SuggestionKind::Cause => run.trouble.iter().map(|trouble| trouble.cause.clone()).collect(),
    }
}
