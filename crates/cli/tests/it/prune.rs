//! Pruning from the command line.

use goldseam_fake_s3::FakeS3;
use goldseam_store_postgres::testing::Schema;

use goldseam::prelude::*;
use goldseam::{RunId, Status};

use crate::support::{Place, block, eventually, order, prepared, reaches};

fn batch_in(place: &crate::support::Place) -> String {
    let folder = place.path("archive");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    folder.join(&files[0]).display().to_string()
}

#[test]
fn prune_needs_an_archive_confirmation_and_ended_runs() {
    let place = prepared();
    let refused = place.run(&["prune", "--completed-before", "0s"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("prune needs an archive"), "{}", refused.err);
    let refused = place.run(&["prune", "--completed-before", "0s", "--archive", "archive"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("--yes"), "{}", refused.err);
    let refused =
        place.run(&["prune", "--completed-before", "0s", "--archive", "a", "--yes", "--status", "waiting"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(!place.files().contains(&"archive".to_owned()));
    assert!(place.run(&["history", "done"]).ok().contains("run.queued"));
}

#[test]
fn a_pruned_run_names_its_archive() {
    let place = prepared();
    let pruned =
        place.run(&["prune", "--completed-before", "0s", "--archive", "archive", "--yes", "--json"]).json();
    assert_eq!(pruned["pruned"].as_array().unwrap().len(), 2, "{pruned}");
    let batch = batch_in(&place);
    assert_eq!(pruned["archives"][0].as_str(), Some(batch.as_str()));
    let shown = place.run(&["show", "done"]).ok();
    assert!(shown.contains(&batch) && shown.contains("shipped ship"), "{shown}");
    assert!(place.run(&["history", "failed"]).ok().contains("run.pruned"));
    assert!(place.run(&["watch", "done", "--jsonl"]).ok().contains("run.pruned"), "and the watch ends");
    place.run(&["retry", "failed"]).fails(6, "GS0131");
    place.run(&["signal", "done", "paid"]).fails(6, "GS0131");
    assert!(place.run(&["store", "check"]).ok().contains("sound"));
    assert!(place.run(&["doctor", "--deep", "--rule", "K1"]).ok().contains("healthy"));
    assert!(place.run(&["prune", "--verify", &batch]).ok().contains("2 runs"));
    let again = place.run(&["prune", "--completed-before", "0s", "--archive", "archive", "--yes"]).ok();
    assert!(again.contains("0 runs pruned"), "{again}");
}

#[test]
fn verify_finds_a_damaged_archive() {
    let place = prepared();
    place.run(&["prune", "--completed-before", "0s", "--archive", "archive", "--yes"]).ok();
    let batch = batch_in(&place);
    let whole = std::fs::read_to_string(&batch).unwrap();
    let changed = whole.replacen("the bank answered 503", "the bank answered 504", 1);
    let cut = whole.rsplit_once("{\"goldseam_archive\"").unwrap().0.to_owned();
    for damaged in [changed, cut, String::new()] {
        std::fs::write(&batch, damaged).unwrap();
        place.run(&["prune", "--verify", &batch]).fails(1, "GS0133");
    }
}

#[test]
fn pruned_runs_are_copied_to_another_store() {
    let place = prepared();
    place.run(&["prune", "--completed-before", "0s", "--archive", "archive", "--yes"]).ok();
    let copied = place.run(&["store", "move", "sqlite:goldseam.db", "sqlite:new.db", "--yes"]).ok();
    assert!(!copied.contains("K1"), "{copied}");
    let shown = place.run(&["show", "done", "--store", "sqlite:new.db"]).ok();
    assert!(shown.contains(&batch_in(&place)), "{shown}");
    assert!(place.run(&["store", "check", "sqlite:new.db"]).ok().contains("sound"));
    assert_eq!(place.run(&["history", "done", "--store", "sqlite:new.db"]).ok().matches("run.").count(), 1);
}

/// Copies the prepared runs to another store and prunes them there, into a bucket.
fn prune_on(url: &str, archive: &dyn Fn(&str) -> String) {
    let place = prepared();
    place.run(&["store", "move", "sqlite:goldseam.db", url, "--yes"]).ok();
    // A bucket's clock has a resolution of seconds.
    eventually("both runs are old enough", || {
        let plan = place.run(&["prune", "--completed-before", "0s", "--dry-run", "-q", "--store", url]).ok();
        (plan.lines().count() == 2).then_some(())
    });
    let pruned = place.run(&[
        "prune",
        "--completed-before",
        "0s",
        "--archive",
        &archive(""),
        "--yes",
        "--json",
        "--store",
        url,
    ]);
    let pruned = pruned.json();
    assert_eq!(pruned["pruned"].as_array().unwrap().len(), 2, "{pruned}");
    let batch = pruned["archives"][0].as_str().unwrap();
    assert!(place.run(&["show", "done", "--store", url]).ok().contains(batch));
    assert!(place.run(&["store", "check", url]).ok().contains("sound"));
    assert!(place.run(&["doctor", "--deep", "--rule", "K1", "--store", url]).ok().contains("healthy"));
    let name = batch.rsplit_once('/').unwrap().1;
    assert!(place.run(&["prune", "--verify", &archive(&format!("/{name}"))]).ok().contains("2 runs"));
    let back = place.run(&["store", "move", url, "sqlite:back.db", "--yes"]).ok();
    assert!(!back.contains("K1"), "{back}");
    assert!(place.run(&["show", "failed", "--store", "sqlite:back.db"]).ok().contains(batch));
}

#[test]
fn prunes_a_bucket_into_a_bucket() {
    let fake = FakeS3::start().unwrap();
    prune_on(&fake.url("orders"), &|name| fake.url(&format!("archive{name}")));
    let left = fake.objects().into_keys().filter(|key| key.contains("workflow/done/log/")).count();
    assert_eq!(left, 2, "the tombstone, and the object that prevents a new log");
}

#[test]
fn prunes_a_postgres_store() {
    let schema = Schema::fresh();
    let fake = FakeS3::start().unwrap();
    prune_on(&schema.url(), &|name| fake.url(&format!("archive{name}")));
}

/// Ends runs with large results, and prunes them.
fn pruned_runs(place: &Place) {
    let large = |ctx: Context, (): ()| async move {
        ctx.step("large", || async { Ok::<_, Error>("x".repeat(100_000)) }).await
    };
    block(async {
        let engine =
            Engine::open(&place.url()).await.unwrap().workflow("large", large).start().await.unwrap();
        for number in 0..40 {
            engine.start("large", format!("large-{number}"), &()).await.unwrap();
        }
        for number in 0..40 {
            reaches(engine.client(), &format!("large-{number}"), Status::Completed).await;
        }
        engine.shutdown().await;
    });
    place.run(&["prune", "--completed-before", "0s", "--archive", "archive", "--yes"]).ok();
}

#[test]
fn compact_returns_the_space_of_pruned_runs_to_the_system() {
    let place = Place::new();
    pruned_runs(&place);
    let bytes = || {
        let size = |name: &str| std::fs::metadata(place.path(name)).map_or(0, |file| file.len());
        size("goldseam.db") + size("goldseam.db-wal")
    };
    let before = bytes();
    assert!(before > 4_000_000, "{before} bytes");
    let compacted = place.run(&["store", "compact", "--json"]).json();
    assert_eq!(compacted["before"].as_u64(), Some(before), "{compacted}");
    assert_eq!(compacted["after"].as_u64(), Some(bytes()), "{compacted}");
    // A tombstone keeps the result of its run.
    let after = bytes();
    assert!(after < before * 3 / 4, "{before} to {after} bytes");
    place.run(&["store", "check"]).ok();
    assert!(place.run(&["show", "large-7"]).ok().contains("completed"));
    let again = place.run(&["store", "compact", "--json"]).json();
    assert!(again["after"].as_u64().unwrap() <= after, "{again}");
}

#[test]
fn compact_is_refused_while_a_node_works_and_harms_it_not() {
    let place = prepared();
    block(async {
        let engine =
            Engine::open(&place.url()).await.unwrap().workflow("order", order).start().await.unwrap();
        let err = tokio::task::block_in_place(|| place.run(&["store", "compact"]).fails(7, "GS0228"));
        assert!(err.contains("works on it"), "{err}");
        let run = RunId::new("waits").unwrap();
        engine.client().pause(&run, "look".into()).await.unwrap();
        reaches(engine.client(), "waits", Status::Paused).await;
        engine.shutdown().await;
    });
    place.run(&["store", "compact"]).ok();
    assert!(place.run(&["show", "waits"]).ok().contains("paused"));
}

#[test]
fn nodes_work_on_while_a_postgres_store_is_compacted() {
    let schema = Schema::fresh();
    let place = Place::with_store(schema.url());
    let double = |ctx: Context, (): ()| async move { ctx.step("two", || async { Ok::<_, Error>(2) }).await };
    pruned_runs(&place);
    block(async {
        let engine =
            Engine::open(&place.url()).await.unwrap().workflow("double", double).start().await.unwrap();
        let compacted = tokio::task::block_in_place(|| place.run(&["store", "compact", "--json"]).json());
        // The node goes on to write while tables are compacted.
        let grown =
            |store: &serde_json::Value| Some(store["after"].as_u64()? <= store["before"].as_u64()? + 65_536);
        assert_eq!(grown(&compacted), Some(true), "{compacted}");
        let run = engine.start("double", "after", &()).await.unwrap();
        assert_eq!(run.result::<u32>().await.unwrap(), 2);
        engine.shutdown().await;
    });
}
