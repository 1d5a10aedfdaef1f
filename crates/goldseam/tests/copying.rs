//! Copies between each pair of store kinds.

use goldseam_conformance::Fixture;
use goldseam_suite::copying::faults::{Bad, every_call};

async fn memory() -> Fixture {
    Fixture::memory_on(goldseam_store_sqlite::system_clock())
}

async fn sqlite() -> Fixture {
    goldseam_store_sqlite::testing::fixture_on_real_clock().await
}

async fn postgres() -> Fixture {
    goldseam_store_postgres::testing::fixture_on_real_clock().await
}

async fn object() -> Fixture {
    goldseam_store_object::testing::fixture_on(goldseam_store_sqlite::system_clock()).await
}

async fn object_on_server() -> Fixture {
    goldseam_store_object::testing::fixture_on_servers_clock().await
}

mod memory_to_sqlite {
    goldseam_suite::copying!(super::memory, super::sqlite);
}

mod sqlite_to_sqlite {
    goldseam_suite::copying!(super::sqlite, super::sqlite);
}

mod sqlite_to_memory {
    goldseam_suite::copying!(super::sqlite, super::memory);
}

mod sqlite_to_postgres {
    goldseam_suite::copying!(super::sqlite, super::postgres);
}

mod postgres_to_sqlite {
    goldseam_suite::copying!(super::postgres, super::sqlite);
}

mod postgres_to_postgres {
    goldseam_suite::copying!(super::postgres, super::postgres);
}

mod sqlite_to_object {
    goldseam_suite::copying!(super::sqlite, super::object);
}

mod object_to_sqlite {
    goldseam_suite::copying!(super::object, super::sqlite);
}

mod object_to_postgres {
    goldseam_suite::copying!(super::object, super::postgres);
}

mod object_to_object {
    goldseam_suite::copying!(super::object, super::object);
}

mod sqlite_to_object_on_server {
    goldseam_suite::copying!(super::sqlite, super::object_on_server);
}

#[tokio::test]
async fn every_call_to_the_destination_may_fail() {
    let cases = every_call(&memory().await, memory, (Bad::To, 1, 1)).await;
    assert!(cases > 100, "{cases}");
}

#[tokio::test]
async fn every_call_to_the_source_may_fail() {
    let cases = every_call(&memory().await, memory, (Bad::From, 1, 1)).await;
    assert!(cases > 100, "{cases}");
}

#[tokio::test]
async fn calls_to_sqlite_may_fail() {
    let cases = every_call(&sqlite().await, sqlite, (Bad::To, 3, 23)).await;
    assert!(cases > 20, "{cases}");
}

#[tokio::test]
async fn calls_to_postgres_may_fail() {
    let cases = every_call(&sqlite().await, postgres, (Bad::To, 5, 29)).await;
    assert!(cases > 20, "{cases}");
}

#[tokio::test]
async fn calls_to_object_storage_may_fail() {
    let cases = every_call(&sqlite().await, object, (Bad::To, 5, 7)).await;
    assert!(cases > 20, "{cases}");
    let cases = every_call(&object().await, sqlite, (Bad::From, 3, 7)).await;
    assert!(cases > 20, "{cases}");
}
