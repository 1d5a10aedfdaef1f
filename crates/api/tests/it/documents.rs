//! Documents round-trip and agree with the log.

use futures_util::StreamExt as _;
use goldseam::unstable::core::Recorded;
use goldseam::{RunId, Seq, Status};
use goldseam_api::RunsApi;
use goldseam_api::doc::event::{EventDoc, HistoryQuery, NewsDoc};
use goldseam_api::doc::run::{QuestionsQuery, RunDoc, WaitQuery};
use goldseam_api::view::timeline::OperationState;
use serde_json::Value;

use crate::support::Place;

const RUNS: &[(&str, &str)] =
    &[("done", "ship"), ("none", "nothing"), ("failed", "break"), ("asks", "ask"), ("waits", "wait")];

#[tokio::test]
async fn run_details_and_events_round_trip_through_json() {
    let place = Place::with(RUNS).await;
    for (name, _) in RUNS {
        let run = RunId::new(*name).unwrap();
        let detail = place.api.detail(&run).await.unwrap();
        let text = serde_json::to_string(&detail).unwrap();
        let back: RunDoc = serde_json::from_str(&text).unwrap();
        assert_eq!(back.summary, detail.summary);
        assert_eq!((&back.more.output, &back.more.seams), (&detail.more.output, &detail.more.seams));
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(value["steps"].is_array() && value["steps_done"].is_u64(), "{value}");

        let history = place.api.client().history(&run).await.unwrap();
        for recorded in &history {
            let text = serde_json::to_string(&EventDoc::from(recorded)).unwrap();
            let doc: EventDoc = serde_json::from_str(&text).unwrap();
            let back = Recorded::try_from(&doc).unwrap();
            let same = Recorded { write: back.write, prev: back.prev, bytes: 0, ..recorded.clone() };
            assert_eq!(back, same);
        }
    }
}

#[tokio::test]
async fn refused_child_is_a_failed_call_and_no_open_wait() {
    let place = Place::with(&[("done", "ship"), ("parent", "child")]).await;
    let run = RunId::new("parent").unwrap();
    let detail = place.api.detail(&run).await.unwrap();
    let open: Vec<&str> =
        detail.more.steps.iter().filter(|step| step.ended.is_none()).map(|step| &*step.path).collect();
    assert_eq!(open, ["paid"]);
    let call = detail.more.steps.iter().find(|step| step.child.as_deref() == Some("done")).unwrap();
    assert_eq!(call.state, OperationState::Failed);
    assert!(call.note.as_deref().unwrap().contains("is not a child of parent"), "{call:?}");
}

#[tokio::test]
async fn pages_of_a_log_add_up_to_the_log() {
    let place = Place::with(&[("done", "ship")]).await;
    let run = RunId::new("done").unwrap();
    let whole = place.api.history(&run, HistoryQuery::default()).await.unwrap();
    assert_eq!(whole.next, None);
    for limit in 1..=3 {
        let mut items = Vec::new();
        let mut after = None;
        loop {
            let query = HistoryQuery { branch: None, after, limit: Some(limit) };
            let page = place.api.history(&run, query).await.unwrap();
            items.extend(page.items);
            match page.next {
                Some(next) => after = Some(next.0),
                None => break,
            }
        }
        assert_eq!(items, whole.items);
    }
    let missing = place.api.history(&RunId::new("missing").unwrap(), HistoryQuery::default()).await;
    assert_eq!(missing.unwrap_err().status, 404);
}

#[tokio::test]
async fn following_resumes_after_a_position_and_ends_with_the_run() {
    let place = Place::with(&[("done", "ship")]).await;
    let run = RunId::new("done").unwrap();
    let history = place.api.history(&run, HistoryQuery::default()).await.unwrap().items;
    for after in 0..=history.len() {
        let following = place.api.follow(&run, Seq(after as u64)).await.unwrap();
        let received: Vec<EventDoc> = following
            .map(|news| match news.unwrap() {
                NewsDoc::Event(event) => *event,
                news => panic!("{news:?}"),
            })
            .collect()
            .await;
        assert_eq!(received, history[after..]);
    }
    let missing = place.api.follow(&RunId::new("missing").unwrap(), Seq::ZERO).await;
    assert_eq!(missing.err().unwrap().status, 404);
}

#[tokio::test]
async fn result_returns_the_end_and_stops_waiting_for_an_active_run() {
    let place = Place::with(RUNS).await;
    let result = async |name: &str| {
        place.api.result(&RunId::new(name).unwrap(), WaitQuery { wait_ms: Some(1) }).await.unwrap()
    };
    assert_eq!(result("done").await.output.unwrap().as_str(), r#""shipped ship""#);
    assert_eq!(result("none").await.output.unwrap().as_str(), "null");
    assert!(result("failed").await.failure.unwrap().message.contains("no truck"));
    let waits = result("waits").await;
    assert_eq!((waits.status, waits.output, waits.failure), (Status::Waiting, None, None));
}

#[tokio::test]
async fn lists_open_questions_of_all_runs() {
    let place = Place::with(RUNS).await;
    let open =
        place.api.questions(QuestionsQuery { limit: Some(1), ..QuestionsQuery::default() }).await.unwrap();
    let asked: Vec<&str> = open.items.iter().map(|question| question.run.as_str()).collect();
    assert_eq!(asked, ["asks"]);
    let run = RunId::new("asks").unwrap();
    let path = goldseam::Path::new("review").unwrap();
    assert_eq!(place.api.question(&run, &path).await.unwrap(), open.items[0]);
    assert_eq!(open.items[0].open.command, "goldseam answer asks review '{}'");
    let other = goldseam::Path::new("other").unwrap();
    assert_eq!(place.api.question(&run, &other).await.unwrap_err().status, 404);
}

#[tokio::test]
async fn only_the_last_page_of_questions_may_be_empty() {
    let names: Vec<String> = (0..25).map(|number| format!("waits-{number:02}")).collect();
    let mut runs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "wait")).collect();
    runs.extend([("asks-1", "ask"), ("asks-2", "ask")]);
    let place = Place::with(&runs).await;
    let ask = async |after: Option<String>| {
        let query = QuestionsQuery { limit: Some(1), after, ..QuestionsQuery::default() };
        place.api.questions(query).await.unwrap()
    };
    let first = ask(None).await;
    let second = ask(Some(first.next.clone().unwrap())).await;
    let mut asked: Vec<&str> = [&first, &second]
        .iter()
        .map(|page| match page.items.as_slice() {
            [one] => one.run.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    asked.sort_unstable();
    assert_eq!(asked, ["asks-1", "asks-2"]);
    if let Some(after) = second.next {
        let last = ask(Some(after)).await;
        assert!(last.items.is_empty() && last.next.is_none());
    }
}
