//! Arbitrary bytes and arbitrary histories: refused or derived, never a panic.

use std::path::Path as File;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::branch::BranchId;
use crate::codec::{decode, encode};
use crate::command::{Command, Fence, StepEnded};
use crate::decide::{View, child_id, decide, idempotency_key};
use crate::event::{Event, Recorded};
use crate::hash::{Hash, WriteId};
use crate::limits::Limits;
use crate::state::{OpenRemote, derive};
use crate::testing::*;
use crate::time::{Millis, Seq};

/// All lines of the golden histories.
fn golden_lines() -> Vec<String> {
    let folder = File::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let histories = files.filter(|file| file.extension().is_some_and(|ext| ext == "jsonl"));
    histories
        .flat_map(|f| std::fs::read_to_string(f).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

fn golden_events() -> Vec<Event> {
    golden_lines().iter().map(|line| decode(Seq(1), line).unwrap().event).collect()
}

fn small() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0u64..40, 1 => Just(u64::MAX)]
}

/// An event of any history, at any position, with random numbers.
fn shaken() -> impl Strategy<Value = Recorded> {
    let branch = prop_oneof![9 => 1u32..6, 1 => Just(u32::MAX)].prop_map(BranchId);
    (select(golden_events()), branch.clone(), branch, proptest::option::of(small()), small(), small())
        .prop_map(|(mut event, branch, other, epoch, seq, cutoff)| {
            match &mut event {
                Event::BranchOpened(opened) => {
                    (opened.branch, opened.cutoff) = (branch, Seq(cutoff));
                    opened.parent = opened.parent.map(|_| other);
                    opened.dropped_mail.push(Seq(seq));
                }
                Event::WaitResolved { by: crate::event::By::Mail(mail), .. } => *mail = Seq(cutoff),
                Event::RunClaimed(claim) if seq > 40 => claim.attempt = u32::MAX,
                _ => {}
            }
            let write = WriteId(seq);
            let prev = Hash::ZERO;
            Recorded {
                seq: Seq(seq),
                at: Millis(7),
                branch,
                epoch: epoch.map(Seq),
                write,
                prev,
                bytes: 7,
                event,
            }
        })
}

fn history() -> impl Strategy<Value = Vec<Recorded>> {
    (vec(shaken(), 0..25), any::<bool>(), any::<bool>(), small()).prop_map(
        |(mut history, dense, queued, first)| {
            if queued {
                let event = Event::RunQueued(order("{}"));
                let branch = BranchId(1);
                let write = WriteId(0);
                let prev = Hash::ZERO;
                history.insert(
                    0,
                    Recorded {
                        seq: Seq(1),
                        at: Millis(1),
                        branch,
                        epoch: None,
                        write,
                        prev,
                        bytes: 7,
                        event,
                    },
                );
            }
            let mut seq = Seq(if queued && first != u64::MAX { 1 } else { first });
            for recorded in history.iter_mut().filter(|_| dense) {
                recorded.seq = seq;
                seq = seq.next();
            }
            history
        },
    )
}

proptest! {
    #[test]
    fn decoding_any_text_never_panics(text in ".{0,200}") {
        let _ = decode(Seq(1), &text);
    }

    #[test]
    fn decoding_a_damaged_line_never_panics(
        line in select(golden_lines()), at in any::<Index>(), put in vec(any::<u8>(), 0..4), cut in 0usize..6,
    ) {
        let mut bytes = line.clone().into_bytes();
        let at = at.index(bytes.len());
        bytes.splice(at..(at + cut).min(line.len()), put);
        if let Ok(recorded) = decode(Seq(1), &String::from_utf8_lossy(&bytes)) {
            let text = encode(&recorded);
            let recorded = Recorded { bytes: crate::codec::size(&text), ..recorded };
            prop_assert_eq!(decode(Seq(1), &text), Ok(recorded), "re-encoding changes the event");
        }
    }

    #[test]
    fn deriving_any_history_never_panics_and_is_deterministic(history in history()) {
        let run = crate::RunId::new("r1").unwrap();
        let state = derive(&run, &history, Hash::ZERO);
        prop_assert_eq!(&state, &derive(&run, &history, Hash::ZERO));
        let Ok(state) = state else { return Ok(()) };
        let _ = (state.to_undo(Seq::ZERO), state.stray_children(), state.branches.next_id());
        let _ = (idempotency_key(&state, &path("a")), child_id(&state, &path("a")));
        for OpenRemote { path, attempt, task, .. } in state.open_remote() {
            let ended = StepEnded { path, attempt, task, fence: 1, result: Ok(json("1")) };
            let decision = decide(View::Full(&state), &Command::StepEnded(ended), Millis(9), &Limits::default());
            prop_assert!(decision.is_ok(), "an open step cannot be ended");
        }
        let fence = Fence { epoch: state.summary.epoch, branch: state.summary.branch };
        let commands = [
            Command::Retry(note("t")),
            Command::Jump(jump_to("j", "a")),
            Command::Jump(jump_to("j", "b")),
            Command::Terminate(note("e")),
            Command::CancelUnmanned { note: note("u"), lost: state.summary.owner.clone() },
            take_over("n-9", "n-1", true),
            Command::TimeOut,
            Command::TimeOutUnmanned { lost: state.summary.owner.clone() },
            signal("go", "s9"),
            Command::Owned(fence, vec![]),
        ];
        for command in commands {
            let _ = decide(View::Full(&state), &command, Millis(9), &Limits::default());
        }
    }
}
