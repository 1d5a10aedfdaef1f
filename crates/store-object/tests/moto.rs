//! Cases of the conformance suite on moto, a second implementation of conditional writes. It is slow, so only cases
//! with concurrent writers run here; all cases run on SeaweedFS.

use goldseam_conformance::Fixture;

async fn fresh() -> Fixture {
    goldseam_store_object::testing::fixture_on_moto().await
}

goldseam_conformance::conformance! { @each fresh;
    append::one_of_two_writers_wins,
    append::one_of_many_writers_wins,
    append::a_stale_append_longer_than_its_rival_is_refused_whole,
    append::an_append_past_the_end_is_refused,
    append::a_conflict_reports_the_true_end,
    append::bytes_are_kept_exactly,
    read::pages_are_complete,
    rows::put_row_compares_and_sets,
    rows::one_of_two_put_rows_wins,
    rows::updated_at_strictly_grows,
    tasks::put_task_compares_and_sets,
    tasks::one_of_two_put_tasks_wins,
    tasks::one_of_many_tasks_with_a_key_wins,
    claim::two_claimers_never_get_the_same_task,
    claim::fences_grow,
    locks::one_of_many_acquirers_wins,
    runs::both_orders_are_complete_without_duplicates,
    damage::a_gap_is_never_filled,
}
