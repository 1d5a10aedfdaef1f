//! The contract of a [`Store`], as cases that every backend runs.
//!
//! Invariant: [`conformance!`](crate::conformance!) has the only list of cases. The test file of a backend provides a
//! fresh [`Fixture`] and nothing else; a bug found in one backend becomes a case for all.
//!
//! ```ignore
//! async fn fresh() -> Fixture {
//!     Fixture::memory()
//! }
//! goldseam_conformance::conformance!(fresh);
//! ```
#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

pub mod append;
pub mod audit;
pub mod claim;
pub mod damage;
pub mod deadline;
pub mod differential;
pub mod feed;
pub mod foreign;
pub mod lanes;
pub mod locks;
pub mod long_search;
pub mod make;
pub mod nodes;
mod random_runs;
pub mod read;
pub mod rowless;
pub mod rows;
pub mod runs;
pub mod search;
pub mod tasks;
pub mod trim;
pub mod unproven;
pub mod unreadable;
pub mod views;
pub mod watch;
pub mod with_append;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use goldseam_store::api::Store;
use goldseam_store::clock::{ClockFn, ManualClock};
use goldseam_store::memory::MemoryStore;

pub use damage::Damage;
pub use views::Views;

/// What a store promises beyond the trait; a case that needs more is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether the row and the tasks of an append become visible at the same moment as its events.
    pub atomic_rows: bool,
    /// Whether the fixture's clock is the store's clock.
    pub manual_clock: bool,
    /// Whether a node holds a lock that the system drops when its process dies.
    pub pulse: bool,
    /// Whether a page of a list ends early once it has cost enough.
    pub bounded_pages: bool,
}

impl Default for Capabilities {
    /// All capabilities.
    fn default() -> Self {
        Self { atomic_rows: true, manual_clock: true, pulse: true, bounded_pages: true }
    }
}

/// An empty store and its tools.
#[derive(Debug)]
pub struct Fixture {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The clock of the store.
    pub clock: ManualClock,
    /// The capabilities of the store.
    pub capabilities: Capabilities,
    /// A way to damage its data, if the store has one.
    pub damage: Option<Arc<dyn Damage>>,
    /// A way to query its views; none if it has none.
    pub views: Option<Arc<dyn Views>>,
    /// Dropped after the store, for example a temporary directory or a container.
    kept: Option<Box<dyn Any + Send + Sync>>,
}

impl Fixture {
    /// Creates a fixture with all capabilities.
    pub fn new(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        Self { store, clock, capabilities: Capabilities::default(), damage: None, views: None, kept: None }
    }

    /// Creates a fixture of a memory store with a manual clock.
    pub fn memory() -> Self {
        let clock = ManualClock::default();
        let store = Arc::new(MemoryStore::new(clock.clock()));
        let capabilities = Capabilities { bounded_pages: false, ..Capabilities::default() };
        Self::new(Arc::clone(&store) as Arc<dyn Store>, clock).with(capabilities).damaged_by(store)
    }

    /// Creates a fixture of a memory store with a clock that the cases do not move.
    pub fn memory_on(clock: ClockFn) -> Self {
        let store = Arc::new(MemoryStore::new(clock));
        let capabilities =
            Capabilities { manual_clock: false, bounded_pages: false, ..Capabilities::default() };
        let fixture = Self::new(Arc::clone(&store) as Arc<dyn Store>, ManualClock::default());
        fixture.with(capabilities).damaged_by(store)
    }

