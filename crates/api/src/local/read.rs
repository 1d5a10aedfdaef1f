//! Looking at runs.

use std::time::Duration;

use goldseam::core::branch::Branches;
use goldseam::core::codec::{decode, decode_all};
use goldseam::core::decide::Refusal;
use goldseam::core::hash::Hash;
use goldseam::core::state::Outcome;
use goldseam::core::{Event, Recorded, TagKey, WorkflowName};
use goldseam::engine::page::Piece;
use goldseam::healer::Found;
use goldseam::store::{Record, RunFilter, RunOrder};
use goldseam::{EngineError, Failure, Millis, RunId, Seq, Status, Summary};

use super::{Local, limit};
use crate::api::Answer;
use crate::doc::event::{EventDoc, History, HistoryQuery};
use crate::doc::run::{
    BranchItem, Detail, Diff, DiffQuery, Ending, Explanation, Link, OpenQuestion, Order, Question,
    QuestionsQuery, RunsQuery, Wrong,
};
use crate::doc::{Items, PAGE_MAX, Page};
use crate::moment::Moment;
use crate::problem::Problem;
use crate::view::describe::Much;
use crate::view::text::answer_line;
use crate::view::{branches, detail, diff, log};

/// Runs of a page unless told otherwise.
const RUNS: u32 = 50;
/// Runs that a page of questions looks at unless told otherwise.
const ASKERS: u32 = 100;
/// Pages of runs that are looked at for one page of questions.
const LOOKS_MAX: u32 = 20;
/// Whoever may have an open question.
const MAY_ASK: [Status; 6] = [
    Status::Running,
    Status::Waiting,
    Status::Sleeping,
    Status::Paused,
    Status::Parked,
    Status::Compensating,
];

fn filter(query: RunsQuery) -> Result<RunFilter, Problem> {
    let words = query.status.iter().flat_map(|words| words.split(',')).filter(|word| !word.is_empty());
    let statuses: Result<Vec<Status>, _> = words.map(str::parse).collect();
    let statuses = statuses.map_err(|error| Problem::bad_request(format!("{error}")))?;
    let tag = match query.tag.as_deref().map(|tag| (tag, tag.split_once('='))) {
        None => None,
        Some((_, Some((key, value)))) => Some((TagKey::new(key)?, value.to_owned())),
        Some((tag, None)) => {
            return Err(Problem::bad_request(format!("{tag:?} is no tag; write KEY=VALUE")));
        }
    };
    Ok(RunFilter {
        statuses,
        workflow: query.workflow.map(WorkflowName::new).transpose()?,
        tag,
        since: query.since_ms.map(Millis),
        cause: query.cause,
        owner: None,
        parent: query.parent.map(RunId::new).transpose()?,
        order: match query.order.unwrap_or(Order::Newest) {
            Order::Newest => RunOrder::Newest,
            Order::Oldest => RunOrder::Oldest,
            Order::Recovered => RunOrder::Recovered,
        },
        after: query.after,
        limit: limit::page(query.limit, RUNS)?,
    })
}

/// The questions that a run has open.
pub(super) fn questions_in(summary: &Summary) -> Vec<Question> {
    let question = |input: &goldseam::core::summary::OpenInput| Question {
        run: summary.run.clone(),
        workflow: summary.workflow.clone(),
        open: OpenQuestion { input: input.clone(), command: answer_line(&summary.run, input) },
    };
    summary.inputs.iter().map(question).collect()
}

impl Local {
    pub(super) async fn list_runs(&self, query: RunsQuery) -> Answer<Page<Summary>> {
        let page = self.client.list(filter(query)?).await?;
        Ok(Page { items: page.items.into_iter().map(|row| row.summary).collect(), next: page.next })
    }

    pub(super) async fn read_detail(&self, run: &RunId) -> Answer<Detail> {
        let history = self.client.history(run).await?;
        Ok(detail::detail(self.client.state(run).await?, &history))
    }

    pub(super) async fn read_history(&self, run: &RunId, query: HistoryQuery) -> Answer<History> {
        let most = limit::page(query.limit, PAGE_MAX)?;
        let (after, most) = (Seq(query.after.unwrap_or(0)), usize::try_from(most).unwrap_or(usize::MAX));
        let (mut events, is_cut): (Vec<Recorded>, bool) = match &query.branch {
            Some(branch) => {
                let history = self.client.history(run).await?;
                let known = Branches::of(&history);
                let seen = log::seen_by(&history, &known, log::branch(&known, branch)?);
                let rest = seen.into_iter().filter(|recorded| recorded.seq > after);
                log::that_fits(rest.take(most + 1).cloned())
            }
            None => self.events(run, after, most + 1).await?,
        };
        let more = is_cut || events.len() > most;
        events.truncate(most);
        let next = events.last().map(|last| last.seq).filter(|_| more);
        Ok(History { items: events.iter().map(EventDoc::from).collect(), next, run: run.clone() })
    }

