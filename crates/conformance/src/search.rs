//! Lists by a condition: every store gives exactly what the condition selects, over pages of any size.

use std::sync::Arc;

use goldseam_core::attribute::{AttributeValue, Attributes};
use goldseam_core::event::Tags;
use goldseam_core::search::{Condition, ConditionSubject, GroupBy, Literal, Operator, RunField};
use goldseam_core::summary::Trouble;
use goldseam_core::{Millis, NodeId, Seq, Status, Summary, TagKey, WorkflowName};
use goldseam_store::api::{Append, Expect, GroupQuery, Row, RunFilter, RunOrder};
use goldseam_store::splitmix::SplitMix;

use super::Fixture;
use super::make::{ALL, append, at, run, summary};

/// Number of random runs.
const RUNS: u64 = 60;
/// Number of random conditions.
const CONDITIONS: u64 = 150;
const TEXTS: [&str; 5] = ["eu", "us", "", "e\"u", "Jürgen 🏺"];

pub(super) fn key(name: &str) -> TagKey {
    TagKey::new(name).unwrap()
}

pub(super) fn pick<T: Copy>(random: &mut SplitMix, from: &[T]) -> T {
    from[usize::try_from(random.below(from.len() as u64)).unwrap()]
}

fn small(random: &mut SplitMix) -> i64 {
    i64::try_from(random.below(7)).unwrap() - 3
}

fn value(random: &mut SplitMix) -> AttributeValue {
    match random.below(8) {
        0 | 1 => pick(random, &TEXTS).into(),
        2 => small(random).into(),
        3 => pick(random, &[0.5, -1.25, 3.0, 1e300, 9_007_199_254_740_992.0]).into(),
        4 => pick(random, &[9_007_199_254_740_993, i64::MIN, i64::MAX]).into(),
        5 => AttributeValue::Time(at(small(random))),
        6 => random.one_in(2).into(),
        _ => {
            let count = random.below(3);
            AttributeValue::List((0..count).map(|_| pick(random, &TEXTS).to_owned()).collect())
        }
    }
}

fn random_run(random: &mut SplitMix, number: u64) -> Summary {
    let status = pick(random, &Status::ALL);
    let names = ["amount", "region", "status", "9lives"];
    let mut attributes = Attributes::new();
    for name in names {
        if !random.one_in(3) {
            attributes.insert(key(name), value(random));
        }
    }
    let trouble = matches!(status, Status::Failed | Status::Parked).then(|| Trouble {
        cause: pick(random, &["timeout", "panic"]).to_owned(),
        message: pick(random, &["took 5 s", "boom"]).to_owned(),
        code: random.one_in(2).then(|| "E1".to_owned()),
        step: None,
    });
    let created_at = at(i64::try_from(random.below(20)).unwrap());
    let tags = if random.one_in(2) {
        Tags::from([(key("who"), pick(random, &TEXTS).to_owned())])
    } else {
        Tags::new()
    };
    Summary {
        status,
        workflow: WorkflowName::new(pick(random, &["order", "mail", "orders"])).unwrap(),
        version: u32::try_from(random.below(3)).unwrap(),
        created_at,
        last_event_at: Millis(created_at.0 + 5),
        finished_at: status.is_terminal().then_some(Millis(created_at.0 + 5)),
        recovered_at: random.one_in(3).then_some(Millis(created_at.0 + 3)),
        owner: random.one_in(4).then(|| NodeId::new("n1").unwrap()),
        parent: random.one_in(4).then(|| run("r0")),
        attributes_at: (!attributes.is_empty()).then_some(Seq(1)),
        attributes,
        tags,
        trouble,
        ..summary(&format!("r{number}"), 1)
    }
}

fn literal(random: &mut SplitMix) -> Literal {
    match value(random) {
        AttributeValue::Text(text) => Literal::Text(text),
        AttributeValue::Integer(number) => Literal::Integer(number),
        AttributeValue::Number(number) => Literal::Number(number),
        AttributeValue::Time(at) => Literal::Time(at),
        AttributeValue::Boolean(value) => Literal::Boolean(value),
        AttributeValue::List(_) => Literal::Text(pick(random, &["eu", "\0", "nothing"]).to_owned()),
    }
}

fn operator(random: &mut SplitMix, value: &Literal) -> Operator {
    let equal = [Operator::Equal, Operator::NotEqual];
    let order = [Operator::Less, Operator::AtMost, Operator::Greater, Operator::AtLeast];
    match value {
        Literal::Text(_) if random.one_in(3) => pick(random, &[Operator::Contains, Operator::StartsWith]),
        Literal::Integer(_) | Literal::Number(_) | Literal::Time(_) if random.one_in(2) => {
            pick(random, &order)
        }
        _ => pick(random, &equal),
    }
}

