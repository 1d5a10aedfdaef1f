//! Reading runs, logs and questions.

use async_trait::async_trait;
use goldseam::unstable::core::branch::Branches;
use goldseam::unstable::core::codec::{decode, decode_all};
use goldseam::unstable::core::decide::Refusal;
use goldseam::unstable::core::hash::Hash;
use goldseam::unstable::core::state::Outcome;
use goldseam::unstable::core::task::Quarantined;
use goldseam::unstable::core::{Event, Recorded, TagKey, WorkflowName};
use goldseam::unstable::engine::heal::Found;
use goldseam::unstable::engine::page::{Most, Piece};
use goldseam::unstable::store::{BoundList, Cursor, Record, RunFilter, RunOrder, TaskFilter};
use goldseam::{EngineError, Failure, Millis, RunId, Seq, Status, Summary};

use super::{LocalApi, limit, search};
use crate::api::{ApiResult, Following, RunsApi};
use crate::doc::activity::{ActivityDoc, ActivityQuery};
use crate::doc::diff::{DiffDoc, DiffQuery};
use crate::doc::event::{EventDoc, HistoryDoc, HistoryQuery};
use crate::doc::overview::{StatusesDoc, SuggestionDoc, SuggestionsQuery};
use crate::doc::run::{
    BranchDoc, DetailQuery, DiagnosisDoc, EndingDoc, ExplanationDoc, GroupsDoc, GroupsQuery, LinkDoc,
    ListOrder, OpenQuestionDoc, QuarantineDoc, QuestionDoc, QuestionsQuery, RunDoc, RunsQuery, WaitQuery,
};
use crate::doc::{DamageDoc, ItemsDoc, PAGE_MAX, PageDoc, UnreadableDoc};
use crate::next_step::{NextStepDoc, answer_command, with_commands};
use crate::problem::Problem;
use crate::timestamp::Timestamp;
use crate::view::describe::PayloadLength;
use crate::view::{branches, detail, diff, log};

/// Default number of runs in a page.
const RUNS_DEFAULT: u32 = 50;
/// Default number of runs whose questions fill a page.
const ASKERS_DEFAULT: u32 = 100;
/// Statuses in which a run may have an open question.
const MAY_ASK: [Status; 6] = [
    Status::Running,
    Status::Waiting,
    Status::Sleeping,
    Status::Paused,
    Status::Parked,
    Status::Compensating,
];

fn filter(query: RunsQuery, now: Millis) -> Result<RunFilter, Problem> {
    let words = query.status.iter().flat_map(|words| words.split(',')).filter(|word| !word.is_empty());
    let statuses: Result<Vec<Status>, _> = words.map(str::parse).collect();
    let statuses = statuses.map_err(|error| Problem::bad_request(format!("{error}")))?;
    let tag = match query.tag.as_deref().map(|tag| (tag, tag.split_once('='))) {
        None => None,
        Some((_, Some((key, value)))) => Some((TagKey::new(key)?, value.to_owned())),
        Some((tag, None)) => {
            return Err(Problem::bad_request(format!("invalid tag {tag:?}; write KEY=VALUE")));
        }
    };
    Ok(RunFilter {
        statuses,
        workflow: query.workflow.map(WorkflowName::new).transpose()?,
        tag,
        since: query.since_ms.map(Millis),
        condition: search::condition(query.condition.as_deref(), now)?,
        cause: query.cause,
        owner: None,
        parent: query.parent.map(RunId::new).transpose()?,
        order: match query.order.unwrap_or(ListOrder::Newest) {
            ListOrder::Newest => RunOrder::Newest,
            ListOrder::Oldest => RunOrder::Oldest,
            ListOrder::Recovered => RunOrder::Recovered,
        },
        after: query.after,
        limit: limit::page(query.limit, RUNS_DEFAULT)?,
    })
}

/// The list of a query. Its bound on the age is left out: a client computes it again for every page.
fn bound_list(query: &RunsQuery) -> BoundList {
    let RunsQuery { status, workflow, tag, condition, since_ms: _, cause, parent, order, after: _, limit: _ } =
        query;
    let order = format!("{:?}", order.unwrap_or(ListOrder::Newest));
    let texts = [status, workflow, tag, condition, cause, parent];
    let mut parts: Vec<&str> = texts.iter().map(|text| text.as_deref().unwrap_or_default()).collect();
    parts.push(&order);
    BoundList::new(&parts)
}

fn open_questions(summary: &Summary) -> Vec<QuestionDoc> {
    let question = |input: &goldseam::unstable::core::summary::OpenInput| QuestionDoc {
        run: summary.run.clone(),
        workflow: summary.workflow.clone(),
        open: OpenQuestionDoc { input: input.clone(), command: answer_command(&summary.run, input) },
    };
    summary.inputs.iter().map(question).collect()
}

