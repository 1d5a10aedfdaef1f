//! The grammar, its errors, and what conditions select.

use proptest::prelude::*;

use super::*;
use crate::attribute::Attributes;
use crate::event::{Event, Recorded, RunQueued, Tags};
use crate::hash::{Hash, WriteId};
use crate::id::{QueueName, RunId, WorkflowName};
use crate::payload::Payload;
use crate::summary::Summary;
use crate::time::Seq;

const NOW: Millis = Millis(1_700_000_000_000);

fn parse(text: &str) -> Condition {
    Condition::parse(text, NOW).unwrap_or_else(|error| panic!("{error}\n{}", error.caret()))
}

fn canonical(text: &str) -> String {
    parse(text).to_string()
}

fn error(text: &str) -> ConditionError {
    Condition::parse(text, NOW).expect_err(text)
}

fn key(name: &str) -> TagKey {
    TagKey::new(name).unwrap()
}

fn run(attributes: Attributes) -> Summary {
    let event = Event::RunQueued(RunQueued {
        workflow: WorkflowName::new("order").unwrap(),
        version: 2,
        input: Payload::null(),
        queue: QueueName::new("main").unwrap(),
        priority: -3,
        tags: Tags::from([(key("region"), "eu".to_owned())]),
        attributes,
        parent: None,
        plan: Vec::new(),
        trace: None,
        start_at: None,
        deadline: None,
        lane: None,
    });
    let recorded = Recorded {
        seq: Seq(1),
        at: Millis(NOW.0 - 3_600_000),
        branch: crate::branch::BranchId::ROOT,
        epoch: None,
        write: WriteId(1),
        prev: Hash::ZERO,
        bytes: 0,
        event,
    };
    Summary::first(&RunId::new("ord-7").unwrap(), &recorded, Hash::ZERO).unwrap()
}

fn sample() -> Summary {
    run(Attributes::from([
        (key("region"), "eu".into()),
        (key("amount"), 120.into()),
        (key("rate"), 1.5.into()),
        (key("paid"), true.into()),
        (key("due"), AttributeValue::Time(Millis(NOW.0 + 1_000))),
        (key("skus"), ["a-1", "b-2"].into()),
    ]))
}

#[test]
fn canonical_text_has_absolute_times_and_one_form() {
    for (text, shown) in [
        ("status = failed", "status = failed"),
        ("STATUS_x = \"a\" AND Not (root)", "STATUS_x = \"a\" and not root = true"),
        ("started > -2h", "created > 2023-11-14T20:13:20.000Z"),
        ("created > now", "created > 2023-11-14T22:13:20.000Z"),
        ("created >= \"2026-11-18\"", "created >= 2026-11-18T00:00:00.000Z"),
        ("workflow not in (order, mail)", "not workflow in (\"order\", \"mail\")"),
        ("a = 1 or b = 2 and c = 3", "a = 1 or (b = 2 and c = 3)"),
        ("attr.status = \"x\" and attr.mine = 1", "attr.status = \"x\" and mine = 1"),
        ("tag.region = \"e\\u{75}\"", "tag.region = \"eu\""),
        ("amount >= 1e3", "amount >= 1000.0"),
        ("has tag.region", "has tag.region"),
    ] {
        assert_eq!(canonical(text), shown, "{text}");
        assert_eq!(parse(shown), parse(text), "{text}");
    }
}

#[test]
fn the_examples_of_the_guide_are_conditions() {
    let guide = include_str!("../../../../docs/guides/searching.md");
    let (_, rest) = guide.split_once("```text conditions\n").unwrap();
    let examples: Vec<&str> = rest.split_once("```").unwrap().0.lines().collect();
    assert!(examples.len() >= 8);
    for text in examples {
        let condition = parse(text);
        assert_eq!(parse(&condition.to_string()), condition, "{text}");
    }
    for field in RunField::ALL {
        assert!(guide.contains(&format!("`{}`", field.as_str())), "{field:?} is not in the guide");
    }
}

