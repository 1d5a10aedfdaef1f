//! Models of the protocols: every interleaving of a few actors, faults and crashes, up to a scope. Only the store, the
//! network and the processes are modelled; decisions, records and states come from the real `decide`, `seal` and
//! `derive`. Each model has broken twins that it must catch.
//!
//! | module | holds |
//! |---|---|
//! | [`ownership`] | claims, takeovers and fences |
//! | [`mail`] | signals and waits |
//! | [`saga`] | compensation |
//! | [`object`] | compare-and-set on objects |
//! | [`decisions`], [`cluster`] | logs and memoized decisions; actors that append to one log |
//! | [`check`] | the search of a model |

mod check;
mod cluster;
mod decisions;
mod mail;
mod object;
mod ownership;
mod saga;

use check::{Searched, breaks, holds, stopwatch};
use mail::{Bug as MailBug, MailModel};
use object::{Bug as BucketBug, ObjectModel};
use ownership::{OwnershipModel, Retry};
use saga::{Bug as SagaBug, SagaModel};

fn small(searched: Searched, at_least: usize) {
    assert!(searched.states > at_least, "{searched:?}");
}

#[test]
fn no_interleaving_breaks_ownership() {
    small(holds(OwnershipModel::new(ownership::Scope::SMALL, Retry::Fenced), 1), 20_000);
}

#[test]
fn no_interleaving_loses_or_repeats_a_signal() {
    small(holds(MailModel::new(mail::Scope::SMALL, MailBug::None), 1), 20_000);
}

#[test]
fn no_interleaving_leaves_a_step_half_undone() {
    small(holds(SagaModel::new(saga::Scope::SMALL, SagaBug::None), 1), 5_000);
}

#[test]
fn lost_late_or_repeated_requests_break_no_run_on_objects() {
    small(holds(ObjectModel::new(object::Scope::SMALL, BucketBug::None), 1), 5_000);
}

#[test]
fn catches_a_retry_without_the_fence() {
    breaks(OwnershipModel::new(ownership::Scope::SMALL, Retry::Unfenced), "one owner's appends per epoch");
}

#[test]
fn catches_resting_on_a_stale_view() {
    breaks(
        MailModel::new(mail::Scope::SMALL, MailBug::RestsOnAStaleView),
        "a run with wanted mail is not dormant",
    );
}

#[test]
fn catches_forgotten_signal_ids() {
    breaks(MailModel::new(mail::Scope::SMALL, MailBug::ForgetsSignalIds), "a signal is in the log once");
}

#[test]
fn catches_mail_dropped_by_continue_as_new() {
    let twin = MailModel::new(mail::Scope::SMALL, MailBug::DropsMail);
    breaks(twin, "unconsumed mail is kept");
}

#[test]
fn catches_compensation_that_restarts() {
    breaks(SagaModel::new(saga::Scope::SMALL, SagaBug::RestartsCompensation), "a step is compensated once");
}

#[test]
fn catches_skipped_compensations() {
    breaks(
        SagaModel::new(saga::Scope::SMALL, SagaBug::SkipsStartedCompensations),
        "no compensation is missing at the end",
    );
}

#[test]
fn catches_a_cancel_that_ends_compensation_early() {
    breaks(
        SagaModel::new(saga::Scope::SMALL, SagaBug::CancelEndsAtOnce),
        "no compensation is missing at the end",
    );
}

#[test]
fn catches_a_writer_that_mistakes_its_own_object() {
    let twin = ObjectModel::new(object::Scope::SMALL, BucketBug::MistakesItsOwnObject);
    breaks(twin, "a signal is in the log once");
}

#[test]
fn catches_blind_writes() {
    breaks(ObjectModel::new(object::Scope::SMALL, BucketBug::WritesBlindly), "acknowledged writes stay");
}

#[test]
fn catches_an_owner_that_trusts_the_row() {
    let twin = ObjectModel::new(object::Scope::SMALL, BucketBug::TrustsTheRow);
    breaks(twin, "no owner repeats a completed step");
}

#[test]
fn catches_a_marker_that_is_removed_first() {
    let twin = ObjectModel::new(object::Scope::SMALL, BucketBug::UnmarksFirst);
    breaks(twin, "a run that must be found has a marker");
}

#[test]
fn catches_one_marker_for_all_lives() {
    let twin = ObjectModel::new(object::Scope::LARGE[1], BucketBug::OneMarkerForAllLives);
    breaks(twin, "a run that must be found has a marker");
}

#[test]
fn catches_a_second_life_that_trusts_a_late_row() {
    let twin = ObjectModel::new(object::Scope::LARGE[1], BucketBug::ContinuesByTheRow);
    breaks(twin, "a run that must be found has a marker");
}

#[test]
fn catches_busy_treated_as_conflict() {
    let twin = ObjectModel::new(object::Scope::SMALL, BucketBug::TreatsBusyAsConflict);
    breaks(twin, "acknowledged writes stay");
}

/// The tests of all broken twins.
const TWINS: &[fn()] = &[
    catches_a_retry_without_the_fence,
    catches_resting_on_a_stale_view,
    catches_forgotten_signal_ids,
    catches_mail_dropped_by_continue_as_new,
    catches_compensation_that_restarts,
    catches_skipped_compensations,
    catches_a_cancel_that_ends_compensation_early,
    catches_a_writer_that_mistakes_its_own_object,
    catches_blind_writes,
    catches_an_owner_that_trusts_the_row,
    catches_a_marker_that_is_removed_first,
    catches_one_marker_for_all_lives,
    catches_a_second_life_that_trusts_a_late_row,
    catches_busy_treated_as_conflict,
];

/// Searches a model on a number of threads.
type Search = fn(usize) -> Searched;

/// All models in their large scopes.
const LARGE: &[(&str, Search)] = &[
    ("ownership", |threads| holds(OwnershipModel::new(ownership::Scope::LARGE, Retry::Fenced), threads)),
    ("mail, two owners", |threads| holds(MailModel::new(mail::Scope::LARGE[0], MailBug::None), threads)),
    ("mail, three signals", |threads| holds(MailModel::new(mail::Scope::LARGE[1], MailBug::None), threads)),
    ("saga", |threads| holds(SagaModel::new(saga::Scope::LARGE, SagaBug::None), threads)),
    ("object, two starts", |threads| {
        holds(ObjectModel::new(object::Scope::LARGE[0], BucketBug::None), threads)
    }),
    ("object, two lives", |threads| {
        holds(ObjectModel::new(object::Scope::LARGE[1], BucketBug::None), threads)
    }),
];

#[test]
#[ignore = "takes minutes and gigabytes of memory: cargo xtask models"]
fn large_scopes_hold_in_every_interleaving() {
    let begun = stopwatch();
    let mut states = 0;
    println!();
    for (name, search) in LARGE {
        let searched = search(2);
        states += searched.states;
        println!("{name}: {} states, depth {}, {:.1} s", searched.states, searched.depth, searched.seconds);
    }
    TWINS.iter().for_each(|twin| twin());
    assert!(states >= 10_000_000, "{states} states");
    let twins = TWINS.len();
    let seconds = begun.elapsed().as_secs();
    println!("record: states={states} models=4 twins_caught={twins} seconds={seconds}");
}