#[async_trait]
impl RunsApi for LocalApi {
    async fn runs(&self, mut query: RunsQuery) -> ApiResult<PageDoc<Summary>> {
        let list = bound_list(&query);
        query.after = list.open(query.after)?;
        let filter = filter(query, self.client.now())?;
        let lost = self.lost_rows(&filter).await?;
        let page = self.client.list(filter.clone()).await?;
        let is_empty = page.items.is_empty() && page.next.is_none() && filter.after.is_none();
        let note = if is_empty { self.note_on(filter.condition.as_deref()).await? } else { None };
        let unreadable = page.unreadable.into_iter().map(|found| UnreadableDoc::new(found.key, found.reason));
        let mut runs =
            PageDoc::new(page.items.into_iter().map(|row| row.summary).collect(), list.bind(page.next));
        runs.note = note;
        runs.unreadable = unreadable.collect();
        let known = |run: &RunId| runs.unreadable.iter().any(|item| item.id == run.as_str());
        let lost: Vec<RunId> = lost.into_iter().filter(|run| !known(run)).collect();
        let item = |run: RunId| UnreadableDoc::new(run.as_str(), "its cached row is lost");
        runs.unreadable.extend(lost.into_iter().map(item));
        Ok(runs)
    }

    async fn groups(&self, query: GroupsQuery) -> ApiResult<GroupsDoc> {
        self.grouped(query).await
    }

    async fn statuses(&self) -> ApiResult<StatusesDoc> {
        self.count_statuses().await
    }

    async fn suggestions(&self, query: SuggestionsQuery) -> ApiResult<ItemsDoc<SuggestionDoc>> {
        self.suggest(query).await
    }

    async fn detail_at(&self, run: &RunId, query: DetailQuery) -> ApiResult<RunDoc> {
        let log = self.client.log(run).await?;
        let branch = |events: &[Recorded]| {
            let known = Branches::of(events);
            query.branch.as_deref().map(|name| log::branch(&known, name)).transpose()
        };
        if let Some(at) = query.at.map(Seq).filter(|at| *at != log.end) {
            let (state, events) = detail::until(run, &log, at)?;
            let branch = branch(events)?;
            return Ok(detail::detail(state, events, branch));
        }
        let branch = branch(&log.events)?;
        if log.damage.is_empty() {
            return Ok(detail::detail(self.client.state(run).await?, &log.events, branch));
        }
        // The state up to the damage, with the summary of the cached row.
        let Some(mut state) = log.state(run) else {
            let corrupt = log.damage[0].clone();
            return Err(EngineError::Corrupt { run: run.clone(), corrupt }.into());
        };
        if let Some(row) = self.client.store().head(run).await?.and_then(|head| head.row) {
            state.summary = row.summary;
        }
        let mut shown = detail::detail(state, &log.events, branch);
        shown.more.damage = log.damage.iter().map(DamageDoc::from).collect();
        Ok(shown)
    }

    async fn activity(&self, query: ActivityQuery) -> ApiResult<ActivityDoc> {
        self.count_activity(query).await
    }

    async fn history(&self, run: &RunId, query: HistoryQuery) -> ApiResult<HistoryDoc> {
        let most = usize::try_from(limit::page(query.limit, PAGE_MAX)?).unwrap_or(usize::MAX);
        let after = Seq(query.after.unwrap_or(0));
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
        let damage = here.map(DamageDoc::from).collect();
        Ok(HistoryDoc { items: events.iter().map(EventDoc::from).collect(), next, run: run.clone(), damage })
    }

