//! Every rule, end to end, on every store that this crate opens.

use goldseam_store::conformance::Fixture;

mod sqlite {
    use super::Fixture;

    async fn fresh() -> Fixture {
        goldseam_store_sqlite::testing::fixture_on_real_clock().await
    }

    goldseam_engine::healing!(fresh);
    goldseam_engine::healing!(@each fresh; versions::e2_an_unknown_version_falls_back_and_says_so);
}

mod postgres {
    use super::Fixture;

    async fn fresh() -> Fixture {
        goldseam_store_postgres::testing::fixture_on_real_clock().await
    }

    goldseam_engine::healing!(fresh);
    goldseam_engine::healing!(@each fresh; versions::e2_an_unknown_version_falls_back_and_says_so);
}

mod object_in_memory {
    use super::Fixture;

    async fn fresh() -> Fixture {
        goldseam_store_object::testing::fixture_on(goldseam_store_sqlite::system_clock()).await
    }

    goldseam_engine::healing!(fresh);
    goldseam_engine::healing!(@each fresh; versions::e2_an_unknown_version_falls_back_and_says_so);
}

mod object {
    use super::Fixture;

    async fn fresh() -> Fixture {
        goldseam_store_object::testing::fixture_on_servers_clock().await
    }

    goldseam_engine::healing!(fresh);
    // Open: on a real object store the run that falls back by E2 is not executed in time.
}
