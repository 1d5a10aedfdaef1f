//! Servers that enforce conditional writes, and prefixes that can become a store.

use std::io::{Read, Write};
use std::net::TcpStream;

use goldseam_store::check::{Fact, Migrated};
use goldseam_store_object::url::parse;
use goldseam_store_object::{check, migrate};
use goldseam_testbed::s3::{READER, TestBucket};
use goldseam_testbed::{moto, seaweedfs};

use crate::support::{keys, prefix, put};

fn fact(facts: &[(&'static str, Fact)], name: &str) -> String {
    facts.iter().find(|(known, _)| *known == name).map(|(_, fact)| fact.to_string()).unwrap_or_default()
}

async fn creates_one_sound_store(bucket: &TestBucket) {
    let prefix = prefix();
    let options = parse(&bucket.url(&prefix)).unwrap();
    // A check of an empty prefix leaves it empty.
    let report = check(options.clone()).await.unwrap();
    assert_eq!((report.schema, report.runs, report.is_sound()), (0, 0, true), "{report:?}");
    assert!(keys(bucket, &prefix).await.is_empty());
    assert_eq!(migrate(options.clone()).await.unwrap(), Migrated { from: 0, to: 1 });
    assert_eq!(migrate(options.clone()).await.unwrap(), Migrated { from: 1, to: 1 });
    assert_eq!(keys(bucket, &prefix).await, ["goldseam.json"]);
    let report = check(options).await.unwrap();
    assert_eq!((report.schema, report.schema_latest), (1, 1));
    assert!(report.is_sound(), "{report:?}");
    assert!(fact(&report.facts, "conditions").starts_with("enforced in "), "{report:?}");
    assert_eq!(fact(&report.facts, "versioned"), "no", "{report:?}");
    assert_eq!(fact(&report.facts, "listed"), "at once", "{report:?}");
    assert_eq!(fact(&report.facts, "server_clock_ahead"), "0 ms", "{report:?}");
    assert_eq!(keys(bucket, &prefix).await, ["goldseam.json"]);
}

#[tokio::test]
async fn seaweedfs_is_usable() {
    creates_one_sound_store(seaweedfs::shared().unwrap()).await;
}

#[tokio::test]
async fn moto_is_usable() {
    creates_one_sound_store(moto::shared().unwrap()).await;
}

#[tokio::test]
async fn a_prefix_with_foreign_states_may_become_a_store() {
    let bucket = seaweedfs::shared().unwrap();
    let prefix = prefix();
    for id in ["a", "b.2"] {
        put(bucket, &format!("{prefix}/workflow/{id}/state.json"), "{}").await;
    }
    let options = parse(&bucket.url(&prefix)).unwrap();
    migrate(options.clone()).await.unwrap();
    let report = check(options).await.unwrap();
    assert_eq!((report.runs, fact(&report.facts, "foreign_states").as_str()), (0, "2"), "{report:?}");
    assert!(report.is_sound(), "{report:?}");
}

#[tokio::test]
async fn many_processes_may_create_a_store_at_once() {
    let bucket = seaweedfs::shared().unwrap();
    let prefix = prefix();
    let options = parse(&bucket.url(&prefix)).unwrap();
    let opened = futures_util::future::join_all((0..4).map(|_| migrate(options.clone()))).await;
    for opened in opened {
        opened.unwrap();
    }
    assert_eq!(keys(bucket, &prefix).await, ["goldseam.json"]);
}

#[tokio::test]
async fn read_only_keys_are_enough_for_a_check() {
    let bucket = seaweedfs::shared().unwrap();
    let prefix = prefix();
    migrate(parse(&bucket.url(&prefix)).unwrap()).await.unwrap();
    let report = check(parse(&bucket.accessed_by(READER).url(&prefix)).unwrap()).await.unwrap();
    assert_eq!(fact(&report.facts, "conditions"), "not tested: these access keys may not write");
    assert_eq!((report.schema, report.is_sound()), (1, true));
}

#[tokio::test]
async fn a_versioned_bucket_is_usable() {
    let bucket = moto::fresh(&format!("versions-{}", std::process::id())).unwrap();
    keep_versions(&bucket);
    let options = parse(&bucket.url("")).unwrap();
    assert_eq!(migrate(options.clone()).await.unwrap(), Migrated { from: 0, to: 1 });
    assert_eq!(migrate(options.clone()).await.unwrap(), Migrated { from: 1, to: 1 });
    let report = check(options).await.unwrap();
    assert_eq!((fact(&report.facts, "versioned").as_str(), report.is_sound()), ("yes", true), "{report:?}");
}

/// Enables versioning; moto needs no signature.
fn keep_versions(bucket: &TestBucket) {
    let host = bucket.endpoint.strip_prefix("http://").unwrap();
    let body = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(
        stream,
        "PUT /{}?versioning HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}",
        bucket.name
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
