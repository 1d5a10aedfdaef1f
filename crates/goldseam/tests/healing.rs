//! Every rule, end to end, on each kind of store.

use goldseam_conformance::Fixture;

mod sqlite {
    use super::Fixture;

    async fn fresh() -> Fixture {
        goldseam_store_sqlite::testing::fixture_on_real_clock().await
    }

    goldseam_suite::healing!(fresh);
}

mod postgres {
    use super::Fixture;

    async fn fresh() -> Fixture {
        goldseam_store_postgres::testing::fixture_on_real_clock().await
    }

    goldseam_suite::healing!(fresh);
}

mod object_in_memory {
    use super::Fixture;

    async fn fresh() -> Fixture {
        goldseam_store_object::testing::fixture_on(goldseam_store_sqlite::system_clock()).await
    }

    goldseam_suite::healing!(fresh);
}

mod object {
    use super::Fixture;

    async fn fresh() -> Fixture {
        goldseam_store_object::testing::fixture_on_servers_clock().await
    }

    goldseam_suite::healing!(fresh);
}
