//! Errors of unusable object storage, and foreign states.

use goldseam_fake_s3::{Conditions, FakeS3, Match, RequestFault};

use crate::support::Place;

/// A folder whose environment names a prefix of this server.
fn at(fake: &FakeS3) -> Place {
    Place::with_store(fake.url("orders"))
}

fn masked(err: &str, fake: &FakeS3) -> String {
    err.replace(&fake.endpoint(), "SERVER")
}

#[test]
fn errors_of_an_unusable_bucket_have_a_hint() {
    let fake = FakeS3::start().unwrap();
    let place = at(&fake);
    insta::assert_snapshot!(masked(&place.run(&["ls"]).fails(7, "GS0205"), &fake), @r#"
    error[GS0205]: no store exists at "orders" in bucket "goldseam" at SERVER
    help: start an engine, which creates it, or run goldseam store migrate with this URL
    docs: goldseam explain GS0205
    "#);
    fake.set_read_only(true);
    insta::assert_snapshot!(masked(&place.run(&["store", "migrate"]).fails(7, "GS0219"), &fake), @r#"
    error[GS0219]: these access keys may not write to "orders" in bucket "goldseam" at SERVER: 403 AccessDenied AccessDenied
    help: allow s3:GetObject, s3:PutObject and s3:DeleteObject on the prefix and s3:ListBucket on the bucket
    docs: goldseam explain GS0219
    "#);
    fake.set_read_only(false);
    fake.set_conditions(Conditions::Ignored);
    insta::assert_snapshot!(masked(&place.run(&["store", "check"]).fails(7, "GS0220"), &fake), @r#"
    error[GS0220]: the server does not enforce conditional writes: two writers created the same object, and both writes were acknowledged
    help: use a server that enforces If-None-Match and If-Match on writes: Amazon S3, Cloudflare R2, MinIO, Ceph, SeaweedFS
    docs: goldseam explain GS0220
    "#);
    fake.set_conditions(Conditions::Kept);
    fake.fail(Match::any(), RequestFault::no_bucket());
    insta::assert_snapshot!(masked(&place.run(&["start", "order"]).fails(7, "GS0218"), &fake), @r#"
    error[GS0218]: the bucket does not exist, while reading an object: 404 NoSuchBucket NoSuchBucket
    help: create it, or check bucket, endpoint and region in the URL
    docs: goldseam explain GS0218
    "#);
    fake.clear_faults();
    fake.put_raw("orders/photos/1.jpg", "not ours");
    insta::assert_snapshot!(masked(&place.run(&["store", "migrate"]).fails(7, "GS0222"), &fake), @r#"
    error[GS0222]: "orders" in bucket "goldseam" at SERVER is in use by another program: it holds "photos/1.jpg" but no goldseam.json
    help: use another prefix, as in s3://BUCKET/ANOTHER; nothing was changed here
    docs: goldseam explain GS0222
    "#);
    assert_eq!(fake.objects().len(), 1);
}

#[test]
fn store_check_reports_facts_about_the_server() {
    let fake = FakeS3::start().unwrap();
    let place = at(&fake);
    place.run(&["store", "migrate"]).ok();
    let report = place.run(&["store", "check", "--json"]).json();
    assert_eq!((&report["schema"], &report["runs"]), (&1.into(), &0.into()), "{report}");
    let text = report.to_string();
    for fact in ["conditions", "versioned", "put", "get", "list", "server_clock_ahead"] {
        assert!(text.contains(&format!("\"{fact}\"")), "{text}");
    }
    // Read-only keys are enough.
    fake.set_read_only(true);
    place.run(&["store", "check"]).ok();
    place.run(&["ls"]).ok();
}

#[test]
fn secrets_in_the_url_are_never_printed() {
    let place = Place::new();
    let keys = "access_key_id=ada&secret_access_key=s3cret&session_token=s3cret";
    for url in [
        format!("s3://bucket/x?endpoint=http://127.0.0.1:1&{keys}"),
        format!("s3://bucket/x?nonsense=1&{keys}"),
    ] {
        for command in [&["ls"][..], &["store", "check"], &["store", "migrate"], &["start", "order"]] {
            let ran = place.run(&[command, &["--store", &url]].concat());
            assert_ne!(ran.code, 0, "{command:?}");
            assert!(!format!("{}{}", ran.out, ran.err).contains("s3cret"), "{}{}", ran.out, ran.err);
        }
    }
}

#[test]
fn a_sweeper_gives_a_stalled_foreign_state_a_new_task() {
    let fake = FakeS3::start().unwrap();
    let place = at(&fake);
    let state = |task: &str| {
        format!(
            r#"{{ "status":"running", "updated_at": "2026-01-02T03:04:05Z",
            "orchestrator_task_id": "{task}", "more":1.10 }}"#
        )
    };
    let key = "orders/workflow/wf-1/state.json";
    fake.put_raw(key, state("lost"));
    fake.put_raw("orders/workflow/wf-2/state.json", r#"{"status":"running"}"#);
    place.run(&["store", "migrate"]).ok();
    fake.put_raw("orders/workflow/of two words/state.json", state("lost"));
    let own = place.run(&["sweeper", "--once", "--stale-after", "0", "--json"]).json();
    assert_eq!(
        (&own["foreign"], &fake.objects()[key]),
        (&serde_json::Value::Null, &state("lost").into()),
        "without --foreign"
    );
    let sweep = || place.run(&["sweeper", "--foreign", "--once", "--stale-after", "0", "--json"]).json();
    let report = &sweep()["foreign"];
    assert_eq!(report["unnamed"], serde_json::json!(["of two words"]), "{report}");
    assert_eq!((&report["scanned"], &report["skipped"]), (&2.into(), &1.into()), "{report}");
    assert_eq!(report["healed"], 1, "{report}");
    let tasks = &place.run(&["queue", "ls", "--json"]).json()["items"];
    let task = tasks[0]["id"].as_str().unwrap_or_else(|| panic!("{tasks}"));
    assert_eq!(tasks[0]["kind"], "workflow.orchestrate", "{tasks}");
    assert_eq!(fake.objects()[key], state(task), "only the task id has changed");
    let report = &sweep()["foreign"];
    assert_eq!((&report["healthy"], &report["healed"]), (&1.into(), &0.into()), "{report}");
}
