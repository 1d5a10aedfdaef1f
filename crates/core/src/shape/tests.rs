//! A schema accepts everything its type accepts, and refuses common mistakes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Accepted, example_of, probe};
use crate::form::Form;
use crate::limits::Limits;
use crate::payload::Payload;

#[derive(Deserialize)]
#[expect(dead_code, reason = "read by serde only")]
struct Order {
    id: String,
    cents: u32,
    note: Option<String>,
    #[serde(default)]
    lines: Vec<Line>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read by serde only")]
struct Line {
    sku: String,
    qty: i8,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read by serde only")]
struct Named {
    #[serde(alias = "ident")]
    id: u8,
    when: Day,
    last: bool,
}

/// A type that accepts only a date.
struct Day;

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_day = text.len() == 10 && text.as_bytes()[4] == b'-';
        is_day.then_some(Self).ok_or_else(|| serde::de::Error::custom("no day"))
    }
}

/// A type that refuses every dummy of the probe.
struct Picky;

impl<'de> Deserialize<'de> for Picky {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        assert!(!text.is_empty(), "an empty one was never expected");
        (text == "open sesame").then_some(Self).ok_or_else(|| serde::de::Error::custom("no"))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "read by serde only")]
enum Verdict {
    Yes,
    No,
    Later { days: u8 },
    Ask(String),
    Both(u8, String),
}

#[derive(Deserialize)]
enum Loose {
    A,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read by serde only")]
struct Tree {
    name: String,
    children: Vec<Tree>,
    twin: Option<Box<Tree>>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read by serde only")]
enum Formula {
    Both(Box<Formula>, Box<Formula>),
    Number(i64),
}

#[derive(Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "read by serde only")]
enum Either {
    Number(u8),
    Words { text: String },
}

#[derive(Deserialize)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "read by serde only")]
enum Tagged {
    A { n: u8 },
    B,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read by serde only")]
struct Flat {
    id: u8,
    #[serde(flatten)]
    line: Line,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read by serde only")]
struct Wrapped(Order);

#[derive(Deserialize)]
struct Unit;

/// Returns whether the schema of `T` accepts this value.
fn passes<T: serde::de::DeserializeOwned>(value: &Value) -> bool {
    let Some(schema) = Accepted::by::<T>().schema() else { return true };
    Form::Schema(schema).check(&Payload::of(value, &Limits::default()).unwrap()).is_ok()
}

fn refuses<T: serde::de::DeserializeOwned>(values: &[Value]) {
    for value in values {
        assert!(!passes::<T>(value), "{value} passes {:?}", Accepted::by::<T>().schema());
    }
}

#[test]
fn the_usual_mistakes_are_refused() {
    refuses::<String>(&[json!({}), Value::Null, json!(1), json!(["yes"])]);
    refuses::<u32>(&[json!("1"), json!(-1), json!(1.5), Value::Null, json!({})]);
    refuses::<i64>(&[json!("1"), json!(1.5)]);
    refuses::<()>(&[json!({}), json!("x")]);
    refuses::<bool>(&[json!("true"), json!(1)]);
    let whole = json!({ "id": "a", "cents": 1 });
    assert!(passes::<Order>(&whole) && passes::<Wrapped>(&whole));
    let wrong = [json!({}), json!("yes"), json!([]), json!({ "id": "a" }), json!({ "id": 1, "cents": 1 })];
    refuses::<Order>(&wrong);
    refuses::<Wrapped>(&wrong);
    refuses::<Order>(&[json!({ "id": "a", "cents": 1, "lines": [{ "sku": "x" }] })]);
    refuses::<Vec<u8>>(&[json!({}), json!(["x"])]);
    refuses::<(u8, String)>(&[json!([]), json!([1]), json!(["a", 1])]);
    refuses::<Verdict>(&[json!("maybe"), json!({ "later": {} }), json!({ "ask": 1 }), json!(null)]);
    refuses::<Named>(&[json!({ "id": "x" }), json!({ "last": 1 }), json!(1)]);
    refuses::<BTreeMap<String, u8>>(&[json!([]), json!({ "a": "b" })]);
    refuses::<Tree>(&[json!({ "name": 1, "children": [] }), json!({ "children": [] })]);
}

/// Returns any small JSON, made of the words in the types above.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("id"),
        Just("ident"),
        Just("cents"),
        Just("note"),
        Just("lines"),
        Just("sku"),
        Just("qty"),
        Just("yes"),
        Just("no"),
        Just("later"),
        Just("days"),
        Just("ask"),
        Just("both"),
        Just("A"),
        Just("B"),
        Just("kind"),
        Just("n"),
        Just("name"),
        Just("children"),
        Just("twin"),
        Just("Number"),
        Just("Both"),
        Just("text"),
        Just("when"),
        Just("last"),
        Just("2000-01-01"),
        Just("open sesame"),
        Just("7"),
        Just(""),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..300).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(word.clone(), inner, 0..5).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

/// Returns the example of a type, with one part replaced.
fn changed<T: serde::de::DeserializeOwned>(with: &Value, at: usize) -> Value {
    let mut value = super::example::example(&Accepted::by::<T>().shape);
    let mut place = String::new();
    for depth in 0..3 {
        let n = (at >> (depth * 4)) & 15;
        let step = match value.pointer(&place) {
            Some(Value::Object(fields)) if n < 12 => fields.keys().nth(n % fields.len().max(1)).cloned(),
            Some(Value::Array(items)) if n < 12 && !items.is_empty() => Some((n % items.len()).to_string()),
            _ => None,
        };
        let Some(step) = step else { break };
        place = format!("{place}/{step}");
    }
    *value.pointer_mut(&place).unwrap() = with.clone();
    value
}

macro_rules! never_refuses {
    ($($name:ident: $type:ty),* $(,)?) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 200, ..ProptestConfig::default() })]
            $(#[test]
            fn $name(value in any_json(), at in any::<usize>()) {
                for value in [value.clone(), changed::<$type>(&value, at)] {
                    if probe::accepts::<$type>(&value) {
                        prop_assert!(passes::<$type>(&value), "{} is refused by {:?}", value, Accepted::by::<$type>().schema());
                        prop_assert_eq!(Accepted::by::<$type>().shape.difference(&value), None);
                    }
                }
            })*
        }
    };
}

