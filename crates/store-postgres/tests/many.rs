//! Several nodes on one schema: groups of appends, lanes, wake-ups, connections.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goldseam_conformance::make::{advance, append, append_with_row, create, run, task, task_id};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LaneName, Millis, NodeId, Seq};
use goldseam_store::{
    Append, ClaimRequest, Expect, NodeRecord, NodeState, Store, StoreError, TaskFilter, Written,
};
use goldseam_store_postgres::PostgresStore;
use goldseam_store_postgres::testing::Schema;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// Timeout of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn soon<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, answer).await.unwrap()
}

async fn stores(schema: &Schema, count: usize) -> Vec<Arc<PostgresStore>> {
    let mut stores = Vec::new();
    for _ in 0..count {
        stores.push(Arc::new(PostgresStore::open_url(&schema.url()).await.unwrap()));
    }
    stores
}

fn node(name: &str) -> NodeRecord {
    NodeRecord {
        id: NodeId::new(name).unwrap(),
        name: name.to_owned(),
        started_at: Millis(0),
        workflows: vec![],
        slots: 1,
        timing: None,
        state: NodeState::Up,
    }
}

/// A plain session beside the stores, and the notifications that it receives.
async fn session(schema: &Schema) -> (Client, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let url = schema.url();
    let (plain, _) = url.split_once('?').unwrap();
    let (client, mut connection) = tokio_postgres::connect(plain, NoTls).await.unwrap();
    let (sender, notifications) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message {
                let _ = sender.send(note.payload().to_owned());
            }
        }
    });
    client.batch_execute(&format!("SET search_path TO {}", name(schema))).await.unwrap();
    (client, notifications)
}

fn name(schema: &Schema) -> String {
    schema.url().split_once("schema=").unwrap().1.to_owned()
}

