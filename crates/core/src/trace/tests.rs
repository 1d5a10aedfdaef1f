use super::*;
use crate::event::{Event, RunQueued};
use crate::testing::order;

const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn state_of(text: &str) -> Option<String> {
    TraceContext::new(GOOD).unwrap().with_state(text).tracestate
}

#[test]
fn accepts_what_the_w3c_defines() {
    let context = TraceContext::new(GOOD).unwrap();
    assert_eq!(context.traceparent(), GOOD);
    assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(context.parent_id(), "00f067aa0ba902b7");
    assert!(context.is_sampled());
    assert!(!TraceContext::new(&GOOD.replace("-01", "-00")).unwrap().is_sampled());
    assert_eq!(TraceContext::new(&format!(" {GOOD}\t")).unwrap().traceparent(), GOOD);
}

#[test]
fn passes_on_only_flags_it_knows() {
    let context = TraceContext::new(&GOOD.replace("-01", "-ff")).unwrap();
    assert!(context.traceparent().ends_with("-03"));
}

#[test]
fn reads_later_versions_as_version_00() {
    let later = format!("{}-what-the-future-will-be-like", GOOD.replacen("00", "cc", 1));
    assert_eq!(TraceContext::new(&later).unwrap().traceparent(), GOOD);
    assert_eq!(TraceContext::new(&GOOD.replacen("00", "01", 1)).unwrap().traceparent(), GOOD);
}

#[test]
fn refuses_hostile_traceparents() {
    let long = format!("{}-{}", GOOD.replacen("00", "01", 1), "a".repeat(1_000_000));
    let hostile = [
        "",
        "00",
        &GOOD[..54],
        &format!("{GOOD}-"),
        &format!("{GOOD}0"),
        &GOOD.to_uppercase(),
        &GOOD.replace('-', "_"),
        &GOOD.replacen("00", "ff", 1),
        &format!("{}.x", GOOD.replacen("00", "01", 1)),
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473\u{0}-00f067aa0ba902b7-01",
        "00-４bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\n",
        &long,
    ];
    for text in hostile {
        assert!(TraceContext::new(text).is_err(), "{}", text.chars().take(80).collect::<String>());
    }
}

#[test]
fn invalid_tracestate_is_left_out_and_the_rest_kept() {
    for text in ["", ",", "a", "A=1", "a=1,a=2", "a=b=c", "a=\u{7f}", "a=ü", "=1", "a@1b=1", "a=1\r\nx: y"] {
        assert_eq!(state_of(text), None, "{text}");
    }
    let many = (0..33).map(|i| format!("k{i}=v")).collect::<Vec<_>>().join(",");
    assert_eq!(state_of(&many), None);
    assert_eq!(state_of("a=1 , b@vendor=x y,").as_deref(), Some("a=1,b@vendor=x y"));
    assert!(TraceContext::read("nonsense", Some("a=1")).is_none());
}

#[test]
fn long_tracestate_keeps_leading_members() {
    let long = (0..8).map(|i| format!("k{i}={}", "v".repeat(100))).collect::<Vec<_>>().join(",");
    let kept = state_of(&long).unwrap();
    assert!(kept.len() <= TRACESTATE_BYTES_MAX);
    assert!(long.starts_with(&kept));
    assert_eq!(kept.split(',').count(), 4);
}

#[test]
fn spans_differ_by_run_and_key_and_stay_in_the_trace() {
    let one = RunId::new("a").unwrap();
    let two = RunId::new("b").unwrap();
    let context = TraceContext::new(GOOD).unwrap().with_state("a=1");
    assert_ne!(context.run_span(&one), context.run_span(&two));
    let inside = context.within("key");
    assert_eq!(inside.trace_id(), context.trace_id());
    assert_eq!(inside.parent_id(), context.span("key"));
    assert_eq!(inside.tracestate(), Some("a=1"));
    assert!(inside.is_sampled());
    assert_eq!(TraceContext::new(inside.traceparent()).unwrap().traceparent(), inside.traceparent());
}

#[test]
fn run_queued_with_an_invalid_trace_stays_readable() {
    let trace = Some(TraceContext::new(GOOD).unwrap().with_state("a=1"));
    let event = Event::RunQueued(RunQueued { trace, ..order("{}") });
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    let without = Event::RunQueued(order("{}"));
    assert!(!serde_json::to_string(&without).unwrap().contains("trace"));
    for wrong in ["null", "7", "\"x\"", "[]", "{}", r#"{"traceparent":7}"#, r#"{"traceparent":"00-zz"}"#] {
        let at = text.find(r#"{"traceparent""#).unwrap();
        let end = at + text[at..].find('}').unwrap() + 1;
        let damaged = format!("{}{wrong}{}", &text[..at], &text[end..]);
        assert_eq!(serde_json::from_str::<Event>(&damaged).unwrap(), without, "{wrong}");
    }
}
