use std::collections::BTreeMap;

use goldseam_core::recovery::{Bounds, next_attempt};
use goldseam_core::{Payload, Status};
use goldseam_store::MemoryStore;

use super::super::tests::node_on;
use super::*;
use crate::ledger::clock::SystemClock;
use crate::testing::{SimClock, TrueTime};

const MS: Duration = Duration::from_millis(1);

fn held(pace: Pace, lived_ms: u32, claimed_at: i64) -> HeldBack {
    let lived = Lived { least: MS * lived_ms, most: MS * lived_ms, doubt: MS * 100, process: MS };
    let owner = NodeId::new("n").unwrap();
    let task = None;
    let death = Death { charged: true, claimed_at: Some(Millis(claimed_at)), lived };
    HeldBack { pace, death, owner, task }
}

fn suspect(alone: bool) -> Suspect {
    let death = held(Pace::Cohort, 200, 0).death;
    Suspect { until: Duration::MAX, alone, expected: false, death }
}

#[test]
fn suspect_is_not_admitted_before_the_control_time() {
    let quarantine = Quarantine::new(MS * 1_000);
    let cohort = held(Pace::Cohort, 200, 0);
    let gates = [1_000, 1_499, 1_500].map(|now| quarantine.gate(&cohort, MS * now));
    assert_eq!(gates, [Gate::Closed, Gate::Closed, Gate::Open]);
    let alone = held(Pace::Alone, 200, 0);
    let gates = [1_500, 4_999, 5_000].map(|now| quarantine.gate(&alone, MS * now));
    assert_eq!(gates, [Gate::Closed, Gate::Closed, Gate::Alone]);
}

#[test]
fn run_that_is_alone_has_no_other_suspect_beside_it() {
    let mut quarantine = Quarantine::new(Duration::ZERO);
    let now = MS * 1_000_000;
    let [alone, cohort] = [Pace::Alone, Pace::Cohort].map(|pace| held(pace, 200, 0));
    quarantine.inside.insert(RunId::new("a").unwrap(), suspect(true));
    assert_eq!([&alone, &cohort].map(|held| quarantine.gate(held, now)), [Gate::Closed, Gate::Closed]);
    quarantine.width = 2;
    assert_eq!(quarantine.gate(&cohort, now), Gate::Closed);
    quarantine.inside = HashMap::from([(RunId::new("a").unwrap(), suspect(false))]);
    assert_eq!([&alone, &cohort].map(|held| quarantine.gate(held, now)), [Gate::Open, Gate::Open]);
    quarantine.width = 1;
    assert_eq!([&alone, &cohort].map(|held| quarantine.gate(held, now)), [Gate::Closed, Gate::Closed]);
}

#[test]
fn lone_suspects_and_latest_crashes_go_first() {
    let mut all = [
        held(Pace::Cohort, 9, 5),
        held(Pace::Alone, 9, 1),
        held(Pace::Cohort, 9, 7),
        held(Pace::Alone, 9, 3),
    ];
    all.sort_by_key(HeldBack::turn);
    let order = all.map(|held| (held.pace, held.death.claimed_at.unwrap().0));
    assert_eq!(order, [(Pace::Alone, 3), (Pace::Alone, 1), (Pace::Cohort, 7), (Pace::Cohort, 5)]);
}

#[test]
fn crowd_is_admitted_after_a_few_rounds() {
    let quarantine = Quarantine::new(Duration::ZERO);
    let cohort = held(Pace::Cohort, 200, 0);
    let rounds = |before| (quarantine.at_the_latest(&cohort, before, MS * 500) - MS * 500).as_millis() / 500;
    assert_eq!([0, 1, 2, 6, 7, 1_000].map(rounds), [1, 2, 2, 3, 4, 10]);
}

#[test]
fn unlikelier_suspects_wait_until_the_likelier_survive() {
    let mut quarantine = Quarantine::new(Duration::ZERO);
    quarantine.width = 4;
    let likely = held(Pace::Cohort, 200, 5_000);
    let outlived = HeldBack { death: Death { charged: false, ..likely.death }, ..likely.clone() };
    let gates = |quarantine: &Quarantine| {
        let earlier = [4_799, 4_800].map(|at| held(Pace::Cohort, 200, at));
        let all = [&likely, &outlived, &earlier[0], &earlier[1]];
        all.map(|held| quarantine.gate(held, MS * 100_000) == Gate::Open)
    };
    let run = RunId::new("a").unwrap();
    quarantine.inside.insert(run.clone(), Suspect { death: likely.death, ..suspect(false) });
    assert_eq!(gates(&quarantine), [true, false, false, true]);
    quarantine.inside.insert(run.clone(), Suspect { death: outlived.death, ..suspect(false) });
    assert_eq!(gates(&quarantine), [true; 4]);
    // Twice its lifetime and the doubt are more than twenty doubts.
    let slow = held(Pace::Cohort, 2_000, 5_000).death;
    quarantine.inside.insert(run, Suspect { death: slow, ..suspect(false) });
    assert_eq!(gates(&quarantine), [true; 4]);
}

