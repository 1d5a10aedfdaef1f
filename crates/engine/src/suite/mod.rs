//! Every rule, end to end, on every store: real runs are damaged, found, healed, and finish.
//!
//! Like the conformance suite of the stores, [`healing!`](crate::healing!) owns the only list of
//! cases. A backend's test file gives a fresh [`Fixture`] on a real clock that can damage its data.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

pub mod alone;
pub mod copying;
pub mod foreign;
pub mod hints;
pub mod logs;
pub mod remote;
pub mod retention;
pub mod seams;
pub mod views;
pub mod ward;

use std::future::Future;
use std::time::Duration;

pub use goldseam_store::conformance::{Fixture, in_time};

/// Polls `probe` until it holds, for at most 20 seconds.
pub async fn eventually<F, Fut>(what: &str, mut probe: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let wait = async {
        while !probe().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "never happened: {what}");
}

/// Makes one test of each case; the argument is an `async fn() -> Fixture`.
#[macro_export]
macro_rules! healing {
    ($fresh:path) => {
        $crate::healing! { @each $fresh;
            seams::a1_a_wait_that_the_log_does_not_know_is_cut_off,
            seams::a1_without_a_stable_event_the_run_is_parked,
            seams::a1_at_start_up_begins_the_open_step_once,
            seams::a2_a_hidden_question_is_asked_again_and_the_old_answer_counts,
            seams::a3_all_declared_steps_done_is_brought_to_its_end,
            seams::a4_a_failed_step_with_tries_left_is_tried_again,
            seams::a4_a_failed_step_without_tries_surfaces,
            seams::d2_half_a_jump_is_cut_off,
            seams::d2_is_mended_by_whoever_claims_the_run,
            seams::e2_an_unknown_version_falls_back_and_says_so,
            seams::e2_a_version_that_nobody_has_is_parked,
            seams::a_seam_can_be_undone,
            seams::a_reset_runs_the_open_step_again,
            hints::o1_a_lost_task_is_made_anew,
            hints::o1_a_finished_task_is_made_anew,
            hints::o1_a_sleeping_run_keeps_its_time,
            hints::o1_a_healed_task_that_dies_is_healed_again,
            hints::o2_what_a_dead_node_had_goes_on,
            hints::w1_a_timer_that_nobody_wakes,
            hints::w1_a_signal_that_nobody_noticed,
            hints::w1_a_child_that_ended_unheard,
            hints::a_lost_row_is_written_anew,
            hints::everything_that_is_a_hint_can_be_lost,
            hints::a_late_row_is_rewritten_without_a_branch,
            hints::a_requeue_moves_a_run_and_leaves_a_note,
            remote::the_monitor_gives_up_silent_steps_and_no_others,
            remote::h1_a_silent_worker_is_deprived_and_the_step_tried_again,
            remote::h1_without_tries_left_surfaces,
            remote::details_reach_the_next_claim_and_the_next_attempt,
            remote::h1_a_long_step_that_beats_is_left_alone,
            remote::o3_a_lost_task_is_made_again_for_the_same_attempt,
            remote::o3_the_result_of_a_finished_task_is_taken,
            remote::w1_a_result_that_nobody_noticed,
            logs::k1_a_gap_parks_the_run_and_no_other,
            logs::k1_an_event_that_cannot_be_read_parks_the_run,
            logs::k1_is_found_by_whoever_claims_the_run,
            logs::k1_a_finished_run_is_told_and_left_as_it_is,
            logs::p1_a_run_that_always_crashes_is_ended,
            logs::p1_parks_by_policy,
            logs::n1_a_run_that_nobody_has_waits_and_says_so,
            alone::a_healthy_store_is_left_alone,
            alone::what_only_looks_stalled_is_left_alone,
            alone::a_dry_run_changes_nothing,
            alone::a_finding_must_have_held,
            alone::mail_does_not_hide_a_stall,
            alone::many_sweepers_heal_each_run_once,
            alone::a_rule_that_does_not_apply_is_refused,
            alone::recovering_what_is_well_or_over_changes_nothing,
            alone::every_recovery_is_in_the_feed,
            alone::a_resume_recovers_first_and_says_so,
            alone::three_deploys_cost_a_long_step_nothing,
            alone::a_store_that_fails_half_way_leaves_each_run_healed_or_untouched,
            alone::the_doctor_finds_stale_locks_and_claims,
            foreign::a_foreign_state_without_its_task_gets_a_new_one,
            foreign::a_foreign_state_is_judged_by_its_task,
            foreign::a_foreign_state_whose_tasks_lease_is_over_gets_a_new_one,
            foreign::foreign_states_that_are_not_for_us_are_skipped,
            foreign::foreign_tasks_are_looked_up_where_their_owner_says,
            foreign::engines_leave_foreign_states_alone_unless_asked,
            foreign::a_lapsed_foreign_task_is_cancelled_with_an_audit_entry,
            foreign::a_settled_foreign_state_is_read_again_once_it_changes,
            foreign::a_foreign_state_must_have_been_stalled_for_a_while,
            foreign::many_sweepers_give_a_foreign_state_one_task,
            foreign::an_engine_heals_foreign_states,
            foreign::a_store_that_fails_half_way_leaves_a_foreign_state_to_the_next_sweep,
            retention::a_pruned_run_leaves_a_tombstone_that_answers_for_it,
            retention::a_tombstone_is_left_alone_and_found_again,
            retention::what_still_moves_is_never_pruned,
            retention::a_limit_counts_what_can_be_pruned,
            retention::a_run_that_goes_on_meanwhile_stays_whole,
            retention::a_prune_that_dies_anywhere_is_ended_by_the_next_one,
            retention::an_archive_that_does_not_read_back_costs_nothing,
            views::a_step_is_seen_to_run_beat_and_fail,
        }
    };
    (@each $fresh:path; $($topic:ident::$case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fixture = $fresh().await;
                $crate::suite::in_time($crate::suite::$topic::$case(&fixture)).await;
                $crate::suite::views::show_what_is_so(&fixture).await;
            }
        )+
    };
}