    async fn result(&self, run: &RunId, query: WaitQuery) -> ApiResult<EndingDoc> {
        let wait = limit::wait(query.wait_ms)?;
        let mut summary = self.client.get(run).await?;
        if !summary.status.is_terminal() && !wait.is_zero() {
            if let Ok(outcome) = tokio::time::timeout(wait, self.client.outcome(run)).await {
                outcome?;
            }
            summary = self.client.get(run).await?;
        }
        let status = summary.status;
        let mut ending =
            EndingDoc { event: summary.as_of, failure: None, output: None, run: run.clone(), status };
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

    async fn follow(&self, run: &RunId, after: Seq) -> ApiResult<Following> {
        self.stream(self.client.follower(run.clone(), after), run, after).await
    }

    async fn why(&self, run: &RunId) -> ApiResult<ExplanationDoc> {
        let explained = self.client.why(run).await?;
        let wrong = |Found { at, diagnosis, .. }: Found| DiagnosisDoc {
            automatic: diagnosis.remedy.is_automatic(),
            rule_name: Some(super::healing::name(diagnosis.rule)),
            code: diagnosis.rule,
            event: at,
            remedy: with_commands(&diagnosis.remedy.describe()),
            evidence: diagnosis.evidence,
        };
        let link = |link: goldseam::client::why::Link| LinkDoc {
            depth: link.depth,
            since: link.since.map(Timestamp),
            until: link.until.map(Timestamp),
            what: with_commands(&link.what),
        };
        Ok(ExplanationDoc {
            findings: explained.found.into_iter().map(wrong).collect(),
            links: explained.links.into_iter().map(link).collect(),
            moves_at: explained.moves_at.map(Timestamp),
            quarantine: if explained.status.is_active() { self.quarantine(run).await? } else { None },
            run: explained.run,
            status: explained.status,
            verdict: with_commands(&explained.verdict),
            next: explained.you_can.iter().flat_map(NextStepDoc::of).collect(),
            you_can: explained.you_can.iter().map(with_commands).collect(),
        })
    }

    async fn branches(&self, run: &RunId) -> ApiResult<ItemsDoc<BranchDoc>> {
        let log = self.client.log(run).await?;
        let items = branches::items(&log.events, &Branches::of(&log.events));
        Ok(ItemsDoc { items, damage: log.damage.iter().map(DamageDoc::from).collect() })
    }

    async fn diff(&self, run: &RunId, query: DiffQuery) -> ApiResult<DiffDoc> {
        let log = self.client.log(run).await?;
        let mut diff = diff::diff(run, &log.events, &query.left, &query.right, PayloadLength::Full)?;
        diff.damage = log.damage.iter().map(DamageDoc::from).collect();
        Ok(diff)
    }

    async fn questions(&self, query: QuestionsQuery) -> ApiResult<PageDoc<QuestionDoc>> {
        let wanted = usize::try_from(limit::page(query.limit, ASKERS_DEFAULT)?).unwrap_or(usize::MAX);
        let list = BoundList::new(&["questions", query.workflow.as_deref().unwrap_or_default()]);
        let mut filter = RunFilter {
            statuses: MAY_ASK.to_vec(),
            workflow: query.workflow.map(WorkflowName::new).transpose()?,
            order: RunOrder::Oldest,
            after: list.open(query.after)?,
            limit: PAGE_MAX,
            ..RunFilter::default()
        };
        let mut questions = PageDoc::new(Vec::new(), None);
        let mut askers = 0;
        // Only the last page may be empty, so this skips runs without questions until the page has some.
        loop {
            let page = self.client.list(filter.clone()).await?;
            for (at, row) in page.items.iter().enumerate() {
                let asked = open_questions(&row.summary);
                askers += usize::from(!asked.is_empty());
                questions.items.extend(asked);
                let more = at + 1 < page.items.len() || page.next.is_some();
                if askers == wanted && more {
                    let cursor = Cursor::of(row, filter.order);
                    questions.next = list.bind(cursor.map(|cursor| cursor.to_string()));
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

    async fn questions_of(&self, run: &RunId) -> ApiResult<ItemsDoc<QuestionDoc>> {
        Ok(open_questions(&self.client.get(run).await?).into())
    }
}

impl LocalApi {
    /// Returns the quarantine that the task of an owned run records.
    async fn quarantine(&self, run: &RunId) -> ApiResult<Option<QuarantineDoc>> {
        let store = self.client.store();
        let row = store.head(run).await?.and_then(|head| head.row);
        let Some(id) = row.filter(|row| row.summary.owner.is_some()).and_then(|row| row.task) else {
            return Ok(None);
        };
        let tasks = store.tasks(TaskFilter { id: Some(id), limit: 1, ..TaskFilter::default() }).await?;
        let quarantine = tasks.first().and_then(|task| task.quarantine());
        Ok(quarantine.map(|Quarantined { place, since, until }| QuarantineDoc {
            place: place.to_owned(),
            since: Timestamp(since),
            until: Timestamp(until),
        }))
    }

    /// Lists runs without a cached row, for the first page of an unfiltered list. Skips stores that charge per request.
    async fn lost_rows(&self, filter: &RunFilter) -> ApiResult<Vec<RunId>> {
        let everything = RunFilter { order: filter.order, limit: filter.limit, ..RunFilter::default() };
        if *filter != everything || !self.client.store().pace().sweep.is_zero() {
            return Ok(Vec::new());
        }
        Ok(self.client.store().rowless(None, filter.limit).await?)
    }

    /// Reads events after a position and checks that each follows the one before it, including the event at that
    /// position. Returns `None` if the check fails; the flag says whether the size limit cut the page.
    async fn events(&self, run: &RunId, after: Seq, most: usize) -> ApiResult<Option<(Vec<Recorded>, bool)>> {
        let store = self.client.store();
        let from = after.before();
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
}
