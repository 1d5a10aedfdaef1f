//! Crashes between any two writes to a bucket: the fake server kills its client.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use goldseam_fake_s3::{FakeS3, RequestFault};
use rustix::process::{Pid, Signal, kill_process};

use super::story::{RUN, Story, is_all, survived};
use crate::support::eventually;

/// The name under which the server knows the client to kill.
const DOOMED: &str = "doomed";
/// The writes of a worker that the short version tests.
const SAMPLE: [u64; 4] = [3, 8, 15, 24];

/// Whether the crash is before or after the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// A store, and a client that the server kills at its n-th write.
struct Trap {
    fake: FakeS3,
    story: Story,
    pid: Arc<AtomicI32>,
    writes: Arc<AtomicU64>,
}

impl Trap {
    fn at(nth: u64, side: Side) -> Self {
        let fake = FakeS3::start().unwrap();
        let story = Story::in_bucket(format!("{}&requests=free", fake.url("orders")));
        let pid = Arc::new(AtomicI32::new(0));
        let writes = Arc::new(AtomicU64::new(0));
        let victim = Arc::clone(&pid);
        let seen = Arc::clone(&writes);
        fake.script(move |request| {
            if request.by != DOOMED
                || !request.op.is_write()
                || seen.fetch_add(1, Ordering::SeqCst) + 1 != nth
            {
                return None;
            }
            kill_process(Pid::from_raw(victim.load(Ordering::SeqCst)).unwrap(), Signal::KILL).unwrap();
            let fault = RequestFault::dropped();
            Some(if side == Side::After { fault.after_commit() } else { fault })
        });
        Self { fake, story, pid, writes }
    }

    /// Starts the process to kill.
    fn spawn(&self, mut command: std::process::Command) -> crate::support::Guarded {
        let url = format!("{}&requests=free", self.fake.url_for(DOOMED, "orders"));
        let child = command.env("GOLDSEAM_STORE", url).spawn().unwrap();
        self.pid.store(i32::try_from(child.id()).unwrap(), Ordering::SeqCst);
        crate::support::Guarded(child)
    }
}

/// Returns whether the start was killed before it ended.
fn start_dies_at(nth: u64, side: Side) -> bool {
    let trap = Trap::at(nth, side);
    let input = trap.story.order(5);
    let start = ["start", "order", "--id", RUN, "--input", &input];
    let mut process = trap.spawn(trap.story.place.command(&start));
    let is_dead = !process.0.wait().unwrap().success();
    trap.story.place.run(&start).ok();
    assert_eq!(trap.story.count(RUN, "run.queued"), 1, "{nth} {side:?}");
    trap.story.goes_on_after(&trap.story.moment());
    if is_dead {
        survived(&format!("<write {nth} of a start>:{side:?}"), "fake-s3");
    }
    is_dead
}

#[test]
fn c18_a_start_killed_between_any_two_writes_is_atomic() {
    let died = |nth: u64| {
        std::thread::scope(|scope| {
            let sides = [Side::Before, Side::After].map(|side| scope.spawn(move || start_dies_at(nth, side)));
            sides.map(|side| side.join().unwrap())
        })
    };
    let count = (1..).take_while(|nth| died(*nth) == [true, true]).count();
    assert!(count >= 3, "a start makes {count} writes");
}

/// Returns the number of writes if the worker completed the run.
fn worker_dies_at(nth: u64, side: Side) -> Option<u64> {
    let trap = Trap::at(nth, side);
    trap.story.begin();
    let mut worker = trap.spawn(trap.story.worker_command());
    let dead = eventually("the worker dies, or the run ends", || {
        trap.story.answer_all();
        match worker.0.try_wait().unwrap() {
            Some(_) => Some(true),
            None => (trap.story.count(RUN, "run.completed") == 1).then_some(false),
        }
    });
    let moment = trap.story.moment();
    trap.story.goes_on_after(&moment);
    if dead {
        survived(&format!("<write {nth} of a worker>:{side:?}"), "fake-s3");
    }
    (!dead).then(|| trap.writes.load(Ordering::SeqCst))
}

#[test]
fn c18_a_worker_killed_between_any_two_writes_loses_nothing() {
    let some = |numbers: &[u64]| {
        std::thread::scope(|scope| {
            let both = numbers.iter().flat_map(|nth| [(*nth, Side::Before), (*nth, Side::After)]);
            let tests: Vec<_> =
                both.map(|(nth, side)| (nth, scope.spawn(move || worker_dies_at(nth, side)))).collect();
            tests.into_iter().map(|(nth, test)| (nth, test.join().unwrap())).collect::<Vec<_>>()
        })
    };
    for (nth, end) in some(&SAMPLE) {
        assert_eq!(end, None, "write {nth} is made");
    }
    let mut next = 1;
    while is_all() {
        let numbers: Vec<u64> = (next..next + 8).collect();
        if some(&numbers).iter().any(|(_, end)| end.is_some()) {
            break;
        }
        next += 8;
    }
}
