//! Texts that stores must not keep are refused before they reach a store.

use std::time::Duration;

use goldseam_core::task::NewTask;
use goldseam_core::{LockName, Millis, Payload, QueueName, TagKey, TaskId};
use goldseam_store::RunFilter;

use super::Fixture;
use super::harness::{Harness, id};
use goldseam_engine::client::StartOptions;
use goldseam_engine::client::queue::Want;

/// The code of a refused argument.
const REFUSED: &str = "GS0138";

fn task(kind: &str, key: Option<&str>) -> NewTask {
    NewTask {
        id: TaskId::new("job").unwrap(),
        kind: kind.to_owned(),
        queue: QueueName::new("jobs").unwrap(),
        lane: None,
        priority: 0,
        key: key.map(str::to_owned),
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    }
}

fn want(owner: &str, kind: Option<&str>) -> Want {
    let owner = owner.to_owned();
    let kind = kind.map(str::to_owned);
    Want { owner, queue: QueueName::new("jobs").unwrap(), kind, limit: 1 }
}

/// Tags, kinds, keys, owners and holders have no control characters, on any store, and nothing is written.
pub async fn control_characters_are_refused_on_every_store(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let client = &harness.client;
    let queue = harness.client.queue();
    let locks = harness.client.locks();
    let lock = LockName::new("deploy").unwrap();
    for bad in ["\0", "a\0b", "a\x1b[2J", "a\n", "a\u{9b}", "a\u{202e}b"] {
        let tagged = StartOptions::default().tag("region", bad);
        let start = client.begin("order", &id("r"), Payload::null(), tagged).await;
        assert_eq!(start.unwrap_err().code(), REFUSED, "{bad:?}");
        let tag = Some((TagKey::new("region").unwrap(), bad.to_owned()));
        let listed = client.list(RunFilter { tag, limit: 1, ..RunFilter::default() }).await;
        assert_eq!(listed.unwrap_err().code(), REFUSED, "{bad:?}");
        let cause = Some(bad.to_owned());
        let listed = client.list(RunFilter { cause, limit: 1, ..RunFilter::default() }).await;
        assert_eq!(listed.unwrap_err().code(), REFUSED, "{bad:?}");
        assert_eq!(queue.submit(task(bad, None)).await.unwrap_err().code(), REFUSED, "{bad:?}");
        assert_eq!(queue.submit(task("mail", Some(bad))).await.unwrap_err().code(), REFUSED, "{bad:?}");
        assert_eq!(queue.claim(want(bad, None)).await.unwrap_err().code(), REFUSED, "{bad:?}");
        assert_eq!(queue.claim(want("w", Some(bad))).await.unwrap_err().code(), REFUSED, "{bad:?}");
        let held = locks.acquire(&lock, bad, Duration::from_secs(1)).await;
        assert_eq!(held.unwrap_err().code(), REFUSED, "{bad:?}");
    }
    for empty in [
        queue.claim(want("", None)).await.err(),
        locks.acquire(&lock, "", Duration::from_secs(1)).await.err(),
    ] {
        assert_eq!(empty.unwrap().code(), REFUSED);
    }
    let none = queue.submit(NewTask { attempts_max: 0, ..task("mail", None) }).await;
    assert_eq!(none.unwrap_err().code(), REFUSED);
    assert!(queue.list(None, None, None, 10).await.unwrap().is_empty());
    assert_eq!(locks.get(&lock).await.unwrap(), None);
    let all = client.list(RunFilter { limit: 10, ..RunFilter::default() }).await.unwrap();
    assert!(all.items.is_empty());
}

/// Texts of any language, and payloads with any character, are stored unchanged.
pub async fn printed_texts_of_any_language_are_kept(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let text = "Jürgen \"J\" 🏺 مرحبا";
    let tagged = StartOptions::default().tag("region", text);
    let input = Payload::of("a\0\u{1b}\u{202e}", &goldseam_core::Limits::default()).unwrap();
    harness.client.begin("order", &id("r"), input.clone(), tagged).await.unwrap();
    assert_eq!(
        harness.client.get(&id("r")).await.unwrap().tags.get("region").map(String::as_str),
        Some(text)
    );
    let queue = harness.client.queue();
    let new = NewTask { payload: input.clone(), ..task(text, Some(text)) };
    queue.submit(new).await.unwrap();
    let claimed = queue.claim(want(text, Some(text))).await.unwrap();
    assert_eq!(claimed[0].payload, input);
    let lock = LockName::new("deploy").unwrap();
    let held = harness.client.locks().acquire(&lock, text, Duration::from_secs(60)).await.unwrap();
    assert_eq!(held.holder.as_deref(), Some(text));
}