#[test]
fn selects_by_fields_tags_and_typed_attributes() {
    let run = sample();
    for (text, selects) in [
        ("status in (failed, queued) and region = \"eu\" and amount > 100 and started > -2h", true),
        ("id = ord-7 and workflow starts_with ord and version = 2 and priority < 0", true),
        ("root and not has parent and not has owner and owner != n-1", true),
        ("parent = p-1 or terminated = true", false),
        ("tag.region = \"eu\" and has tag.region and not has tag.other", true),
        ("amount = 120.0 and amount <= 120 and rate > 1 and rate < 2", true),
        ("amount = \"120\"", false),
        ("amount != \"120\"", true),
        ("paid = true and due > now and due < +2s", true),
        ("skus = \"a-1\" and skus contains \"2\" and skus starts_with \"b\"", true),
        ("skus = \"a-2\"", false),
        ("region in (\"us\", \"eu\")", true),
        ("missing < 5 or missing > 5 or missing = 5", false),
        ("not missing < 5", true),
        ("ended > -1d or has ended or cause = x or error contains \"x\" or code = x or step = x", false),
    ] {
        assert_eq!(parse(text).matches(&run), selects, "{text}");
    }
}

#[test]
fn integers_beyond_floats_are_compared_exactly() {
    let big = (1_i64 << 53) + 1;
    let run = run(Attributes::from([(key("n"), big.into())]));
    for (text, selects) in [
        ("n = 9007199254740993", true),
        ("n = 9007199254740992.0", false),
        ("n > 9007199254740992.0", true),
        ("n = 9007199254740992", false),
    ] {
        assert_eq!(parse(text).matches(&run), selects, "{text}");
    }
    assert_eq!(error("n = 9223372036854775808").code(), "GS0139");
}

#[test]
fn errors_have_a_code_a_place_and_a_hint() {
    for (text, code, column, what) in [
        ("", "GS0139", 1, "expected the name of a field or an attribute, found the end"),
        ("status =", "GS0139", 9, "expected a value, found the end"),
        ("status = faild", "GS0141", 10, "\"faild\" is not a status (did you mean failed?)"),
        ("stauts = failed", "GS0140", 1, "`stauts` is not a field (did you mean status?)"),
        ("amount > \"x\"", "GS0141", 10, "`>` compares numbers and times, found text"),
        ("created > 5", "GS0141", 11, "`created` is compared with a time"),
        ("version = \"2\"", "GS0141", 11, "`version` is compared with a number"),
        ("region = eu", "GS0141", 10, "`eu` is not a value"),
        ("a = 1 and", "GS0139", 10, "expected the name of a field or an attribute, found the end"),
        ("a = 1 b = 2", "GS0139", 7, "expected `and`, `or` or the end, found `b`"),
        ("(a = 1", "GS0139", 7, "expected `)`, found the end"),
        ("a == 1", "GS0139", 3, "`==` is not an operator"),
        ("a = 'x'", "GS0139", 5, "a text needs double quotes"),
        ("a = \"x", "GS0139", 5, "this text has no closing quote"),
        ("a = \"\\q\"", "GS0139", 6, "unknown escape"),
        ("a = \"\\u{+41}\"", "GS0139", 6, "unknown escape"),
        ("a in ()", "GS0139", 7, "expected a value, found `)`"),
        ("a in (1, \"x\")", "GS0141", 10, "this list mixes a number and text"),
        ("a = 2026-13-40", "GS0139", 5, "`2026-13-40` is not a number and not a time"),
        ("a contains 5", "GS0141", 12, "`contains` needs a text, found a number"),
        ("ü = 1", "GS0139", 1, "unexpected character 'ü'"),
        ("a..b = 1", "GS0140", 1, "is not a valid tag id"),
    ] {
        let error = error(text);
        assert_eq!((error.code(), error.column()), (code, column), "{text}: {error}");
        assert!(error.to_string().contains(what), "{text}: {error}");
        assert!(!error.hint.is_empty(), "{text}");
    }
    assert_eq!(error("a = \"ü\" and b = 'x'").caret(), "a = \"ü\" and b = 'x'\n                ^");
    assert_eq!(error("status = faild").caret(), "status = faild\n         ^^^^^");
}

#[test]
fn length_depth_and_size_are_limited() {
    let deep = |depth: usize| format!("{}a = 1{}", "(".repeat(depth), ")".repeat(depth));
    parse(&deep(DEPTH_MAX));
    assert_eq!(error(&deep(DEPTH_MAX + 1)).code(), "GS0139");
    assert_eq!(error(&"not ".repeat(DEPTH_MAX + 1)).code(), "GS0139");
    let wide = |count: usize| vec!["a = 1"; count].join(" or ");
    parse(&wide(TERMS_MAX));
    assert!(error(&wide(TERMS_MAX + 1)).to_string().contains("comparisons"));
    let list = |count: usize| format!("a in ({})", vec!["1"; count].join(","));
    parse(&list(VALUES_MAX));
    assert!(error(&list(VALUES_MAX + 1)).to_string().contains("values"));
    let long = format!("a = \"{}\"", "ü".repeat(LENGTH_MAX));
    assert!(error(&long).to_string().contains("4096"));
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        "[a-c\"\\\\\n\u{0}ü ]{0,4}".prop_map(Literal::Text),
        any::<i64>().prop_map(Literal::Integer),
        (-5_i64..5).prop_map(Literal::Integer),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| Literal::Number(n + 0.0)),
        (-4_000_000_000_000_i64..4_000_000_000_000).prop_map(|at| Literal::Time(Millis(at))),
        any::<bool>().prop_map(Literal::Boolean),
    ]
}

