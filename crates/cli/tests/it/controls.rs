//! Control characters: refused in names, and never printed from stored data.

use std::collections::BTreeMap;

use goldseam::unstable::core::event::RunQueued;
use goldseam::unstable::core::{Command, Payload, QueueName, TagKey, WorkflowName};
use goldseam::{Limits, RunId};

use crate::support::{Place, Ran, block, prepared};

/// Sets the title of a terminal, clears it, adds a line, and reverses text.
const EVIL: &str = "\x1b]0;pwned\x07\x1b[2J\r\nok\u{9b}2J\u{202e}";

/// Starts a run with control characters in a tag, as older releases allowed.
fn tagged(place: &Place, run: &str) {
    block(async {
        let client = goldseam::connect(&place.url()).await.unwrap();
        let queued = RunQueued {
            workflow: WorkflowName::new("order").unwrap(),
            version: 1,
            input: Payload::of(EVIL, &Limits::default()).unwrap(),
            queue: QueueName::new("default").unwrap(),
            priority: 0,
            tags: BTreeMap::from([(TagKey::new("region").unwrap(), EVIL.to_owned())]),
            attributes: BTreeMap::new(),
            parent: None,
            plan: Vec::new(),
            trace: None,
            start_at: None,
            deadline: None,
            lane: None,
        };
        let run = RunId::new(run).unwrap();
        client.carry_out(&run, &Command::Start { queued, claim: None }).await.unwrap();
    });
}

#[track_caller]
fn is_safe(args: &[&str], ran: &Ran) {
    for text in [&ran.out, &ran.err] {
        let acts = |c: &char| goldseam::unstable::core::argument::is_control(*c) && !matches!(c, '\n' | '\t');
        assert_eq!(text.chars().find(acts), None, "{args:?}: {text:?}");
        assert!(
            !text.lines().any(|line| line.starts_with("ok")),
            "{args:?} prints a line from the data: {text:?}"
        );
    }
}

#[test]
fn control_characters_in_stored_data_are_never_printed() {
    let place = prepared();
    tagged(&place, "evil");
    place.run(&["pause", "waits", "--reason", EVIL]).ok();
    place
        .run(&["queue", "submit", "mail", "--id", "t", "--payload", &serde_json::json!(EVIL).to_string()])
        .ok();
    let commands: [&[&str]; 13] = [
        &["show", "evil"],
        &["show", "evil", "--width", "80"],
        &["show", "waits"],
        &["show", "waits", "--width", "80"],
        &["history", "evil"],
        &["history", "waits"],
        &["why", "waits"],
        &["ls"],
        &["ls", "--json"],
        &["show", "evil", "--json"],
        &["history", "waits", "--jsonl"],
        &["queue", "ls"],
        &["doctor"],
    ];
    for args in commands {
        is_safe(args, &place.run(args));
    }
    let tag = place.run(&["show", "evil", "--json"]).json()["tags"]["region"].clone();
    assert_eq!(tag, EVIL, "a document has the exact text");
    let shown = place.run(&["show", "evil"]).ok();
    assert!(shown.contains(r"region=\u{1b}]0;pwned\u{7}\u{1b}[2J\u{d}\u{a}ok\u{9b}2J\u{202e}"), "{shown}");
}

#[test]
fn colours_do_not_let_control_characters_through() {
    let place = prepared();
    tagged(&place, "evil");
    for args in [&["show", "evil", "--width", "80", "--color", "always"][..], &["ls", "--color", "always"]] {
        let out = place.run(args).ok();
        assert!(out.contains("\x1b["), "{out:?}");
        assert!(!out.contains("\x1b]") && !out.contains("\x1b[2J") && !out.contains('\u{9b}'), "{out:?}");
    }
}

#[test]
fn control_characters_in_names_are_refused() {
    let place = prepared();
    for bad in ["a\x1b[2J", "a\nb", "a\u{9b}", "a\u{202e}"] {
        let tag = format!("region={bad}");
        let commands: [&[&str]; 9] = [
            &["start", "order", "--tag", &tag],
            &["ls", "--tag", &tag],
            &["ls", "--cause", bad],
            &["queue", "submit", bad],
            &["queue", "submit", "mail", "--key", bad],
            &["queue", "claim", "--owner", bad],
            &["lock", "acquire", "nightly", "--holder", bad],
            &["pause", "waits", "--by", bad],
            &["signal", "waits", "paid", "--id", bad],
        ];
        for args in commands {
            let err = place.run(args).fails(2, "GS0138");
            assert!(err.contains("control character U+"), "{err}");
        }
    }
}

#[test]
fn empty_names_and_zeros_are_refused() {
    let place = prepared();
    let commands: [&[&str]; 6] = [
        &["queue", "submit", "mail", "--attempts", "0", "--id", "zz"],
        &["queue", "submit", ""],
        &["queue", "claim", "--owner", ""],
        &["lock", "acquire", "nightly", "--holder", ""],
        &["lock", "acquire", "nightly", "--holder", "me", "--ttl", "0s"],
        &["lock", "extend", "nightly", "--holder", "me", "--fence", "1", "--ttl", "0s"],
    ];
    for args in commands {
        place.run(args).fails(2, "GS0138");
    }
    place.run(&["queue", "get", "zz"]).fails(3, "GS0303");
    place.run(&["start", "order", "--workflow-version", "0"]).fails(2, "GS0134");
    assert_eq!(place.run(&["sweeper", "--interval", "0s"]).code, 2);
}
