//! Example values of a shape, and of any JSON Schema.

use serde_json::{Map, Value, json};

use super::{Field, Inside, Shape, Variant};
use crate::form::Form;
use crate::limits::Limits;
use crate::payload::Payload;

/// Most levels that are filled in.
const DEPTH_MAX: u32 = 12;

/// Returns a value of this shape.
pub(super) fn example(shape: &Shape) -> Value {
    match shape {
        Shape::Any | Shape::Unknown | Shape::Null => Value::Null,
        Shape::Bool => Value::Bool(true),
        Shape::Integer { .. } | Shape::Number => json!(1),
        Shape::Text { like: "" } => json!("text"),
        Shape::Text { like } => json!(like),
        Shape::Optional(inner) => example(inner),
        Shape::List(item) if **item == Shape::Any => json!([]),
        Shape::List(item) => json!([example(item)]),
        Shape::Map(inside) if **inside == Shape::Any => json!({}),
        Shape::Tuple { items, .. } => items.iter().map(example).collect(),
        Shape::Map(inside) => json!({ "1": example(inside) }),
        Shape::Record { fields, aliases, .. } => {
            let real = fields.iter().filter(|field| !aliases.contains(&field.name));
            let fields: Map<String, Value> =
                real.map(|field| (field.name.clone(), example(&field.shape))).collect();
            fields.into()
        }
        Shape::Choice { variants, .. } => variants.first().map_or(Value::Null, variant),
    }
}

/// Returns a value of this shape without its optional parts.
pub(super) fn shortest(shape: &Shape) -> Value {
    match shape {
        Shape::List(_) => json!([]),
        Shape::Map(_) => json!({}),
        Shape::Tuple { items, .. } => items.iter().map(shortest).collect(),
        Shape::Record { fields, aliases, .. } => {
            let needed =
                |field: &&Field| field.required || !aliases.is_empty() && !aliases.contains(&field.name);
            let needed = fields.iter().filter(needed);
            let fields: Map<String, Value> =
                needed.map(|field| (field.name.clone(), shortest(&field.shape))).collect();
            fields.into()
        }
        shape => example(shape),
    }
}

/// Returns a value of this variant.
pub(super) fn variant(variant: &Variant) -> Value {
    match &variant.inside {
        Inside::Value(shape) => json!({ &variant.name: example(shape) }),
        Inside::Nothing | Inside::Unknown | Inside::Asked => json!(variant.name),
    }
}

/// Returns a value that `form` accepts, if one is found.
pub fn example_of(form: &Form) -> Option<Value> {
    let guesses = match form {
        Form::Any => vec![json!({})],
        Form::Text => vec![json!("text")],
        Form::Choice(choices) => choices.first().map(|choice| json!(choice)).into_iter().collect(),
        Form::Schema(schema) => {
            let own = schema["examples"].as_array().into_iter().flatten().cloned();
            own.chain([
                guess(schema, 0),
                Value::Null,
                json!(true),
                json!(1),
                json!("text"),
                json!([]),
                json!({}),
            ])
            .collect()
        }
    };
    guesses.into_iter().find(|guess| {
        Payload::of(guess, &Limits::default()).is_ok_and(|payload| form.check(&payload).is_ok())
    })
}

/// Returns a value that a schema probably accepts; the caller checks it.
fn guess(schema: &Value, depth: u32) -> Value {
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    for given in ["const", "default"] {
        if let Some(value) = schema.get(given) {
            return value.clone();
        }
    }
    for list in ["enum", "examples"] {
        if let Some(value) = schema[list].get(0) {
            return value.clone();
        }
    }
    for list in ["anyOf", "oneOf", "allOf"] {
        if let Some(one) = schema[list].get(0) {
            return guess(one, depth + 1);
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    let kind = kind.or_else(|| schema.get("properties").map(|_| "object"));
    match kind {
        Some("boolean") => Value::Bool(true),
        Some("integer" | "number") => {
            schema.get("minimum").or(schema.get("maximum")).cloned().unwrap_or(json!(1))
        }
        Some("string") => {
            let least = schema["minLength"].as_u64().unwrap_or(0).min(1_000);
            json!(format!("{:x<1$}", "text", usize::try_from(least).unwrap_or(0)))
        }
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(0).min(100);
            let first =
                schema["prefixItems"].as_array().into_iter().flatten().map(|item| guess(item, depth + 1));
            let rest = std::iter::repeat_with(|| guess(&schema["items"], depth + 1));
            first.chain(rest).take(usize::try_from(least).unwrap_or(0)).collect()
        }
        Some("object") => {
            let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let field = |name: &str| (name.to_owned(), guess(&schema["properties"][name], depth + 1));
            let fields: Map<String, Value> = names.map(field).collect();
            fields.into()
        }
        _ => Value::Null,
    }
}
