//! Round trips of events, and every kind of damage.

use crate::codec::{chain, decode, decode_all, encode};
use crate::event::Recorded;
use crate::hash::Hash;
use crate::testing::*;
use crate::time::Seq;

fn texts(log: &Log) -> Vec<(Seq, &str)> {
    log.bodies.iter().enumerate().map(|(at, body)| (Seq(at as u64 + 1), body.as_str())).collect()
}

fn a_log() -> Log {
    Log::running().completed("a").signalled("go", "s1").completed("b")
}

#[test]
fn an_event_is_one_line_and_reads_back_the_same() {
    let log = a_log();
    for (seq, text) in texts(&log) {
        assert!(!text.contains('\n'), "{text}");
        let recorded = decode(seq, text).unwrap();
        assert_eq!(recorded, log.records[seq.0 as usize - 1]);
        assert_eq!(encode(&recorded), text);
    }
}

/// An older release reads a log with an optional field that it does not know.
#[test]
fn an_unknown_field_is_ignored() {
    let log = a_log();
    let later = log.bodies[0].replace(r#""queue":"#, r#""later":{"a":[1,null]},"queue":"#);
    assert_ne!(later, log.bodies[0], "the test must change the text");
    assert_eq!(decode(Seq(1), &later).unwrap().event, log.records[0].event);
}

#[test]
fn a_payload_typed_over_several_lines_stays_one_line() {
    let payload = json("{\n\t\"a b\" : \"c \\\" \\n d\" , \"e\":[1, 2.50]\r\n}");
    assert_eq!(payload.as_str(), r#"{"a b":"c \" \n d","e":[1,2.50]}"#);
}

#[test]
fn altered_lost_and_moved_events_are_detected() {
    let log = a_log();
    let whole = texts(&log);
    let check = |list: &[(Seq, &str)]| decode_all(Seq::ZERO, Hash::ZERO, list.iter().copied());
    let (history, head) = check(&whole).unwrap();
    assert_eq!((history.len(), head), (whole.len(), log.head));
    let changed = whole[2].1.replace("1010", "1011");
    assert_ne!(changed, whole[2].1, "the test must change the text");
    let mut list = whole.clone();
    list[2].1 = &changed;
    assert_eq!(check(&list).unwrap_err().seq, Seq(4), "found where the chain breaks");
    let mut list = whole.clone();
    list.remove(2);
    assert_eq!(check(&list).unwrap_err().seq, Seq(3), "a gap");
    let renumbered: Vec<_> =
        list.iter().enumerate().map(|(at, (_, text))| (Seq(at as u64 + 1), *text)).collect();
    assert_eq!(check(&renumbered).unwrap_err().seq, Seq(3), "closed up, the chain breaks");
    assert_eq!(check(&whole[1..]).unwrap_err().seq, Seq(1));
    assert!(decode_all(Seq(1), Hash::ZERO, whole[1..].iter().copied()).is_err(), "another beginning");
    assert!(decode_all(Seq(1), chain(whole[0].1), whole[1..].iter().copied()).is_ok());
}

#[test]
fn a_newer_format_is_named_and_never_guessed() {
    let log = a_log();
    let text = &log.bodies[0];
    for (newer, word) in [
        (text.replacen("\"v\":1", "\"v\":2", 1), "newer release wrote it (format 2"),
        (r#"{"v":9,"what":"ever"}"#.to_owned(), "newer release wrote it (format 9"),
        (text.replacen("\"v\":1", "\"v\":0", 1), "format 0 does not exist"),
        (text.replacen("\"v\":1,", "", 1), "cannot be decoded"),
        (text.replace("run.queued", "run.teleported"), "newer release wrote it: event type `run.teleported`"),
        (text.replace("\"branch\":1", "\"branch\":0"), "branch numbers start at 1"),
        (String::new(), "cannot be decoded"),
    ] {
        let damage = decode(Seq(1), &newer).unwrap_err();
        assert!(damage.detail.contains(word), "{damage}");
    }
}

#[test]
fn fields_added_by_later_releases_are_ignored() {
    let text = a_log().bodies[0].replacen("\"version\":1", "\"version\":1,\"colour\":\"gold\"", 1);
    assert!(decode(Seq(1), &text).is_ok());
}

fn unknown(recorded: &Recorded) -> String {
    encode(recorded).replacen("\"type\":\"", "\"type\":\"later.", 1)
}

#[test]
fn event_types_of_newer_releases_are_not_damage() {
    let text = unknown(&a_log().records[0]);
    let corrupt = decode(Seq(1), &text).unwrap_err();
    assert!(corrupt.is_newer, "{corrupt}");
    assert!(corrupt.to_string().contains("newer release wrote it: event type `later."), "{corrupt}");
    assert!(!corrupt.to_string().contains("damaged"), "{corrupt}");
    for broken in [text.replacen("\"prev\"", "\"perv\"", 1), text[..text.len() - 2].to_owned()] {
        assert!(!decode(Seq(1), &broken).unwrap_err().is_newer, "{broken}");
    }
    let later = text.replacen("\"v\":1", "\"v\":2", 1);
    assert!(decode(Seq(1), &later).unwrap_err().is_newer);
}

#[test]
fn an_unknown_type_that_breaks_the_chain_is_damage() {
    let first = a_log().records[0].clone();
    let whole = unknown(&first);
    let next = encode(&Recorded { seq: Seq(2), prev: chain(&whole), ..first.clone() });
    let read = |texts: &[&str]| {
        let numbered = (1..).map(Seq).zip(texts.iter().copied());
        decode_all(Seq::ZERO, first.prev, numbered).unwrap_err()
    };
    assert!(read(&[&whole, &next]).is_newer);
    let flipped = encode(&first).replacen("\"type\":\"r", "\"type\":\"q", 1);
    let followed = encode(&Recorded { seq: Seq(2), prev: chain(&encode(&first)), ..first.clone() });
    assert!(!read(&[&flipped, &followed]).is_newer, "the next event names another text");
    assert!(read(&[&flipped]).is_newer, "nothing follows it, so nothing contradicts it");
}
