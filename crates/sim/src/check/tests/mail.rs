//! Checks of mail, waits, timers and followers: I11, I12, I16, I17.

use super::*;

#[test]
fn i11_catches_lost_repeated_and_reordered_signals() {
    let mut lost = good();
    lost.facts.acks.push(Ack::Mail(run(), "s2".into()));
    caught(i11_signal, &lost);
    caught(i11_signal, &Maker::started().event(signal("s1")).event(signal("s1")).evidence());
    let two = || Maker::started().event(signal("s1")).event(signal("s2")).event(waits("w", None));
    caught(i11_signal, &two().event(takes("w", 5)).event(waits("v", None)).event(takes("v", 4)).evidence());
    caught(i11_signal, &two().event(takes("w", 4)).event(waits("v", None)).event(takes("v", 4)).evidence());
}

#[test]
fn i11_catches_a_skipped_signal() {
    let two = || Maker::started().event(signal("s1")).event(signal("s2")).event(waits("w", None));
    assert_eq!(i11_signal(&two().event(takes("w", 4)).evidence()), []);
    caught(i11_signal, &two().event(takes("w", 5)).evidence());
    // Mail that was consumed after the cutoff is delivered again, first.
    let back = || two().event(takes("w", 4)).event(opened(2, 1, 5)).event(waits("v", None));
    assert_eq!(i11_signal(&back().event(takes("v", 4)).evidence()), []);
    caught(i11_signal, &back().event(takes("v", 5)).evidence());
}

#[test]
fn i17_catches_skipped_repeated_and_missing_events() {
    let shown = |seqs: &[&[u64]]| {
        let mut evidence = good();
        let end = evidence.logs.values().map(|log| log.records.len() as u64).max().unwrap();
        let all: Vec<u64> = (1..=end).collect();
        let parts = if seqs.is_empty() { vec![&all[..2], &all[2..]] } else { seqs.to_vec() };
        for part in parts {
            let part = part.iter().map(|seq| Seq(*seq)).collect();
            evidence.facts.acks.push(Ack::Followed(0, run(), part));
        }
        evidence
    };
    assert_eq!(i17_stream(&shown(&[])), []);
    caught(i17_stream, &shown(&[&[1, 3]]));
    caught(i17_stream, &shown(&[&[1, 2], &[2, 3]]));
    caught(i17_stream, &shown(&[&[1, 2]]));
}

#[test]
fn i12_catches_timers_that_fire_early_or_twice() {
    let set = |due| Event::TimerSet { path: path("t"), ord: 0, due: Millis(due) };
    let fired = || Event::TimerFired { path: path("t") };
    assert_eq!(i12_timer(&Maker::started().event(set(4_500)).event(fired()).evidence()), []);
    caught(i12_timer, &Maker::started().event(set(90_000)).event(fired()).evidence());
    caught(i12_timer, &Maker::started().event(set(0)).event(fired()).event(fired()).evidence());
    caught(i12_timer, &Maker::started().event(fired()).evidence());
    let timeout = Event::WaitResolved { path: path("w"), by: By::Timer };
    caught(i12_timer, &Maker::started().event(waits("w", Some(90_000))).event(timeout).evidence());
}

#[test]
fn i16_catches_an_acknowledged_write_that_is_not_readable() {
    let mut unread = good();
    unread.facts.acks.push(Ack::Read(run(), "s9".into(), false));
    caught(i16_read_your_ack, &unread);
    let brought = |fence| {
        let mut evidence = Maker::started().event(brought_done("a", 2)).evidence();
        evidence.facts.acks.push(Ack::Brought(run(), path("a"), 1, fence));
        evidence
    };
    assert_eq!(i16_read_your_ack(&brought(2)), []);
    caught(i16_read_your_ack, &brought(1));
}
