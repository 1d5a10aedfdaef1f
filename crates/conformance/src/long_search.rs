//! Lists by a condition in a store with thousands of runs: pages that end early because they have cost enough, and more
//! runs in one millisecond than a store reads at once.

use std::sync::Arc;

use goldseam_core::attribute::Attributes;
use goldseam_core::event::Tags;
use goldseam_core::search::Condition;
use goldseam_core::summary::Trouble;
use goldseam_core::{Millis, NodeId, Seq, Status, Summary, WorkflowName};
use goldseam_store::api::{Append, RunFilter, RunOrder};
use goldseam_store::splitmix::SplitMix;
use tokio::task::JoinSet;

use super::Fixture;
use super::make::{append, at, run, summary};
use super::search::{expected, key, pick};

/// Number of runs of a database, and of a store that reads a record for each run that it examines.
const RUNS: [u64; 2] = [6_000, 1_300];
/// Runs of this part are of one millisecond.
const OF_ONE_MOMENT: std::ops::Range<u64> = 200..1_700;
/// Appends under way at once.
const IN_FLIGHT: usize = 64;
/// Number of random conditions.
const RANDOM: usize = 40;

/// Parts of conditions: frequent, rare, empty, exact, unordered, and some that no index answers.
const TERMS: [&str; 24] = [
    "region = \"eu\"",
    "region = \"us\"",
    "stage = \"only-us\"",
    "amount > 900",
    "amount <= 20",
    "customer = \"c-7\"",
    "customer in (\"c-1\", \"c-2\", \"none\")",
    "customer starts_with \"c-1\"",
    "paid = true",
    "has stage",
    "tag.team = \"t-3\"",
    "status = failed",
    "status in (queued, waiting, parked)",
    "workflow = order",
    "workflow in (mail, rare)",
    "workflow = none",
    "cause = timeout",
    "owner = \"n1\"",
    "parent = \"r00000\"",
    "root = true",
    "error contains \"boom\"",
    "version = 3",
    "version = 9",
    "priority = 0",
];

/// Conditions that cost the most: of lists that share no run, of negations, and of what no index has.
const HOSTILE: [&str; 10] = [
    "region = \"eu\" and stage = \"only-us\"",
    "version = 9",
    "error contains \"nothing\"",
    "region not in (\"eu\", \"us\")",
    "not (region = \"eu\") and not (region = \"us\")",
    "stage = \"none\" or (region = \"eu\" and stage = \"only-us\")",
    "region = \"us\" and version = 3 and status != completed",
    "status = completed and not (workflow in (order, mail))",
    "customer starts_with \"zz\"",
    "version = 3 or amount > 990",
];

fn sample(random: &mut SplitMix, number: u64) -> Summary {
    let is_eu = random.below(5) < 3;
    let draw = random.below(1_000);
    let status = match draw {
        0..100 => Status::Failed,
        100..140 => Status::Parked,
        140..200 => Status::Queued,
        200..240 => Status::Waiting,
        _ => Status::Completed,
    };
    let mut attributes = Attributes::from([
        (key("region"), if is_eu { "eu" } else { "us" }.into()),
        (key("amount"), i64::try_from(random.below(1_000)).unwrap().into()),
        (key("customer"), format!("c-{}", random.below(300)).into()),
        (key("paid"), random.one_in(7).into()),
    ]);
    if !is_eu && random.one_in(2) {
        attributes.insert(key("stage"), "only-us".into());
    }
    let trouble = matches!(status, Status::Failed | Status::Parked).then(|| Trouble {
        cause: pick(random, &["timeout", "panic"]).to_owned(),
        message: pick(random, &["took 5 s", "boom"]).to_owned(),
        code: None,
        step: None,
    });
    let moment = if OF_ONE_MOMENT.contains(&number) { OF_ONE_MOMENT.start } else { number };
    let created_at = at(i64::try_from(moment / 5).unwrap());
    // Ids in another order than the times.
    let name = format!("r{:05}", number * 7_919 % 100_000);
    Summary {
        status,
        workflow: WorkflowName::new(if number.is_multiple_of(50) {
            "rare"
        } else {
            pick(random, &["order", "mail"])
        })
        .unwrap(),
        version: u32::try_from(random.below(4)).unwrap(),
        created_at,
        last_event_at: Millis(created_at.0 + 5),
        finished_at: status.is_terminal().then_some(Millis(created_at.0 + 5)),
        recovered_at: random.one_in(20).then_some(Millis(created_at.0 + 3)),
        owner: random.one_in(30).then(|| NodeId::new("n1").unwrap()),
        parent: random.one_in(30).then(|| run("r00000")),
        tags: Tags::from([(key("team"), format!("t-{}", number % 10))]),
        attributes_at: Some(Seq(1)),
        attributes,
        trouble,
        ..summary(&name, 1)
    }
}