    /// Events after a position, each checked to follow the one before it, the one at that position included.
    /// Says, too, whether there may be more because those are as much as fits.
    async fn events(&self, run: &RunId, after: Seq, most: usize) -> Answer<(Vec<Recorded>, bool)> {
        let (store, from) = (self.client.store(), after.before());
        let mut page: Vec<Record> = match from == after {
            true => Vec::new(),
            false => store.read(run, from, 1).await?,
        };
        let read_to = page.last().map_or(after, |known| known.seq.max(after));
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let Piece { records, is_cut } = self.client.ledger().piece(run, read_to, most).await?;
        page.extend(records);
        let corrupt = |corrupt| Problem::from(EngineError::Corrupt { run: run.clone(), corrupt });
        let Some(first) = page.first() else {
            return match store.head(run).await? {
                Some(_) => Ok((Vec::new(), false)),
                None => Err(EngineError::Refused { run: run.clone(), refusal: Refusal::NoSuchRun }.into()),
            };
        };
        let earliest = decode(first.seq, &first.body).map_err(corrupt)?;
        let (from, prev) = match (from, &earliest.event) {
            // Everything before a tombstone may be gone.
            (_, Event::RunPruned(_)) => (first.seq.before(), earliest.prev),
            (Seq::ZERO, _) => (from, Hash::ZERO),
            _ => (from, earliest.prev),
        };
        let texts = page.iter().map(|record| (record.seq, record.body.as_str()));
        let (events, _) = decode_all(from, prev, texts).map_err(corrupt)?;
        Ok((events.into_iter().filter(|recorded| recorded.seq > after).collect(), is_cut))
    }

    pub(super) async fn read_result(&self, run: &RunId, wait: Duration) -> Answer<Ending> {
        let mut summary = self.client.get(run).await?;
        if !summary.status.is_terminal() && !wait.is_zero() {
            if let Ok(outcome) = tokio::time::timeout(wait, self.client.outcome(run)).await {
                outcome?;
            }
            summary = self.client.get(run).await?;
        }
        let (event, status) = (summary.as_of, summary.status);
        let mut ending = Ending { event, failure: None, output: None, run: run.clone(), status };
        if status.is_terminal() {
            match self.client.state(run).await?.outcome {
                Some(Outcome::Completed(output)) => ending.output = Some(output),
                Some(Outcome::Failed(failure)) => ending.failure = Some(failure),
                Some(Outcome::Cancelled(reason)) => {
                    ending.failure = Some(Failure::terminal(reason).with_code("cancelled"));
                }
                None => {}
            }
        }
        Ok(ending)
    }

    pub(super) async fn explain(&self, run: &RunId) -> Answer<Explanation> {
        let explained = self.client.why(run).await?;
        let wrong = |Found { at, diagnosis, .. }: Found| Wrong {
            automatic: diagnosis.remedy.is_automatic(),
            code: diagnosis.rule,
            event: at,
            remedy: diagnosis.remedy.describe(),
            evidence: diagnosis.evidence,
        };
        let link = |link: goldseam::healer::why::Link| Link {
            depth: link.depth,
            since: link.since.map(Moment),
            until: link.until.map(Moment),
            what: link.what,
        };
        Ok(Explanation {
            findings: explained.found.into_iter().map(wrong).collect(),
            links: explained.links.into_iter().map(link).collect(),
            moves_at: explained.moves_at.map(Moment),
            run: explained.run,
            status: explained.status,
            you_can: explained.you_can,
        })
    }

    pub(super) async fn read_branches(&self, run: &RunId) -> Answer<Items<BranchItem>> {
        let history = self.client.history(run).await?;
        Ok(branches::items(&history, &Branches::of(&history)).into())
    }

    pub(super) async fn compare(&self, run: &RunId, query: &DiffQuery) -> Answer<Diff> {
        let history = self.client.history(run).await?;
        diff::diff(run, &history, (&query.left, &query.right), Much::All)
    }

    pub(super) async fn list_questions(&self, query: QuestionsQuery) -> Answer<Page<Question>> {
        let mut filter = RunFilter {
            statuses: MAY_ASK.to_vec(),
            workflow: query.workflow.map(WorkflowName::new).transpose()?,
            order: RunOrder::Oldest,
            after: query.after,
            limit: limit::page(query.limit, ASKERS)?,
            ..RunFilter::default()
        };
        let mut questions = Page { items: Vec::new(), next: None };
        for _ in 0..LOOKS_MAX {
            let page = self.client.list(filter.clone()).await?;
            questions.items.extend(page.items.iter().flat_map(|row| questions_in(&row.summary)));
            questions.next.clone_from(&page.next);
            filter.after = page.next;
            if !questions.items.is_empty() || filter.after.is_none() {
                break;
            }
        }
        Ok(questions)
    }
}
