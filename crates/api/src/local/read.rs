//! Looking at runs.

use std::time::Duration;

use goldseam::core::branch::Branches;
use goldseam::core::codec::{decode, decode_all};
use goldseam::core::decide::Refusal;
use goldseam::core::hash::Hash;
use goldseam::core::state::Outcome;
use goldseam::core::{Event, Recorded, TagKey, WorkflowName};
use goldseam::engine::page::{Most, Piece};
use goldseam::healer::Found;
use goldseam::store::{Cursor, Record, RunFilter, RunOrder};
use goldseam::{EngineError, Failure, Millis, RunId, Seq, Status, Summary};

use super::{Local, limit};
use crate::api::Answer;
use crate::doc::event::{EventDoc, History, HistoryQuery};
use crate::doc::run::{
    BranchItem, Detail, Diff, DiffQuery, Ending, Explanation, Link, OpenQuestion, Order, Question,
    QuestionsQuery, RunsQuery, Wrong,
};
use crate::doc::{Damage, Items, PAGE_MAX, Page, UnreadableItem};
use crate::moment::Moment;
use crate::problem::Problem;
use crate::view::describe::Much;
use crate::view::text::answer_line;
use crate::view::{branches, detail, diff, log};

/// Runs of a page unless told otherwise.
const RUNS: u32 = 50;
/// Runs with questions that a page of them has unless told otherwise.
const ASKERS: u32 = 100;
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
        let filter = filter(query)?;
        let lost = self.lost_rows(&filter).await?;
        let page = self.client.list(filter).await?;
        let unreadable =
            page.unreadable.into_iter().map(|found| UnreadableItem::new(found.key, found.reason));
        let mut runs = Page::new(page.items.into_iter().map(|row| row.summary).collect(), page.next);
        runs.unreadable = unreadable.collect();
        let known = |run: &RunId| runs.unreadable.iter().any(|item| item.id == run.as_str());
        let lost: Vec<RunId> = lost.into_iter().filter(|run| !known(run)).collect();
        let item = |run: RunId| UnreadableItem::new(run.as_str(), "its cached row is lost");
        runs.unreadable.extend(lost.into_iter().map(item));
        Ok(runs)
    }

    /// Runs without a row, for the first page of a list of everything. A store that is paid by request is not asked.
    async fn lost_rows(&self, filter: &RunFilter) -> Answer<Vec<RunId>> {
        let everything = RunFilter { order: filter.order, limit: filter.limit, ..RunFilter::default() };
        if *filter != everything || !self.client.store().pace().sweep.is_zero() {
            return Ok(Vec::new());
        }
        Ok(self.client.store().rowless(None, filter.limit).await?)
    }

    pub(super) async fn read_detail(&self, run: &RunId) -> Answer<Detail> {
        let log = self.client.log(run).await?;
        if log.damage.is_empty() {
            return Ok(detail::detail(self.client.state(run).await?, &log.events));
        }
        // What it was before the damage, and what its row says.
        let Some(mut state) = log.state(run) else {
            let corrupt = log.damage[0].clone();
            return Err(EngineError::Corrupt { run: run.clone(), corrupt }.into());
        };
        if let Some(row) = self.client.store().head(run).await?.and_then(|head| head.row) {
            state.summary = row.summary;
        }
        let mut shown = detail::detail(state, &log.events);
        shown.more.damage = log.damage.iter().map(Damage::from).collect();
        Ok(shown)
    }

    pub(super) async fn read_history(&self, run: &RunId, query: HistoryQuery) -> Answer<History> {
        let most = limit::page(query.limit, PAGE_MAX)?;
        let (after, most) = (Seq(query.after.unwrap_or(0)), usize::try_from(most).unwrap_or(usize::MAX));
        let whole = match &query.branch {
            Some(_) => None,
            None => self.events(run, after, most + 1).await?,
        };
        let (mut events, is_cut, damage) = match whole {
            Some((events, is_cut)) => (events, is_cut, Vec::new()),
            None => {
                let log = self.client.log(run).await?;
                let seen = match &query.branch {
                    Some(branch) => {
                        let known = Branches::of(&log.events);
                        log::seen_by(&log.events, &known, log::branch(&known, branch)?)
                    }
                    None => log.events.iter().collect(),
                };
                let rest = seen.into_iter().filter(|recorded| recorded.seq > after);
                let (events, is_cut) = log::that_fits(rest.take(most + 1).cloned());
                (events, is_cut, log.damage)
            }
        };
        let more = is_cut || events.len() > most;
        events.truncate(most);
        let next = events.last().map(|last| last.seq).filter(|_| more);
        let to = next.unwrap_or(Seq(u64::MAX));
        let here = damage.iter().filter(|damage| damage.seq > after && damage.seq <= to);
        let damage = here.map(Damage::from).collect();
        Ok(History { items: events.iter().map(EventDoc::from).collect(), next, run: run.clone(), damage })
    }

    /// Events after a position, each checked to follow the one before it, the one at that position included; none if
    /// something is wrong with them. Says, too, whether there may be more because those are as much as fits.
    async fn events(&self, run: &RunId, after: Seq, most: usize) -> Answer<Option<(Vec<Recorded>, bool)>> {
        let (store, from) = (self.client.store(), after.before());
        let mut page: Vec<Record> = match from == after {
            true => Vec::new(),
            false => store.read(run, from, 1).await?,
        };
        let read_to = page.last().map_or(after, |known| known.seq.max(after));
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let Piece { records, is_cut } = self.client.ledger().piece(run, read_to, Most::events(most)).await?;
        page.extend(records);
        let Some(first) = page.first() else {
            return match store.head(run).await? {
                Some(_) => Ok(Some((Vec::new(), false))),
                None => Err(EngineError::Refused { run: run.clone(), refusal: Refusal::NoSuchRun }.into()),
            };
        };
        let Ok(earliest) = decode(first.seq, &first.body) else { return Ok(None) };
        let (from, prev) = match (from, &earliest.event) {
            // Everything before a tombstone may be gone.
            (_, Event::RunPruned(_)) => (first.seq.before(), earliest.prev),
            (Seq::ZERO, _) => (from, Hash::ZERO),
            _ => (from, earliest.prev),
        };
        let texts = page.iter().map(|record| (record.seq, record.body.as_str()));
        let Ok((events, _)) = decode_all(from, prev, texts) else { return Ok(None) };
        Ok(Some((events.into_iter().filter(|recorded| recorded.seq > after).collect(), is_cut)))
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
            verdict: explained.verdict,
            you_can: explained.you_can,
        })
    }

    pub(super) async fn read_branches(&self, run: &RunId) -> Answer<Items<BranchItem>> {
        let log = self.client.log(run).await?;
        let items = branches::items(&log.events, &Branches::of(&log.events));
        Ok(Items { items, damage: log.damage.iter().map(Damage::from).collect() })
    }

    pub(super) async fn compare(&self, run: &RunId, query: &DiffQuery) -> Answer<Diff> {
        let log = self.client.log(run).await?;
        let mut diff = diff::diff(run, &log.events, (&query.left, &query.right), Much::All)?;
        diff.damage = log.damage.iter().map(Damage::from).collect();
        Ok(diff)
    }

    pub(super) async fn list_questions(&self, query: QuestionsQuery) -> Answer<Page<Question>> {
        let wanted = usize::try_from(limit::page(query.limit, ASKERS)?).unwrap_or(usize::MAX);
        let mut filter = RunFilter {
            statuses: MAY_ASK.to_vec(),
            workflow: query.workflow.map(WorkflowName::new).transpose()?,
            order: RunOrder::Oldest,
            after: query.after,
            limit: PAGE_MAX,
            ..RunFilter::default()
        };
        let (mut questions, mut askers) = (Page::new(Vec::new(), None), 0);
        // A page is empty only if nothing follows, so runs without questions are passed over to the end.
        loop {
            let page = self.client.list(filter.clone()).await?;
            for (at, row) in page.items.iter().enumerate() {
                let asked = questions_in(&row.summary);
                askers += usize::from(!asked.is_empty());
                questions.items.extend(asked);
                let more = at + 1 < page.items.len() || page.next.is_some();
                if askers == wanted && more {
                    let cursor = Cursor::of(row, filter.order);
                    questions.next = cursor.map(|cursor| cursor.to_string());
                    return Ok(questions);
                }
            }
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        Ok(questions)
    }
}