async fn bodies(store: &PostgresStore, name: &str) -> Vec<String> {
    store.read(&run(name), Seq::ZERO, 1_000).await.unwrap().into_iter().map(|record| record.body).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_does_not_affect_other_appends() {
    let schema = Schema::fresh();
    let store = stores(&schema, 1).await.remove(0);
    let append_one = |n: usize| {
        let store = Arc::clone(&store);
        // Every fifth append expects another end of the log.
        let after = if n.is_multiple_of(5) { 7 } else { 0 };
        tokio::spawn(async move { store.append(append(&format!("r{n}"), after, &["a", "b"])).await })
    };
    let all: Vec<_> = (0..100).map(append_one).collect();
    for (n, outcome) in all.into_iter().enumerate() {
        let name = format!("r{n}");
        match outcome.await.unwrap() {
            Ok(end) => assert_eq!((end, n % 5 == 0), (Seq(2), false)),
            Err(StoreError::Conflict { end }) => assert_eq!((end, n % 5 == 0), (Seq::ZERO, true)),
            Err(error) => panic!("{name}: {error}"),
        }
        let kept: &[&str] = if n % 5 == 0 { &[] } else { &["a", "b"] };
        assert_eq!(bodies(&store, &name).await, kept, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_postgres_refuses_fails_alone() {
    let schema = Schema::fresh();
    let store = stores(&schema, 1).await.remove(0);
    let append_one = |n: usize| {
        let store = Arc::clone(&store);
        // Postgres accepts no null character in text; no event of Goldseam has one.
        let body = if n == 13 { "a\0b" } else { "a" };
        tokio::spawn(async move { store.append(append(&format!("r{n}"), 0, &[body])).await })
    };
    let all: Vec<_> = (0..40).map(append_one).collect();
    for (n, outcome) in all.into_iter().enumerate() {
        assert_eq!(outcome.await.unwrap().is_ok(), n != 13, "r{n}");
    }
    assert_eq!(bodies(&store, "r13").await, [""; 0]);
}

/// Every node appends two events to every run at once; one of them wins completely.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_several_nodes_neither_mix_nor_deadlock() {
    let schema = Schema::fresh();
    let stores = stores(&schema, 4).await;
    for round in 0..5_u64 {
        let mut all = Vec::new();
        for (node, store) in stores.iter().enumerate() {
            for n in 0..32 {
                // Each node in a different order.
                let n = (n * (2 * node + 1) + node) % 32;
                let store = Arc::clone(store);
                let name = format!("r{n}");
                let text = format!("{node} in round {round}");
                let after = round * 2;
                all.push(tokio::spawn(async move {
                    store.append(append(&name, after, &[&text, &text])).await.map(|end| (n, node, end))
                }));
            }
        }
        let mut winners = BTreeMap::new();
        for outcome in all {
            match outcome.await.unwrap() {
                Ok((n, node, end)) => {
                    assert_eq!(end, Seq(round * 2 + 2));
                    assert_eq!(winners.insert(n, node), None, "two won run {n}");
                }
                Err(StoreError::Conflict { end }) => assert_eq!(end, Seq(round * 2 + 2)),
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(winners.len(), 32);
        for (n, node) in winners {
            let text = format!("{node} in round {round}");
            let kept = bodies(&stores[0], &format!("r{n}")).await;
            assert_eq!(kept[kept.len() - 2..], [text.clone(), text]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_waits_for_its_rival_and_delays_no_other() {
    let schema = Schema::fresh();
    let store = stores(&schema, 1).await.remove(0);
    store.append(append("slow", 0, &["a"])).await.unwrap();
    let (rival, _) = session(&schema).await;
    rival
        .batch_execute("BEGIN; INSERT INTO events SELECT rid, 2, 'rival' FROM runs WHERE id = 'slow'")
        .await
        .unwrap();
    let waiting = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.append(append("slow", 1, &["b", "c"])).await })
    };
    // The other connection for appends is free.
    soon(store.append(append("quick", 0, &["a"]))).await.unwrap();
    assert!(!waiting.is_finished());
    rival.batch_execute("COMMIT").await.unwrap();
    assert!(matches!(soon(waiting).await.unwrap(), Err(StoreError::Conflict { end: Seq(2) })));
    assert_eq!(bodies(&store, "slow").await, ["a", "rival"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_claiming_nodes_run_one_task_per_lane() {
    let schema = Schema::fresh();
    let stores = stores(&schema, 8).await;
    for n in 0..48 {
        let lane = Some(LaneName::new(format!("lane{}", n % 3)).unwrap());
        let new = Task { lane, priority: n % 4, ..task(&format!("t{n:02}")) };
        assert_eq!(stores[0].put_task(new, Expect::Absent).await.unwrap(), Written::Done);
    }
    let running: Arc<Mutex<BTreeSet<LaneName>>> = Arc::default();
    let done: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let claimers = stores.iter().enumerate().map(|(node, store)| {
        let store = Arc::clone(store);
        let running = Arc::clone(&running);
        let done = Arc::clone(&done);
        tokio::spawn(async move {
            while done.lock().unwrap().len() < 48 {
                let now = store.now().await.unwrap();
                let pools = vec!["main".to_owned()];
                let claim = ClaimRequest { owner: format!("n{node}"), pools, kind: None, limit: 2, now };
                for task in store.claim(claim).await.unwrap().tasks {
                    let lane = task.lane.clone().unwrap();
                    assert!(running.lock().unwrap().insert(lane.clone()), "{lane} runs twice");
                    assert!(
                        done.lock().unwrap().insert(task.id.as_str().to_owned()),
                        "{} ran twice",
                        task.id
                    );
                    tokio::task::yield_now().await;
                    assert!(running.lock().unwrap().remove(&lane));
                    let expect = Expect::Version(task.version);
                    let over =
                        Task { state: TaskState::Completed, owner: None, version: task.version + 1, ..task };
                    assert_eq!(store.put_task(over, expect).await.unwrap(), Written::Done);
                }
            }
        })
    });
    for claimer in claimers.collect::<Vec<_>>() {
        soon(claimer).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_wakes_a_node_of_another_process() {
    let schema = Schema::fresh();
    let stores = stores(&schema, 2).await;
    stores[0].beat(&node("n1")).await.unwrap();
    let mut mark = stores[0].changed(0).await.unwrap();
    // The liveness session opens in the background, which wakes waiters.
    while let Ok(next) = tokio::time::timeout(Duration::from_millis(300), stores[0].changed(mark)).await {
        mark = next.unwrap();
    }
    stores[1]
        .append(Append { tasks: vec![create(advance("r", "own"))], ..append_with_row("r", 0) })
        .await
        .unwrap();
    assert_ne!(soon(stores[0].changed(mark)).await.unwrap(), mark);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_notifies_at_most_once_and_not_of_its_own_runs() {
    let schema = Schema::fresh();
    let store = stores(&schema, 1).await.remove(0);
    let (listener, mut notifications) = session(&schema).await;
    listener.batch_execute(&format!("LISTEN {}", name(&schema))).await.unwrap();
    let held = |n: usize| {
        let own = advance(&format!("h{n}"), &format!("own-h{n}")).claimed("me", Millis(1));
        Append { tasks: vec![create(own)], ..append_with_row(&format!("h{n}"), 0) }
    };
    for n in 0..10 {
        store.append(held(n)).await.unwrap();
    }
    let ready = |n: usize| {
        let own = advance(&format!("r{n}"), &format!("own-r{n}"));
        Append { tasks: vec![create(own)], ..append_with_row(&format!("r{n}"), 0) }
    };
    let groups_before = transactions(&listener).await;
    let all: Vec<_> = (0..200)
        .map(|n| {
            let store = Arc::clone(&store);
            let append = ready(n);
            tokio::spawn(async move { store.append(append).await.unwrap() })
        })
        .collect();
    for one in all {
        one.await.unwrap();
    }
    // Notifications arrive in order, so all earlier ones arrive before this one.
    listener.batch_execute(&format!("SELECT pg_notify('{}', 'end')", name(&schema))).await.unwrap();
    let mut count = 0;
    while soon(notifications.recv()).await.unwrap() != "end" {
        count += 1;
    }
    let groups = transactions(&listener).await - groups_before;
    assert!((1..=groups).contains(&count), "{count} notifications for {groups} transactions");
    assert!(count < 200, "200 waiting appends sent {count} notifications");
    let filter = TaskFilter { id: Some(task_id("own-h3")), limit: 1, ..TaskFilter::default() };
    assert_eq!(store.tasks(filter).await.unwrap()[0].state, TaskState::Claimed);
}

/// The number of transactions that have written events in this schema.
async fn transactions(client: &Client) -> i64 {
    client.query_one("SELECT count(DISTINCT xmin::text) FROM events", &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_has_at_most_six_connections() {
    let schema = Schema::fresh();
    let tag = name(&schema);
    let url = format!("{}&application_name={tag}", schema.url());
    let store = Arc::new(PostgresStore::open_url(&url).await.unwrap());
    store.beat(&node("n1")).await.unwrap();
    let all: Vec<_> = (0..300)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                store.append(append_with_row(&format!("r{n}"), 0)).await.unwrap();
                store.put_task(task(&format!("t{n}")), Expect::Absent).await.unwrap();
                store.head(&run(&format!("r{n}"))).await.unwrap();
                store.nodes().await.unwrap();
            })
        })
        .collect();
    for one in all {
        one.await.unwrap();
    }
    let (client, _) = session(&schema).await;
    let count: i64 = client
        .query_one("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", &[&tag])
        .await
        .unwrap()
        .get(0);
    assert!((4..=6).contains(&count), "{count} connections");
}
