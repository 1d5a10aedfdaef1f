//! Every rule, end to end, on every store: real runs are damaged, found, healed, and complete.
//!
//! Like the conformance suite of the stores, [`healing!`](crate::healing!) has the only list of cases. The test file
//! of a backend provides a fresh [`Fixture`] on a real clock that can damage its data.
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

pub mod alone;
pub mod arguments;
pub mod changing;
pub mod copying;
pub mod dormant;
pub mod ending;
pub mod foreign;
pub mod harness;
pub mod hints;
pub mod logs;
pub mod remote;
pub mod retention;
pub mod seams;
pub mod timing;
pub mod unreadable;
pub mod versions;
pub mod views;
pub mod words;

use std::future::Future;
use std::time::Duration;

pub use goldseam_conformance::{Fixture, in_time};

/// Polls `probe` until it holds, for at most a minute: a control lasts four lifetimes of the lost process.
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
    assert!(tokio::time::timeout(Duration::from_secs(60), wait).await.is_ok(), "never happened: {what}");
}

/// Creates one test per case; the argument is an `async fn() -> Fixture`.
#[macro_export]
macro_rules! healing {
    ($fresh:path) => {
        $crate::healing! { @each $fresh;
            seams::a1_wait_missing_in_the_log_is_cut_off,
            seams::a1_without_a_stable_event_the_run_is_parked,
            seams::a1_at_start_up_begins_the_open_step_once,
            seams::a2_a_hidden_question_is_asked_again_and_the_old_answer_counts,
            seams::a3_run_with_all_steps_done_ends,
            seams::a4_failed_step_with_attempts_left_is_retried,
            seams::a4_failed_step_without_attempts_fails_the_run,
            seams::d2_half_a_jump_is_cut_off,
            seams::d2_is_healed_by_the_claimant,
            seams::a_seam_can_be_undone,
            seams::a_reset_runs_the_open_step_again,
            hints::o1_lost_task_is_recreated,
            hints::o1_finished_task_is_recreated,
            hints::o1_a_sleeping_run_keeps_its_time,
            hints::o1_a_healed_task_that_dies_is_healed_again,
            hints::o2_runs_of_a_dead_node_continue,
            hints::w1_due_timer_without_a_wakeup,
            hints::w1_unnoticed_signal,
            hints::w1_undelivered_end_of_a_child,
            hints::lost_row_is_rewritten,
            hints::all_hints_can_be_lost,
            hints::a_late_row_is_rewritten_without_a_branch,
            hints::a_requeue_moves_a_run_and_leaves_a_note,
            remote::monitor_gives_up_only_silent_steps,
            remote::h1_step_of_a_silent_worker_is_retried,
            remote::h1_without_attempts_left_fails_the_step,
            remote::details_reach_the_next_claim_and_the_next_attempt,
            remote::h1_a_long_step_that_beats_is_left_alone,
            remote::o3_lost_task_is_recreated_for_the_same_attempt,
            remote::o3_the_result_of_a_finished_task_is_taken,
            remote::w1_unnoticed_result,
            logs::k1_a_gap_parks_the_run_and_no_other,
            logs::k1_an_event_that_cannot_be_read_parks_the_run,
            logs::k1_is_found_by_the_claimant,
            logs::k1_of_an_ended_run_is_only_reported,
            unreadable::unreadable_hints_are_rebuilt_and_hide_no_other,
            unreadable::a_signal_reaches_a_run_with_an_unreadable_row,
            unreadable::c1_dry_run_shows_the_rows_that_a_fix_rewrites,
            unreadable::c1_deep_doctor_finds_wrong_row_of_inactive_run,
            unreadable::walk_finds_wrong_row_of_inactive_run,
            unreadable::k1_commands_to_a_damaged_run_are_refused,
            unreadable::k2_an_event_of_a_newer_release_harms_nothing,
            unreadable::a_damaged_log_is_shown_with_its_damage,
            unreadable::engines_sweep_past_unreadable_records,
            dormant::regular_sweep_finds_what_is_awake_among_dormant_runs,
            dormant::shared_walk_reaches_a_lost_task_once,
            dormant::doctor_finds_everything_among_dormant_runs,
            logs::p1_a_run_that_always_crashes_is_ended,
            logs::p1_parks_by_policy,
            logs::p1_client_uses_the_policy_of_the_node,
            logs::p1_waiting_suspect_is_reported,
            logs::o2_a_run_that_only_waits_is_never_charged,
            logs::n1_run_without_a_node_waits_and_is_reported,
            ending::cancel_ends_a_run_that_needs_no_worker,
            ending::cancel_ends_a_parked_run,
            ending::terminate_ends_runs_that_cancel_cannot,
            ending::terminate_fences_the_owner,
            ending::terminate_reaches_parents_and_children,
            ending::terminate_ends_a_damaged_run,
            ending::a_terminated_damaged_run_stays_ended_without_its_row,
            ending::a_jump_that_waits_is_shown_and_withdrawn,
            ending::a_pending_cancel_is_not_forgotten,
            ending::no_stable_event_is_an_error,
            timing::a_run_stops_at_its_deadline_wherever_it_is,
            timing::a_deadline_that_no_node_saw_is_kept,
            timing::an_unstarted_run_ends_without_its_code,
            timing::paused_and_parked_runs_time_out,
            timing::stopped_runs_time_out_without_their_code,
            timing::an_engine_without_the_code_ends_runs_at_their_deadline,
            timing::a_retry_of_a_timed_out_run_has_no_deadline,
            timing::o1_keeps_the_deadline_and_the_delayed_start,
            timing::a_delayed_run_begins_at_its_time,
            timing::runs_of_a_lane_take_turns,
            timing::why_names_the_holder_of_a_lane,
            timing::defaults_apply_to_steps_that_state_none,
            timing::senseless_times_are_refused,
            alone::a_healthy_store_is_left_alone,
            alone::run_that_only_looks_stalled_is_left_alone,
            alone::a_dry_run_changes_nothing,
            alone::a_finding_must_have_held,
            alone::mail_does_not_hide_a_stall,
            alone::many_sweepers_heal_each_run_once,
            alone::a_rule_that_does_not_apply_is_refused,
            alone::recovering_a_healthy_or_ended_run_changes_nothing,
            alone::every_recovery_is_in_the_feed,
            alone::resume_recovers_first_and_reports_it,
            alone::three_deploys_cost_a_long_step_nothing,
            alone::failing_store_leaves_each_run_healed_or_untouched,
            alone::the_doctor_finds_stale_locks_and_claims,
            alone::every_heal_of_a_task_is_in_the_feed,
            alone::the_feed_pages_over_runs_and_records,
            arguments::control_characters_are_refused_on_every_store,
            arguments::printed_texts_of_any_language_are_kept,
            changing::a_preflight_of_unchanged_code_is_safe_and_writes_nothing,
            changing::preflight_predicts_what_parks,
            changing::preflight_reports_unknown_if_it_cannot_replay,
            changing::a_run_that_is_undone_needs_every_compensation,
            changing::a_change_reaches_new_runs_and_leaves_older_ones,
            changing::a_migrated_run_goes_on_and_a_wrong_one_can_go_back,
            changing::impossible_migration_is_refused,
            changing::a_paused_run_is_migrated_and_stays_paused,
            foreign::a_foreign_state_without_its_task_gets_a_new_one,
            foreign::a_foreign_state_is_judged_by_its_task,
            foreign::foreign_state_with_an_expired_lease_gets_a_new_task,
            foreign::irrelevant_foreign_states_are_skipped,
            foreign::foreign_tasks_are_looked_up_in_their_own_queue,
            foreign::engines_leave_foreign_states_alone_unless_asked,
            foreign::a_lapsed_foreign_task_is_cancelled_with_an_audit_entry,
            foreign::a_settled_foreign_state_is_read_again_once_it_changes,
            foreign::a_foreign_state_must_have_been_stalled_for_a_while,
            foreign::many_sweepers_give_a_foreign_state_one_task,
            foreign::an_engine_heals_foreign_states,
            foreign::failing_store_leaves_foreign_state_to_the_next_sweep,
            retention::a_pruned_run_leaves_a_tombstone_that_answers_for_it,
            retention::a_tombstone_is_left_alone_and_found_again,
            retention::runs_related_to_unended_runs_are_never_pruned,
            retention::a_limit_counts_what_can_be_pruned,
            retention::run_that_continues_meanwhile_is_not_pruned,
            retention::next_prune_finishes_an_interrupted_one,
            retention::unreadable_archive_removes_nothing,
            retention::a_pass_prunes_what_no_policy_keeps,
            retention::one_node_makes_a_pass_and_a_failed_one_is_repeated,
            versions::old_node_beside_a_new_one_parks_no_run,
            versions::n1_names_a_queue_that_no_live_node_takes,
            versions::a_task_without_a_version_is_handed_back_unharmed,
            versions::o1_task_of_another_version_is_recreated,
            versions::start_uses_newest_live_version_or_leaves_it_undecided,
            versions::a_rolling_deploy_moves_no_run_to_another_version,
            versions::e2_unknown_version_falls_back_to_the_initial_one,
            versions::e2_version_without_a_node_is_parked,
            versions::e2_acts_once_the_version_was_missing_for_the_grace,
            versions::e2_grace_counts_from_the_first_sight_of_a_sweeper,
            versions::the_first_claim_brings_the_plan,
            views::views_show_a_step_run_beat_and_fail,
            words::o1_o2_and_p1_have_the_same_words_on_every_path,
        }
    };
    (@each $fresh:path; $($topic:ident::$case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fixture = $fresh().await;
                $crate::in_time($crate::$topic::$case(&fixture)).await;
                $crate::views::show_what_is_so(&fixture).await;
            }
        )+
    };
}