fn attribute_name() -> impl Strategy<Value = ConditionSubject> {
    prop_oneof![Just("a"), Just("b"), Just("status"), Just("and"), Just("9"), Just("x-y.z"), Just("tag.q")]
        .prop_map(|name| ConditionSubject::Attribute(key(name)))
}

fn term() -> impl Strategy<Value = Condition> {
    let signs = [Operator::Equal, Operator::NotEqual, Operator::Less, Operator::AtMost, Operator::Greater];
    let compare = (attribute_name(), literal(), 0..signs.len(), any::<bool>()).prop_map(
        move |(subject, value, at, part)| {
            let operator = match &value {
                Literal::Text(_) if part => Operator::Contains,
                Literal::Integer(_) | Literal::Number(_) | Literal::Time(_) => signs[at],
                _ => signs[at % 2],
            };
            Condition::Compare { subject, operator, value }
        },
    );
    let list =
        (attribute_name(), proptest::collection::vec(any::<i64>(), 1..4)).prop_map(|(subject, values)| {
            Condition::In { subject, values: values.into_iter().map(Literal::Integer).collect() }
        });
    let statuses =
        proptest::sample::subsequence(Status::ALL.to_vec(), 1..4).prop_map(|statuses| Condition::In {
            subject: ConditionSubject::Field(RunField::Status),
            values: statuses.into_iter().map(Literal::Status).collect(),
        });
    prop_oneof![4 => compare, 1 => list, 1 => statuses, 1 => attribute_name().prop_map(Condition::Has)]
}

fn condition() -> impl Strategy<Value = Condition> {
    term().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Condition::Not(Box::new(inner))),
            proptest::collection::vec(inner.clone(), 2..4).prop_map(Condition::And),
            proptest::collection::vec(inner, 2..4).prop_map(Condition::Or),
        ]
    })
}

fn value() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        "[a-c]{0,2}".prop_map(AttributeValue::Text),
        (-5_i64..5).prop_map(AttributeValue::Integer),
        (-5.0_f64..5.0).prop_map(AttributeValue::Number),
        any::<bool>().prop_map(AttributeValue::Boolean),
        (-9_i64..9).prop_map(|at| AttributeValue::Time(Millis(at))),
        proptest::collection::vec("[a-c]{0,2}", 0..3).prop_map(AttributeValue::List),
    ]
}

/// Evaluates in another way: to the negation normal form first, and by sets of texts.
fn model(condition: &Condition, run: &Summary, positive: bool) -> bool {
    match condition {
        Condition::Not(inner) => model(inner, run, !positive),
        Condition::And(parts) if positive => !parts.iter().any(|part| !model(part, run, true)),
        Condition::And(parts) => parts.iter().any(|part| model(part, run, false)),
        Condition::Or(parts) if positive => parts.iter().any(|part| model(part, run, true)),
        Condition::Or(parts) => !parts.iter().any(|part| !model(part, run, false)),
        term => term.matches(run) == positive,
    }
}

proptest! {
    #[test]
    fn canonical_text_parses_to_the_same_condition(condition in condition()) {
        let text = condition.to_string();
        if text.len() <= LENGTH_MAX {
            prop_assert_eq!(Condition::parse(&text, NOW), Ok(condition), "{}", text);
        }
    }

    #[test]
    fn negation_and_junctions_follow_the_laws_of_logic(
        condition in condition(), a in proptest::option::of(value()), b in proptest::option::of(value()),
    ) {
        let named = [("a", a), ("b", b)].into_iter().filter_map(|(name, value)| Some((key(name), value?)));
        let run = run(named.collect());
        prop_assert_eq!(condition.matches(&run), model(&condition, &run, true));
    }

    #[test]
    fn any_text_is_a_condition_or_an_error_with_a_place(text in "\\PC{0,40}") {
        if let Err(error) = Condition::parse(&text, NOW) {
            prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at));
            prop_assert!(error.caret().contains('^'));
        }
    }
}