async fn fill(fixture: &Fixture, rows: &[Summary]) {
    let mut appends = JoinSet::new();
    for row in rows {
        if appends.len() == IN_FLIGHT {
            appends.join_next().await.unwrap().unwrap();
        }
        let store = fixture.shared();
        let append = Append { row: Some(Box::new(row.clone())), ..append(row.run.as_str(), 0, &["a"]) };
        appends.spawn(async move {
            store.append(append).await.unwrap();
        });
    }
    while let Some(appended) = appends.join_next().await {
        appended.unwrap();
    }
}

fn random_text(random: &mut SplitMix) -> String {
    let mut text = pick(random, &TERMS).to_owned();
    for _ in 0..random.below(4) {
        let joined = pick(random, &["and", "and", "and", "or", "and not"]);
        text = format!("({text}) {joined} ({})", pick(random, &TERMS));
    }
    text
}

/// Returns the runs of all pages, and the number of pages that ended early.
async fn walk(fixture: &Fixture, mut filter: RunFilter) -> (Vec<String>, usize) {
    let mut found = vec![];
    let mut early = 0;
    for _ in 0..1_000 {
        let page = fixture.store.runs(filter.clone()).await.unwrap();
        let count = page.items.len();
        assert!(count <= filter.limit as usize && page.unreadable.is_empty());
        found.extend(page.items.into_iter().map(|row| row.summary.run.to_string()));
        let Some(next) = page.next else { return (found, early) };
        assert!(filter.after.as_ref() != Some(&next), "the cursor stays");
        early += usize::from(count < filter.limit as usize);
        filter.after = Some(next);
    }
    panic!("the list does not end: {filter:?}")
}

/// Among thousands of runs, conditions select on every store what they select by definition, in every order, over pages
/// that end at their limit or early.
pub async fn long_lists_are_what_conditions_define(fixture: &Fixture) {
    let mut random = SplitMix::new(71);
    let [many, fewer] = RUNS;
    let is_database = fixture.capabilities.atomic_rows;
    let rows: Vec<Summary> =
        (0..if is_database { many } else { fewer }).map(|number| sample(&mut random, number)).collect();
    fill(fixture, &rows).await;
    let texts: Vec<String> = if is_database {
        let random = (0..RANDOM).map(|_| random_text(&mut random));
        HOSTILE.into_iter().map(str::to_owned).chain(random).collect()
    } else {
        HOSTILE.map(str::to_owned).to_vec()
    };
    let mut early = 0;
    for text in texts {
        let condition = Some(Arc::new(Condition::parse(&text, Millis(0)).unwrap()));
        let order = pick(&mut random, &[RunOrder::Newest, RunOrder::Oldest, RunOrder::Recovered]);
        let limit = pick(&mut random, &[50, 333, 2_000]);
        let filter = RunFilter { condition, order, limit, ..RunFilter::default() };
        let (found, ended_early) = walk(fixture, filter.clone()).await;
        early += ended_early;
        let expected = expected(&rows, &filter);
        assert_eq!(found.len(), expected.len(), "{text}, {order:?}, {limit}");
        assert!(found == expected, "{text}, {order:?}, {limit}: other runs or another order");
    }
    assert_eq!(early > 0, fixture.capabilities.bounded_pages, "{early} pages ended early");
}