never_refuses! {
    never_refuses_a_record: Order,
    never_refuses_a_newtype: Wrapped,
    never_refuses_other_names_and_rules: Named,
    never_refuses_a_choice: Verdict,
    never_refuses_an_open_choice: Loose,
    never_refuses_what_holds_itself: Tree,
    never_refuses_a_choice_that_holds_itself: Formula,
    never_refuses_an_untagged_choice: Either,
    never_refuses_a_tagged_choice: Tagged,
    never_refuses_flattened_fields: Flat,
    never_refuses_what_is_picky: Picky,
    never_refuses_tuples: (u8, Option<String>, Vec<bool>),
    never_refuses_maps: BTreeMap<u8, Verdict>,
    never_refuses_anything: Value,
    never_refuses_nothing: Unit,
}

#[test]
fn examples_of_derived_schemas_are_accepted_by_type_and_schema() {
    fn check<T: serde::de::DeserializeOwned>() {
        let schema = Accepted::by::<T>().schema().unwrap();
        let example = example_of(&Form::Schema(schema.clone())).unwrap();
        assert!(probe::accepts::<T>(&example), "{example} for {schema}");
    }
    check::<Order>();
    check::<Named>();
    check::<Verdict>();
    check::<Tree>();
    check::<u8>();
    check::<()>();
    check::<Vec<Line>>();
    check::<(u8, String)>();
}

#[test]
fn examples_of_other_schemas_match_or_are_absent() {
    let object = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer", "minimum": 5 } } });
    assert_eq!(example_of(&Form::Schema(object)), Some(json!({ "n": 5 })));
    assert_eq!(example_of(&Form::Schema(json!({ "type": "string", "minLength": 6 }))), Some(json!("textxx")));
    assert_eq!(example_of(&Form::Schema(json!({ "type": "string", "pattern": "^[0-9]{3}$" }))), None);
    assert_eq!(example_of(&Form::Choice(vec!["yes".into(), "no".into()])), Some(json!("yes")));
}

#[test]
fn a_mismatch_names_each_side_once() {
    let shape = Accepted::by::<Order>().shape;
    let said = shape.misfit(&json!("hush"), None);
    assert_eq!((said.matches("a whole number from 0").count(), said.matches("got a text").count()), (1, 1));
    assert_eq!(
        shape.misfit(&json!({ "id": "hush" }), None),
        "field `cents` is missing; the log has an object {id: a text}"
    );
    let fits = json!({ "id": "a", "cents": 1 });
    let said = shape.misfit(&fits, Some("duplicate field `id`".to_owned()));
    assert!(said.starts_with("duplicate field `id`; the log has an object"), "{said}");
}

#[test]
fn a_difference_names_fields_and_kinds_and_no_value() {
    let difference = |value: Value| Accepted::by::<Order>().shape.difference(&value);
    assert_eq!(difference(json!({ "id": "hush" })).unwrap(), "field `cents` is missing");
    let said = difference(json!({ "id": "hush", "cents": "hush" })).unwrap();
    assert_eq!(said, "`cents`: expected a whole number from 0, got a text");
    let said = difference(
        json!({ "id": "a", "cents": 1, "lines": [{ "sku": "hush", "qty": 1 }, { "sku": "hush" }] }),
    );
    assert_eq!(said.unwrap(), "`lines[1]`: field `qty` is missing");
    let said = difference(json!("hush")).unwrap();
    assert!(
        said.starts_with("expected Order {id: a text, cents: a whole number from 0")
            && !said.contains("hush"),
        "{said}"
    );
}