/// The next owner counts from the claim, however long the store takes to append it.
#[tokio::test(start_paused = true)]
async fn probation_begins_with_the_claim_not_with_the_admission() {
    let time = TrueTime::begin();
    let store = Arc::new(MemoryStore::new(time.store_clock()));
    let node = node_on(store, Arc::new(SimClock::new(time, 0, 0)));
    let client = node.client();
    let run = RunId::new("r").unwrap();
    client.start("w", &run, &Payload::null()).await.unwrap();
    let place = Suspect { until: Duration::MAX, expected: true, ..suspect(false) };
    node.quarantine().inside.insert(run.clone(), place);
    let lived = place.death.lived;
    let lost = Lost { node: NodeId::new("n0").unwrap(), proven: true, evidence: String::new(), lived };
    let summary = Summary { status: Status::Running, attempt: 1, ..client.get(&run).await.unwrap() };
    assert!(matches!(node.admit(&summary, &lost), Admission::In { alone: false }));
    assert!(node.quarantine().inside[&run].expected, "it has no probation before its claim");
    tokio::time::advance(MS * 10_000).await;
    let claimed_at = node.ledger.clock.elapsed();
    node.begin_probation(&run, lived);
    let place = node.quarantine().inside[&run];
    assert!(!place.expected && place.until > claimed_at + probation(lived));
}

/// Runs of which one kills its process, and the processes that executed them, in milliseconds.
struct Model {
    runs: BTreeMap<RunId, Summary>,
    poison: RunId,
    now: i64,
    /// Start and end of each process.
    processes: BTreeMap<NodeId, (i64, i64)>,
    /// Whether runs that are admitted together claim in reverse order.
    reversed: bool,
}

const BEAT: i64 = 50;
const BOUNDS: Bounds = Bounds { attempts_max: 3, park: true };

impl Model {
    /// All runs have died together twice.
    fn new(template: &Summary, count: usize, place: usize, reversed: bool) -> Self {
        let first = NodeId::new("n0").unwrap();
        let id = |number: usize| RunId::new(format!("r{number:04}")).unwrap();
        let begin = |number: usize| Summary {
            run: id(number),
            status: Status::Running,
            owner: Some(first.clone()),
            attempt: 1,
            lived_ms: Some(200),
            claimed_at: Some(Millis(i64::try_from(number % 100).unwrap())),
            ..template.clone()
        };
        let runs = (0..count).map(|number| (id(number), begin(number))).collect();
        let processes = BTreeMap::from([(first, (0, 120))]);
        Self { runs, poison: id(place), now: 200, processes, reversed }
    }

    fn lived(&self, summary: &Summary) -> Lived {
        let (begun, end) = self.processes[summary.owner.as_ref().unwrap()];
        let beat_at = Millis(end / BEAT * BEAT);
        let least = beat_at.since(summary.claimed_at.unwrap());
        let process = beat_at.since(Millis(begun));
        Lived { least, most: least + MS * 100, doubt: MS * 100, process }
    }

    /// Executes a process until it dies. Returns false if the poisonous run is to be stopped.
    fn crash(&mut self) -> bool {
        let begun = self.now;
        let node = NodeId::new(format!("n{begun}")).unwrap();
        let mut quarantine = Quarantine::new(Duration::ZERO);
        for summary in self.runs.values() {
            let lived = self.lived(summary);
            let pace = pace(summary, lived, BOUNDS);
            if pace == Pace::Never {
                assert_eq!(summary.run, self.poison);
                return false;
            }
            let charged = is_charged(summary, lived);
            let death = Death { charged, claimed_at: summary.claimed_at, lived };
            quarantine.held_back.push_back(HeldBack { pace, death, owner: node.clone(), task: None });
        }
        let mut order: Vec<(HeldBack, RunId)> =
            quarantine.held_back.drain(..).zip(self.runs.keys().cloned()).collect();
        order.sort_by_key(|(held, _)| held.turn());
        let mut order = VecDeque::from(order);
        while !quarantine.inside.contains_key(&self.poison) {
            self.now += 10;
            let elapsed = |at: i64| MS * u32::try_from(at - begun).unwrap();
            let last_beat = elapsed((self.now / BEAT * BEAT).max(begun));
            quarantine.remove_survivors(last_beat, usize::MAX, |_| true);
            let mut together = 0;
            while let Some((held, run)) = order.front() {
                let gate = quarantine.gate(held, elapsed(self.now));
                if gate == Gate::Closed {
                    break;
                }
                let alone = gate == Gate::Alone;
                let death = held.death;
                let until = elapsed(self.now) + probation(death.lived) + MARGIN;
                quarantine.inside.insert(run.clone(), Suspect { until, alone, expected: false, death });
                let summary = self.runs.get_mut(run).unwrap();
                summary.attempt = next_attempt(summary, death.lived, BOUNDS, alone);
                summary.alone = alone;
                summary.lived_ms = Some(u64::try_from(death.lived.most.as_millis()).unwrap());
                summary.owner = Some(node.clone());
                summary.claimed_at =
                    Some(Millis(self.now + if self.reversed { -together } else { together }));
                together = (together + 1).min(9);
                order.pop_front();
            }
        }
        self.now += 20;
        self.processes.insert(node, (begun, self.now));
        self.now += 100;
        true
    }
}

/// Every crash halves the suspects; then one is alone.
#[tokio::test]
async fn finds_the_run_that_kills_its_process_by_halving() {
    let node = node_on(Arc::new(MemoryStore::new(Arc::new(|| Millis(1)))), Arc::new(SystemClock));
    let client = node.client();
    let run = RunId::new("r").unwrap();
    client.start("w", &run, &Payload::null()).await.unwrap();
    let template = client.get(&run).await.unwrap();
    let small = (2..=40_usize).flat_map(|count| (0..count).map(move |place| (count, place)));
    let large = [0, 1, 333, 500, 511, 512, 999, 1_000].map(|place| (1_001, place));
    for (count, place) in small.chain(large) {
        let halvings = count.next_power_of_two().ilog2();
        for reversed in [false, true] {
            let mut model = Model::new(&template, count, place, reversed);
            let mut crashes = 0;
            while model.crash() {
                crashes += 1;
                assert!(crashes <= halvings + 1, "run {place} of {count}, reversed: {reversed}");
            }
        }
    }
}