fn term(random: &mut SplitMix) -> Condition {
    let attribute =
        ConditionSubject::Attribute(key(pick(random, &["amount", "region", "status", "9lives", "none"])));
    let field = |field| ConditionSubject::Field(field);
    let (subject, value) = match random.below(12) {
        0..=4 => (attribute, literal(random)),
        5 => (ConditionSubject::Tag(key("who")), Literal::Text(pick(random, &TEXTS).to_owned())),
        6 => (field(RunField::Status), Literal::Status(pick(random, &Status::ALL))),
        7 => {
            let field = pick(
                random,
                &[
                    RunField::Workflow,
                    RunField::Cause,
                    RunField::Owner,
                    RunField::Parent,
                    RunField::Id,
                    RunField::Error,
                ],
            );
            (
                ConditionSubject::Field(field),
                Literal::Text(pick(random, &["order", "timeout", "n1", "r0", "r7", "boom", "o"]).to_owned()),
            )
        }
        8 => {
            let field =
                pick(random, &[RunField::Created, RunField::Ended, RunField::Recovered, RunField::Updated]);
            (ConditionSubject::Field(field), Literal::Time(at(i64::try_from(random.below(20)).unwrap())))
        }
        9 => {
            (field(pick(random, &[RunField::Root, RunField::Terminated])), Literal::Boolean(random.one_in(2)))
        }
        10 => (field(RunField::Version), Literal::Integer(small(random))),
        _ => {
            let fields = [
                RunField::Owner,
                RunField::Parent,
                RunField::Cause,
                RunField::Code,
                RunField::Ended,
                RunField::Recovered,
            ];
            let subject =
                if random.one_in(2) { attribute } else { ConditionSubject::Field(pick(random, &fields)) };
            return Condition::Has(subject);
        }
    };
    if random.one_in(5) {
        let values = vec![value.clone(), value];
        return Condition::In { subject, values };
    }
    let operator = match &value {
        Literal::Status(_) | Literal::Boolean(_) => pick(random, &[Operator::Equal, Operator::NotEqual]),
        value => operator(random, value),
    };
    Condition::Compare { subject, operator, value }
}

fn random_condition(random: &mut SplitMix, depth: u32) -> Condition {
    let part = |random: &mut SplitMix| random_condition(random, depth + 1);
    match random.below(if depth > 2 { 3 } else { 8 }) {
        0..=2 => term(random),
        3 | 4 => Condition::And(vec![part(random), part(random), term(random)]),
        5 | 6 => Condition::Or(vec![part(random), part(random)]),
        _ => Condition::Not(Box::new(part(random))),
    }
}

async fn all_pages(fixture: &Fixture, filter: &RunFilter) -> Vec<String> {
    let mut found = vec![];
    let mut filter = filter.clone();
    for _ in 0..10_000 {
        let page = fixture.store.runs(filter.clone()).await.unwrap();
        assert!(page.items.len() <= filter.limit as usize);
        assert!(page.unreadable.is_empty(), "{:?}", page.unreadable);
        found.extend(page.items.iter().map(|row| row.summary.run.as_str().to_owned()));
        match page.next {
            Some(next) => filter.after = Some(next),
            None => return found,
        }
    }
    panic!("the list does not end: {filter:?}")
}

pub(super) fn expected(runs: &[Summary], filter: &RunFilter) -> Vec<String> {
    let is_listed = |row: &Row| {
        filter.selects(row) && (filter.order != RunOrder::Recovered || row.summary.recovered_at.is_some())
    };
    let rows = runs.iter().map(|summary| Row { summary: summary.clone(), task: None, updated_at: Millis(1) });
    let mut listed: Vec<(Millis, String)> = rows
        .filter(is_listed)
        .map(|row| match filter.order {
            RunOrder::Recovered => (row.summary.recovered_at.unwrap(), row.summary.run.to_string()),
            RunOrder::Newest | RunOrder::Oldest => (row.summary.created_at, row.summary.run.to_string()),
        })
        .collect();
    listed.sort();
    if filter.order != RunOrder::Oldest {
        listed.reverse();
    }
    listed.into_iter().map(|(_, run)| run).collect()
}

/// Random conditions over random runs select on every store what they select by definition, in every order, over pages
/// of any size; also after the attributes of runs have changed.
pub async fn conditions_select_what_they_define(fixture: &Fixture) {
    let mut random = SplitMix::new(19);
    let mut runs: Vec<Summary> = (0..RUNS).map(|number| random_run(&mut random, number)).collect();
    for row in &runs {
        let name = row.run.as_str().to_owned();
        fixture.append(Append { row: Some(Box::new(row.clone())), ..append(&name, 0, &["a"]) }).await;
    }
    for row in runs.iter_mut().step_by(3) {
        let changed = random_run(&mut random, 0);
        *row = Summary {
            as_of: Seq(2),
            attributes: if random.one_in(4) { Attributes::new() } else { changed.attributes },
            attributes_at: Some(Seq(2)),
            ..row.clone()
        };
        let name = row.run.as_str().to_owned();
        fixture.append(Append { row: Some(Box::new(row.clone())), ..append(&name, 1, &["b"]) }).await;
    }
    for number in 0..CONDITIONS {
        let condition = random_condition(&mut random, 0);
        let text = condition.to_string();
        let mut filter = RunFilter {
            condition: Some(Arc::new(condition)),
            order: pick(&mut random, &[RunOrder::Newest, RunOrder::Oldest, RunOrder::Recovered]),
            limit: pick(&mut random, &[1, 3, 7, ALL]),
            ..RunFilter::default()
        };
        if random.one_in(5) {
            filter.statuses = vec![pick(&mut random, &Status::ALL), Status::Parked];
        }
        if random.one_in(5) {
            filter.tag = Some((key("who"), pick(&mut random, &TEXTS).to_owned()));
        }
        assert_eq!(
            all_pages(fixture, &filter).await,
            expected(&runs, &filter),
            "{number}: {text}\n{filter:?}"
        );
    }
}

