//! Checks a probed shape against its type: changes an example in one place, and asks the type whether it still
//! accepts the value.

use serde_json::{Value, json};

use super::{Field, Inside, Shape, example};

/// Most questions to one type.
const QUESTIONS_MAX: u32 = 5_000;

type Accepts<'a> = &'a dyn Fn(&Value) -> bool;

/// Adjusts the shape to what the type confirms: where the type accepts more, so does the shape. Returns a short value
/// that the type accepts, if one is known.
pub(super) fn tighten(shape: &mut Shape, accepts: Accepts<'_>) -> Option<Value> {
    let whole = example::example(shape);
    let mut asking = Asking { accepts, left: QUESTIONS_MAX };
    if !asking.ask(&whole) {
        doubt(shape);
        return None;
    }
    asking.node(shape, &whole, "");
    let short = example::shortest(shape);
    Some(if accepts(&short) { short } else { whole })
}

/// Keeps only the kinds: the type has rules that no example met.
fn doubt(shape: &mut Shape) {
    match shape {
        Shape::Integer { .. } => *shape = Shape::Number,
        Shape::Optional(inner) | Shape::List(inner) | Shape::Map(inner) => doubt(inner),
        Shape::Tuple { items, .. } => items.iter_mut().for_each(doubt),
        Shape::Record { fields, .. } => fields.iter_mut().for_each(|field| doubt(&mut field.shape)),
        Shape::Choice { .. } => *shape = Shape::Any,
        Shape::Any | Shape::Unknown | Shape::Null | Shape::Bool | Shape::Number | Shape::Text { .. } => {}
    }
}

struct Asking<'a> {
    accepts: Accepts<'a>,
    left: u32,
}

impl Asking<'_> {
    /// Returns whether the type accepts this value, or `true` once all questions are used up.
    fn ask(&mut self, value: &Value) -> bool {
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        (self.accepts)(value)
    }

    /// Returns whether the type accepts `whole` with `part` at `place`.
    fn with(&mut self, whole: &Value, place: &str, part: Value) -> bool {
        let mut changed = whole.clone();
        match changed.pointer_mut(place) {
            Some(spot) => *spot = part,
            None => return true,
        }
        self.ask(&changed)
    }

    fn node(&mut self, shape: &mut Shape, whole: &Value, place: &str) {
        if let Shape::Optional(inner) = shape {
            return self.node(inner, whole, place);
        }
        if matches!(shape, Shape::Any | Shape::Unknown) || self.takes_more(shape, whole, place) {
            *shape = Shape::Any;
            return;
        }
        match shape {
            Shape::Integer { unsigned } => {
                let negative = !*unsigned || self.with(whole, place, json!(-1));
                let broken = self.with(whole, place, json!(0.5));
                *shape = if broken { Shape::Number } else { Shape::Integer { unsigned: !negative } };
            }
            Shape::List(item) => self.node(item, whole, &format!("{place}/0")),
            Shape::Map(inside) => self.node(inside, whole, &format!("{place}/1")),
            Shape::Tuple { items, whole: all } => {
                let mut fewer: Vec<Value> = items.iter().map(example::example).collect();
                fewer.pop();
                *all = !items.is_empty() && !self.with(whole, place, fewer.into());
                for (n, item) in items.iter_mut().enumerate() {
                    self.node(item, whole, &format!("{place}/{n}"));
                }
            }
            Shape::Record { fields, aliases, lists, .. } => {
                let real = fields.iter().filter(|field| !aliases.contains(&field.name));
                let list: Vec<Value> = real.map(|field| example::example(&field.shape)).collect();
                *lists = self.with(whole, place, list.into());
                for field in fields.iter_mut().filter(|field| !aliases.contains(&field.name)) {
                    field.required = aliases.is_empty() && !self.without(whole, place, field);
                    self.node(&mut field.shape, whole, &format!("{place}/{}", escaped(&field.name)));
                }
            }
            Shape::Choice { variants, .. } => {
                if self.with(whole, place, json!("\u{1}no such variant")) {
                    *shape = Shape::Any;
                    return;
                }
                for variant in variants {
                    let mut whole = whole.clone();
                    let Some(spot) = whole.pointer_mut(place) else { continue };
                    *spot = example::variant(variant);
                    match &mut variant.inside {
                        Inside::Value(inside) if self.ask(&whole) => {
                            self.node(inside, &whole, &format!("{place}/{}", escaped(&variant.name)));
                        }
                        Inside::Value(inside) => *inside = Shape::Any,
                        Inside::Nothing | Inside::Unknown | Inside::Asked => {}
                    }
                }
            }
            Shape::Any
            | Shape::Unknown
            | Shape::Null
            | Shape::Bool
            | Shape::Number
            | Shape::Text { .. }
            | Shape::Optional(_) => {}
        }
    }

    /// Returns whether the type accepts a kind of value here that the shape would refuse.
    fn takes_more(&mut self, shape: &Shape, whole: &Value, place: &str) -> bool {
        // If the type accepts null here, an outer option may be the reason.
        let others = [json!(true), json!(7), json!(0.5), json!("7"), json!([]), json!({})];
        others.into_iter().any(|other| !shape.is_of_kind(&other) && self.with(whole, place, other))
    }

    fn without(&mut self, whole: &Value, place: &str, field: &Field) -> bool {
        let mut changed = whole.clone();
        match changed.pointer_mut(place).and_then(Value::as_object_mut) {
            Some(object) => _ = object.remove(&field.name),
            None => return true,
        }
        self.ask(&changed)
    }
}

impl Shape {
    /// Returns whether a value is of the same kind of JSON, regardless of its content.
    fn is_of_kind(&self, value: &Value) -> bool {
        match self {
            Self::Any | Self::Unknown | Self::Optional(_) => true,
            Self::Null => value.is_null(),
            Self::Bool => value.is_boolean(),
            Self::Integer { .. } | Self::Number => value.is_number(),
            Self::Text { .. } => value.is_string(),
            Self::List(_) | Self::Tuple { .. } => value.is_array(),
            Self::Map(_) => value.is_object(),
            Self::Record { .. } => value.is_object() || value.is_array(),
            Self::Choice { .. } => value.is_object() || value.is_string(),
        }
    }
}

/// Escapes a name for a JSON Pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
