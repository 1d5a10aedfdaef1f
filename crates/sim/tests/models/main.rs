//! Models of the protocols: every interleaving of a few actors, faults and crashes, up to a scope. Only store, network
//! and processes are modelled; what is decided, written and derived comes from the real `decide`, `seal` and `derive`.
//! Each model has broken twins that must be caught, or it proves nothing.
//!
//! | module | holds |
//! |---|---|
//! | [`ownership`] | claims, takeovers and fences |
//! | [`mail`] | signals against waits |
//! | [`saga`] | compensation |
//! | [`object`] | compare-and-set on objects |
//! | [`book`], [`stage`] | logs that worlds share; actors who append to one |
//! | [`check`] | how a model is searched |

mod book;
mod check;
mod mail;
mod object;
mod ownership;
mod saga;
mod stage;

use check::{Searched, breaks, holds, stopwatch};
use mail::{Bug as MailBug, MailRoom};
use object::{Bucket, Bug as BucketBug};
use ownership::{Ownership, Retry};
use saga::{Bug as SagaBug, Saga};

fn small(searched: Searched, at_least: usize) {
    println!("{searched:?}");
    assert!(searched.states > at_least, "{searched:?}");
}

#[test]
fn no_interleaving_breaks_ownership() {
    small(holds(Ownership::new(ownership::Scope::SMALL, Retry::Fenced), 1), 20_000);
}

#[test]
fn no_interleaving_loses_or_repeats_a_signal() {
    small(holds(MailRoom::new(mail::Scope::SMALL, MailBug::None), 1), 20_000);
}

#[test]
fn no_interleaving_leaves_a_step_half_undone() {
    small(holds(Saga::new(saga::Scope::SMALL, SagaBug::None), 1), 5_000);
}

#[test]
fn no_lost_late_or_doubled_request_breaks_a_run_on_objects() {
    small(holds(Bucket::new(object::Scope::SMALL, BucketBug::None), 1), 5_000);
}

#[test]
fn a_retry_without_the_fence_is_caught() {
    breaks(Ownership::new(ownership::Scope::SMALL, Retry::Unfenced), "one owner's appends per epoch");
}

#[test]
fn a_run_that_rests_on_a_stale_view_is_caught() {
    breaks(MailRoom::new(mail::Scope::SMALL, MailBug::RestsOnAStaleView), "nobody oversleeps");
}

#[test]
fn a_signal_id_that_is_forgotten_is_caught() {
    breaks(MailRoom::new(mail::Scope::SMALL, MailBug::ForgetsSignalIds), "a signal stands once in the log");
}

#[test]
fn mail_that_is_left_behind_is_caught() {
    let twin = MailRoom::new(mail::Scope::SMALL, MailBug::LeavesMailBehind);
    breaks(twin, "what was not taken is still there");
}

#[test]
fn an_owner_that_begins_to_undo_anew_is_caught() {
    breaks(Saga::new(saga::Scope::SMALL, SagaBug::BeginsAnew), "a step is undone once");
}

#[test]
fn an_owner_that_skips_what_was_begun_is_caught() {
    breaks(Saga::new(saga::Scope::SMALL, SagaBug::SkipsWhatWasBegun), "nothing is left when it ends");
}

#[test]
fn a_cancellation_that_cuts_the_undoing_short_is_caught() {
    breaks(Saga::new(saga::Scope::SMALL, SagaBug::CancelEndsAtOnce), "nothing is left when it ends");
}

#[test]
fn a_writer_that_takes_its_own_object_for_anothers_is_caught() {
    let twin = Bucket::new(object::Scope::SMALL, BucketBug::TakesItsOwnForAnothers);
    breaks(twin, "a signal stands once in the log");
}

#[test]
fn a_blind_write_is_caught() {
    breaks(Bucket::new(object::Scope::SMALL, BucketBug::WritesBlindly), "what was acknowledged stays");
}

#[test]
fn an_owner_that_trusts_the_row_is_caught() {
    let twin = Bucket::new(object::Scope::SMALL, BucketBug::TrustsTheRow);
    breaks(twin, "no owner does again what is done");
}

#[test]
fn a_marker_that_is_removed_first_is_caught() {
    let twin = Bucket::new(object::Scope::SMALL, BucketBug::UnmarksFirst);
    breaks(twin, "whoever must be found has a marker");
}

#[test]
fn one_marker_for_all_lives_is_caught() {
    let twin = Bucket::new(object::Scope::LARGE[1], BucketBug::OneMarkerForAllLives);
    breaks(twin, "whoever must be found has a marker");
}

#[test]
fn a_second_life_that_goes_by_a_late_row_is_caught() {
    let twin = Bucket::new(object::Scope::LARGE[1], BucketBug::GoesOnByTheRow);
    breaks(twin, "whoever must be found has a marker");
}

#[test]
fn a_busy_server_that_is_taken_for_a_conflict_is_caught() {
    let twin = Bucket::new(object::Scope::SMALL, BucketBug::TakesBusyForThere);
    breaks(twin, "what was acknowledged stays");
}

/// Every broken twin.
const TWINS: &[fn()] = &[
    a_retry_without_the_fence_is_caught,
    a_run_that_rests_on_a_stale_view_is_caught,
    a_signal_id_that_is_forgotten_is_caught,
    mail_that_is_left_behind_is_caught,
    an_owner_that_begins_to_undo_anew_is_caught,
    an_owner_that_skips_what_was_begun_is_caught,
    a_cancellation_that_cuts_the_undoing_short_is_caught,
    a_writer_that_takes_its_own_object_for_anothers_is_caught,
    a_blind_write_is_caught,
    an_owner_that_trusts_the_row_is_caught,
    a_marker_that_is_removed_first_is_caught,
    one_marker_for_all_lives_is_caught,
    a_second_life_that_goes_by_a_late_row_is_caught,
    a_busy_server_that_is_taken_for_a_conflict_is_caught,
];

/// Every model in its large scope, on so many threads.
const LARGE: &[(&str, fn(usize) -> Searched)] = &[
    ("ownership", |threads| holds(Ownership::new(ownership::Scope::LARGE, Retry::Fenced), threads)),
    ("mail", |threads| holds(MailRoom::new(mail::Scope::LARGE, MailBug::None), threads)),
    ("saga", |threads| holds(Saga::new(saga::Scope::LARGE, SagaBug::None), threads)),
    ("object, two starts", |threads| holds(Bucket::new(object::Scope::LARGE[0], BucketBug::None), threads)),
    ("object, two lives", |threads| holds(Bucket::new(object::Scope::LARGE[1], BucketBug::None), threads)),
];

#[test]
#[ignore = "minutes, and gigabytes of memory: cargo xtask models"]
fn no_interleaving_of_the_large_scopes_breaks_anything() {
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
    let (twins, seconds) = (TWINS.len(), begun.elapsed().as_secs());
    println!("record: states={states} models=4 twins_caught={twins} seconds={seconds}");
}