/// A row that is rewritten by compare-and-set is found by its new attributes and not by its old ones.
pub async fn attributes_follow_the_row(fixture: &Fixture) {
    let with = |value: AttributeValue| Summary {
        attributes: Attributes::from([(key("stage"), value)]),
        ..summary("a", 1)
    };
    let found = async |text: &str| {
        let condition = Condition::parse(text, Millis(0)).unwrap();
        let filter = RunFilter { condition: Some(Arc::new(condition)), limit: ALL, ..RunFilter::default() };
        all_pages(fixture, &filter).await.len()
    };
    fixture.append(Append { row: Some(Box::new(with("new".into()))), ..append("a", 0, &["a"]) }).await;
    assert_eq!((found("stage = \"new\"").await, found("stage = \"paid\"").await), (1, 0));
    let row = fixture.store.head(&run("a")).await.unwrap().unwrap().row.unwrap();
    assert_eq!(row.summary.attributes, with("new".into()).attributes, "the row keeps the values");
    let paid = Row { summary: with("paid".into()), ..row.clone() };
    fixture.store.put_row(paid, Expect::Version(row.version())).await.unwrap();
    assert_eq!((found("stage = \"new\"").await, found("stage = \"paid\"").await), (0, 1));
}

/// Counts by status agree with the rows, of all runs and of one workflow; runs without a row are not counted.
pub async fn statuses_are_counted(fixture: &Fixture) {
    let counts = async |workflow: Option<&WorkflowName>| {
        let mut counts = fixture.store.status_counts(workflow).await.unwrap();
        counts.sort_by_key(|(status, _)| status.as_str());
        counts
    };
    assert_eq!(counts(None).await, []);
    let mut random = SplitMix::new(21);
    let runs: Vec<Summary> = (0..RUNS).map(|number| random_run(&mut random, number)).collect();
    for row in &runs {
        let name = row.run.as_str().to_owned();
        fixture.append(Append { row: Some(Box::new(row.clone())), ..append(&name, 0, &["a"]) }).await;
    }
    fixture.append(append("lost", 0, &["a"])).await;
    for workflow in [None, Some("order"), Some("mail"), Some("none")] {
        let workflow = workflow.map(|name| WorkflowName::new(name).unwrap());
        let is_counted = |row: &&Summary| workflow.as_ref().is_none_or(|name| row.workflow == *name);
        let mut expected: Vec<(Status, u64)> = Status::ALL
            .into_iter()
            .map(|status| {
                let of_status = runs.iter().filter(is_counted).filter(|row| row.status == status);
                (status, of_status.count() as u64)
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        expected.sort_by_key(|(status, _)| status.as_str());
        assert_eq!(counts(workflow.as_ref()).await, expected, "{workflow:?}");
    }
}

/// Counts and groups agree with the list.
pub async fn runs_are_counted_and_grouped(fixture: &Fixture) {
    for (name, status, region) in [
        ("a", Status::Failed, "eu"),
        ("b", Status::Failed, "us"),
        ("c", Status::Completed, "eu"),
        ("d", Status::Queued, "eu"),
    ] {
        let finished_at = status.is_terminal().then_some(at(9));
        let attributes = Attributes::from([(key("region"), region.into())]);
        let row = Summary { status, finished_at, attributes, ..summary(name, 1) };
        fixture.append(Append { row: Some(Box::new(row)), ..append(name, 0, &["a"]) }).await;
    }
    let eu = Condition::parse("region = \"eu\"", Millis(0)).unwrap();
    let filter = RunFilter { condition: Some(Arc::new(eu)), ..RunFilter::default() };
    let counted = fixture.store.groups(GroupQuery::count(filter.clone())).await.unwrap();
    assert_eq!((counted.total, counted.groups.len()), (3, 0));
    let by = fixture.store.groups(GroupQuery::by(filter, GroupBy::Status, 2)).await.unwrap();
    let keys: Vec<(Option<&str>, u64)> =
        by.groups.iter().map(|group| (group.key.as_deref(), group.count)).collect();
    assert_eq!((keys.len(), by.left_out, by.total), (2, 1, 3), "{keys:?}");
    let all = fixture
        .store
        .groups(GroupQuery::by(RunFilter::default(), GroupBy::Attribute(key("region")), 9))
        .await;
    let all = all.unwrap();
    assert_eq!(all.groups[0].key.as_deref(), Some("eu"));
    assert_eq!((all.groups[0].count, all.groups[1].count), (3, 1));
    assert_eq!(all.groups[0].workflows.iter().next().map(String::as_str), Some("checkout@1"));
}