    /// Sets the capabilities.
    #[must_use]
    pub fn with(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Adds a way to damage its data.
    #[must_use]
    pub fn damaged_by(mut self, damage: Arc<dyn Damage>) -> Self {
        self.damage = Some(damage);
        self
    }

    /// Adds a way to query its views.
    #[must_use]
    pub fn viewed_by(mut self, views: Arc<dyn Views>) -> Self {
        self.views = Some(views);
        self
    }

    /// Keeps a value alive for as long as the store.
    #[must_use]
    pub fn keeping(mut self, kept: impl Any + Send + Sync) -> Self {
        self.kept = Some(Box::new(kept));
        self
    }
}

/// A case that takes longer than this has failed.
const CASE_MAX: Duration = Duration::from_secs(120);

/// Runs a case, which must end in time.
pub async fn in_time(case: impl Future<Output = ()>) {
    assert!(tokio::time::timeout(CASE_MAX, case).await.is_ok(), "the case did not end within {CASE_MAX:?}");
}

/// Makes one test of each case; the argument is an `async fn() -> Fixture`.
#[macro_export]
macro_rules! conformance {
    ($fresh:path) => {
        $crate::conformance! { @each $fresh;
            append::one_of_two_writers_wins,
            append::one_of_many_writers_wins,
            append::a_stale_append_longer_than_its_rival_is_refused_whole,
            append::an_append_past_the_end_is_refused,
            append::a_new_run_begins_after_zero,
            append::an_append_without_events_is_refused,
            append::a_conflict_reports_the_true_end,
            append::a_refused_append_changes_neither_row_nor_tasks,
            append::a_batch_is_visible_whole_or_not_at_all,
            append::runs_do_not_disturb_each_other,
            append::bytes_are_kept_exactly,
            read::pages_are_complete,
            read::a_short_page_is_the_last_one,
            read::an_unknown_run_is_empty,
            read::past_the_end_is_empty,
            trim::a_trimmed_log_begins_at_the_given_event,
            trim::trimming_again_changes_nothing,
            trim::nothing_is_trimmed_before_a_missing_event,
            trim::a_trimmed_log_continues_after_its_end,
            trim::a_trimmed_log_cannot_be_started_again,
            trim::a_long_trimmed_log_reads_at_once,
            trim::a_trim_leaves_row_tasks_and_other_runs_alone,
            trim::a_trimmed_log_without_a_row_is_found,
            rows::a_row_not_given_is_absent,
            rows::a_row_not_given_is_left_late,
            rows::a_row_is_kept_exactly,
            rows::updated_at_strictly_grows,
            rows::put_row_compares_and_sets,
            rows::a_row_with_any_text_is_written_again,
            rows::one_of_two_put_rows_wins,
            rows::put_row_restores_a_lost_row,
            rows::put_row_swaps_the_task,
            rows::a_run_without_a_log_gets_no_row,
            rowless::a_run_whose_row_is_lost_is_found,
            rowless::rowless_runs_are_found_in_order_of_id,
            rowless::pages_of_rowless_runs_are_complete,
            rowless::no_run_is_rowless_if_every_run_has_a_row,
            rowless::a_restored_row_takes_its_run_out,
            with_append::an_advance_task_becomes_the_runs_own,
            with_append::an_ordinary_task_does_not_become_the_runs_own,
            with_append::a_row_keeps_its_task_over_appends,
            with_append::create_is_ignored_if_the_id_exists,
            with_append::create_is_ignored_if_a_live_task_has_the_key,
            with_append::rest_makes_a_claimed_task_ready,
            with_append::rest_moves_a_ready_task,
            with_append::rest_leaves_an_ended_task,
            with_append::rest_and_remove_of_nothing_are_harmless,
            with_append::wake_brings_a_ready_task_forward_only,
            with_append::wake_pokes_a_claimed_task_once,
            with_append::wake_without_a_task_is_harmless,
            with_append::wake_leaves_other_tasks_alone,
            with_append::cancel_ends_a_live_task_only,
            with_append::remove_takes_the_task_away,
            with_append::changes_apply_in_order,
            tasks::put_task_compares_and_sets,
            tasks::one_of_two_put_tasks_wins,
            tasks::a_task_is_kept_exactly,
            tasks::a_key_matches_only_live_tasks,
            tasks::one_of_many_tasks_with_a_key_wins,
            tasks::a_revived_task_loses_to_a_live_one_with_its_key,
            tasks::each_filter_selects,
            tasks::filters_combine,
            tasks::silent_claims_are_found,
            tasks::claims_of_others_are_found,
            tasks::task_pages_are_complete_and_in_order,
            claim::two_claimers_never_get_the_same_task,
            claim::priority_then_run_at,
            claim::not_before_run_at,
            claim::a_dormant_task_is_never_due,
            claim::next_due_is_the_earliest_left,
            claim::next_due_looks_at_the_claims_own_tasks,
            claim::only_ready_tasks_are_claimed,
            claim::a_claim_is_recorded,
            claim::fences_grow,
            claim::kinds_are_filtered,
            claim::pools_are_separate,
            claim::the_limit_is_kept,
            claim::a_stale_completion_loses,
            lanes::a_claim_takes_one_of_a_lane,
            lanes::a_lane_has_at_most_one_claimed_task,
            lanes::a_lane_is_free_again_once_its_task_ends,
            lanes::the_first_of_a_lane_goes_first,
            lanes::a_lane_is_one_over_all_queues,
            lanes::a_claimed_task_is_not_put_into_a_busy_lane,
            lanes::create_is_ignored_if_the_lane_is_busy,
            lanes::a_blocked_task_is_not_next_due,
            locks::put_lock_compares_and_sets,
            locks::one_of_many_acquirers_wins,
            locks::a_lock_is_kept_exactly,
            locks::stale_locks_are_found_at_their_expiry,
            locks::locks_of_other_nodes_are_found,
            locks::lock_pages_are_complete_and_in_order,
            nodes::beats_are_counted,
            nodes::a_beat_updates_the_record,
            nodes::a_beat_returns_the_stores_clock,
            nodes::a_beating_node_holds_its_lock,
            nodes::an_ended_node_releases_its_lock,
            nodes::a_final_report_takes_no_lock,
            nodes::nodes_are_listed_until_forgotten,
            nodes::a_forgotten_node_may_join_again,
            runs::each_run_filter_selects,
            runs::run_filters_combine,
            search::conditions_select_what_they_define,
            search::attributes_follow_the_row,
            search::runs_are_counted_and_grouped,
            search::statuses_are_counted,
            long_search::long_lists_are_what_conditions_define,
            runs::both_orders_are_complete_without_duplicates,
            runs::runs_of_the_same_moment_are_all_listed,
            runs::the_last_page_has_no_next,
            runs::a_list_survives_changes_between_pages,
            runs::recovered_runs_come_latest_first,
            runs::recovered_runs_are_filtered_too,
            runs::pages_of_recovered_runs_are_complete,
            runs::a_foreign_cursor_is_refused,
            runs::a_cursor_of_another_order_is_refused,
            runs::runs_without_a_row_are_not_listed,
            damage::a_lost_row_leaves_its_log,
            damage::a_lost_row_leaves_the_run_without_a_task,
            damage::a_lost_task_is_gone,
            damage::a_gap_reads_as_a_gap,
            damage::a_log_continues_after_a_gap,
            damage::a_gap_is_never_filled,
            damage::a_lost_last_event_is_not_a_gap,
            damage::a_changed_event_reads_as_it_is,
            damage::all_hints_are_lost_and_truths_stay,
            unreadable::an_unreadable_row_counts_as_lost,
            unreadable::an_unreadable_row_is_reported_in_its_list,
            unreadable::an_append_replaces_an_unreadable_row,
            unreadable::put_row_replaces_an_unreadable_row,
            unreadable::pages_continue_after_unreadable_rows,
            unreadable::an_unreadable_task_is_omitted_and_hides_no_other,
            unreadable::pages_of_tasks_continue_after_unreadable_ones,
            unreadable::an_unreadable_task_is_never_claimed_and_blocks_none,
            unreadable::a_new_advance_task_supersedes_an_unreadable_one,
            unreadable::an_unreadable_lock_counts_as_held,
            unreadable::an_unreadable_node_counts_as_up,
            unreadable::readable_records_are_not_reported,
            audit::a_heal_is_recorded_with_its_write,
            audit::only_a_heal_that_was_written_is_recorded,
            audit::concurrent_heals_leave_one_entry,
            audit::a_created_task_can_be_a_heal,
            audit::the_audit_is_listed_in_pages,
            audit::the_audit_is_trimmed_by_age,
            unproven::every_active_run_is_returned_or_counted_once,
            unproven::a_bound_on_unproven_runs_ends_a_page_early,
            unproven::runs_that_are_proven_to_be_well_are_left_out,
            unproven::a_due_run_is_unproven_if_no_live_node_takes_its_queue,
            unproven::a_run_past_its_deadline_is_unproven_without_its_code,
            unproven::stopped_runs_past_their_deadline_are_found,
            unproven::an_unusual_row_is_unproven,
            unproven::a_run_without_a_task_that_wakes_it_is_unproven,
            unproven::a_late_row_is_unproven,
            unproven::a_parent_of_an_ended_child_is_unproven,
            unproven::a_run_whose_remote_task_is_lost_or_silent_is_unproven,
            unproven::a_run_with_an_unreadable_row_or_task_is_unproven,
            feed::the_feed_has_every_event_once,
            feed::the_feed_continues_from_any_place,
            feed::a_reader_of_the_feed_misses_no_racing_append,
            feed::runs_that_grew_are_reported,
            feed::a_foreign_place_is_refused,
            feed::a_place_after_the_end_is_refused,
            foreign::foreign_states_are_listed_in_order_of_id,
            foreign::pages_of_foreign_states_are_complete,
            foreign::a_foreign_state_is_kept_exactly,
            foreign::a_swap_compares_and_sets,
            foreign::a_lost_swap_changes_nothing,
            foreign::one_of_many_swaps_wins,
            foreign::a_swap_never_creates_a_state,
            foreign::runs_and_foreign_states_are_listed_separately,
            views::golden_histories_are_shown_as_derived,
            views::steps_of_a_left_branch_are_not_shown,
            views::a_remote_step_runs_while_a_worker_has_its_task,
            views::a_local_step_is_alive_by_its_own_or_its_nodes_heartbeats,
            views::jobs_match_their_records,
            views::damage_is_shown_and_stops_no_view,
            watch::zero_returns_at_once,
            watch::an_append_wakes_the_watcher,
            watch::a_task_wakes_the_watcher,
            watch::a_change_before_the_wait_is_not_missed,
            watch::the_clock_never_goes_back,
            watch::the_clock_follows_the_fixture,
        }
        $crate::conformance! { @random_runs $fresh;
            random_runs_from_0_are_shown_as_derived = 0,
            random_runs_from_5_are_shown_as_derived = 5,
        }
        $crate::conformance! { @seeds $fresh;
            the_seeds_from_0_answer_like_the_memory_store = 0,
            the_seeds_from_5_answer_like_the_memory_store = 5,
            the_seeds_from_10_answer_like_the_memory_store = 10,
            the_seeds_from_15_answer_like_the_memory_store = 15,
        }
    };
    (@random_runs $fresh:path; $($case:ident = $first:literal),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fixture = $fresh().await;
                for seed in $first..$first + 5 {
                    let life = $crate::views::random_runs_are_shown_as_derived(&fixture, seed);
                    $crate::in_time(life).await;
                }
            }
        )+
    };
    (@seeds $fresh:path; $($case:ident = $first:literal),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                for seed in $first..$first + 5 {
                    let fixture = $fresh().await;
                    let walk = $crate::differential::it_answers_like_the_memory_store(&fixture, seed);
                    $crate::in_time(walk).await;
                }
            }
        )+
    };
    (@each $fresh:path; $($topic:ident::$case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fixture = $fresh().await;
                $crate::in_time($crate::$topic::$case(&fixture)).await;
            }
        )+
    };
}
