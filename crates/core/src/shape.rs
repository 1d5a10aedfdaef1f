//! Shapes: which kinds of JSON a type or a value is made of, with field names and without values.
//!
//! A shape is derived from what a type's `Deserialize` asks for, so every type has one. It is permissive: an unknown
//! part may be anything. Two things are made from it: the description for people ("expected …, got …"), and a JSON
//! Schema that accepts everything the type accepts.

mod example;
mod probe;
mod tighten;

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use example::example_of;

/// Largest schema that goes into a log, in bytes.
const SCHEMA_BYTES_MAX: usize = 4_096;
/// Most fields and variants in a description.
const NAMED_MAX: usize = 12;
/// Most levels in a description.
const DESCRIBED_MAX: usize = 3;

/// The kinds of JSON that a type or a value is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Not examined yet.
    Unknown,
    /// Anything.
    Any,
    /// `null`.
    Null,
    /// A boolean.
    Bool,
    /// An integer.
    Integer {
        /// Whether it cannot be negative.
        unsigned: bool,
    },
    /// A number.
    Number,
    /// A string.
    Text {
        /// A text that the type accepts; empty: it seems to accept any.
        like: &'static str,
    },
    /// This or `null`.
    Optional(Box<Shape>),
    /// A list of these.
    List(Box<Shape>),
    /// A list of exactly these, or of some of them.
    Tuple {
        /// The elements.
        items: Vec<Shape>,
        /// Whether all of them are required.
        whole: bool,
    },
    /// An object with any fields, each like this.
    Map(Box<Shape>),
    /// An object with these fields.
    Record {
        /// The type's name; empty if it has none.
        name: String,
        /// Its fields.
        fields: Vec<Field>,
        /// Field names that are aliases of another field.
        aliases: Vec<String>,
        /// Whether a list of the fields' values is accepted, too.
        lists: bool,
    },
    /// One of several.
    Choice {
        /// The type's name.
        name: String,
        /// The variants.
        variants: Vec<Variant>,
    },
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The shape of its value.
    pub shape: Shape,
    /// Whether it is required.
    pub required: bool,
}

/// A variant of a choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Its content.
    pub inside: Inside,
}

/// The content of a variant.
#[derive(Debug, Clone, PartialEq)]
pub enum Inside {
    /// Not examined yet.
    Unknown,
    /// Examined, but the type did not ask for anything.
    Asked,
    /// Nothing: the name alone.
    Nothing,
    /// A value of this shape.
    Value(Shape),
}

/// What a type accepts, as far as it can be determined.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The shape of the values.
    pub shape: Shape,
    /// A value that the type accepts.
    pub example: Option<Value>,
}

impl Accepted {
    /// Determines what `T` accepts.
    pub fn by<T: DeserializeOwned>() -> Self {
        let mut shape = probe::probe::<T>();
        let example = tighten::tighten(&mut shape, &probe::accepts::<T>);
        Self { shape, example }
    }

    /// Returns a JSON Schema with a description and an example; none if the type accepts anything, or if the schema
    /// is too large for a log.
    pub fn schema(&self) -> Option<Value> {
        let mut schema = self.shape.bare_schema();
        let fields = schema.as_object_mut().filter(|fields| !fields.is_empty())?;
        let bare = fields.clone();
        fields.insert("description".to_owned(), self.shape.to_string().into());
        if let Some(example) = &self.example {
            fields.insert("examples".to_owned(), json!([example]));
        }
        let fits = |schema: &Value| schema.to_string().len() <= SCHEMA_BYTES_MAX;
        Some(schema).filter(fits).or_else(|| Some(Value::Object(bare)).filter(fits))
    }
}

impl Shape {
    /// Returns the shape of a value.
    pub fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer { unsigned: false },
            Value::String(_) => Self::Text { like: "" },
            Value::Array(items) => {
                let item = items.first().map_or(Self::Any, Self::of_value);
                let same = items.iter().all(|other| Self::of_value(other) == item);
                Self::List(Box::new(if same { item } else { Self::Any }))
            }
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| Field {
                    name: name.clone(),
                    shape: Self::of_value(value),
                    required: true,
                };
                let fields = fields.iter().map(field).collect();
                Self::Record { name: String::new(), fields, aliases: Vec::new(), lists: false }
            }
        }
    }

    /// Replaces every unknown part with `Any`.
    fn settle(&mut self) {
        match self {
            Self::Unknown => *self = Self::Any,
            Self::Optional(inner) | Self::List(inner) | Self::Map(inner) => inner.settle(),
            Self::Tuple { items, .. } => items.iter_mut().for_each(Self::settle),
            Self::Record { fields, .. } => fields.iter_mut().for_each(|field| field.shape.settle()),
            Self::Choice { variants, .. } => {
                for variant in variants {
                    match &mut variant.inside {
                        Inside::Value(shape) => shape.settle(),
                        Inside::Unknown | Inside::Asked => variant.inside = Inside::Value(Self::Any),
                        Inside::Nothing => {}
                    }
                }
            }
            Self::Any | Self::Null | Self::Bool | Self::Integer { .. } | Self::Number | Self::Text { .. } => {
            }
        }
    }

    fn bare_schema(&self) -> Value {
        match self {
            Self::Any | Self::Unknown => json!({}),
            Self::Null => json!({ "type": "null" }),
            Self::Bool => json!({ "type": "boolean" }),
            Self::Integer { unsigned: true } => json!({ "type": "integer", "minimum": 0 }),
            Self::Integer { unsigned: false } => json!({ "type": "integer" }),
            Self::Number => json!({ "type": "number" }),
            Self::Text { .. } => json!({ "type": "string" }),
            Self::Optional(inner) => match inner.bare_schema() {
                Value::Object(inner) if inner.is_empty() => json!({}),
                inner => json!({ "anyOf": [{ "type": "null" }, inner] }),
            },
            Self::List(item) => json!({ "type": "array", "items": item.bare_schema() }),
            Self::Tuple { items, whole } => {
                let least = if *whole { items.len() } else { 0 };
                let items: Vec<Value> = items.iter().map(Self::bare_schema).collect();
                match items.is_empty() {
                    true => json!({ "type": "array" }),
                    false => json!({ "type": "array", "prefixItems": items, "minItems": least }),
                }
            }
            Self::Map(value) => json!({ "type": "object", "additionalProperties": value.bare_schema() }),
            Self::Record { fields, lists, .. } => record_schema(fields, *lists),
            Self::Choice { variants, .. } => choice_schema(variants),
        }
    }

    /// Describes where a value first differs from this shape, without values; none if it does not.
    pub fn difference(&self, value: &Value) -> Option<String> {
        self.differs(value, "")
    }

    /// Describes why a value does not match, in one sentence without values. `said` is the error of a parser, used if
    /// kinds and field names show no difference.
    pub fn misfit(&self, value: &Value, said: Option<String>) -> String {
        let found = Self::of_value(value);
        match (self.difference(value), said) {
            (Some(text), _) if text.ends_with("is missing") => format!("{text}; the log has {found}"),
            (Some(text), _) => text,
            (None, Some(text)) => format!("{text}; the log has {found}"),
            (None, None) => format!("the type does not accept its content; the log has {found}"),
        }
    }

    fn differs(&self, value: &Value, place: &str) -> Option<String> {
        let at = |place: &str| {
            if place.is_empty() { String::new() } else { format!("`{}`: ", place.trim_start_matches('.')) }
        };
        match (self, value) {
            (Self::Any | Self::Unknown, _) | (Self::Optional(_), Value::Null) => return None,
            (Self::Optional(inner), value) => return inner.differs(value, place),
            (Self::Null, Value::Null)
            | (Self::Bool, Value::Bool(_))
            | (Self::Text { .. }, Value::String(_)) => {
                return None;
            }
            (Self::Number, Value::Number(_)) => return None,
            (Self::Integer { unsigned }, Value::Number(number))
                if number.is_u64() || (number.is_i64() && !unsigned) =>
            {
                return None;
            }
            (Self::List(item), Value::Array(items)) => {
                let differs = |(n, value): (usize, &Value)| item.differs(value, &format!("{place}[{n}]"));
                return items.iter().enumerate().find_map(differs);
            }
            (Self::Tuple { items, whole }, Value::Array(values)) if !whole || items.len() == values.len() => {
                let pairs = items.iter().zip(values).enumerate();
                return pairs
                    .into_iter()
                    .find_map(|(n, (item, value))| item.differs(value, &format!("{place}[{n}]")));
            }
            (Self::Map(inside), Value::Object(values)) => {
                return values
                    .iter()
                    .find_map(|(name, value)| inside.differs(value, &format!("{place}.{name}")));
            }
            (Self::Record { fields, .. }, Value::Object(values)) => {
                let differs = |field: &Field| match values.get(&field.name) {
                    Some(value) => field.shape.differs(value, &format!("{place}.{}", field.name)),
                    None if field.required => Some(format!("{}field `{}` is missing", at(place), field.name)),
                    None => None,
                };
                return fields.iter().find_map(differs);
            }
            (Self::Record { lists: true, .. }, Value::Array(_)) => return None,
            (Self::Choice { variants, .. }, value) if variants.iter().any(|variant| variant.fits(value)) => {
                return None;
            }
            _ => {}
        }
        Some(format!("{}expected {self}, got {}", at(place), Self::of_value(value)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>, deep: usize) -> fmt::Result {
        match self {
            Self::Any | Self::Unknown => f.write_str("anything"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("true or false"),
            Self::Integer { unsigned: true } => f.write_str("a whole number from 0"),
            Self::Integer { unsigned: false } => f.write_str("a whole number"),
            Self::Number => f.write_str("a number"),
            Self::Text { .. } => f.write_str("a text"),
            Self::Optional(inner) => {
                inner.describe(f, deep)?;
                f.write_str(" or null")
            }
            Self::List(_) if deep >= DESCRIBED_MAX => f.write_str("a list"),
            Self::List(item) => {
                f.write_str("a list (each: ")?;
                item.describe(f, deep + 1)?;
                f.write_str(")")
            }
            Self::Tuple { items, .. } => write!(f, "a list of {}", items.len()),
            Self::Map(_) => f.write_str("an object"),
            Self::Record { name, fields, .. } => {
                f.write_str(if name.is_empty() { "an object" } else { name })?;
                if deep >= DESCRIBED_MAX { Ok(()) } else { describe_fields(f, fields, deep) }
            }
            Self::Choice { variants, .. } => {
                let names: Vec<&str> =
                    variants.iter().take(NAMED_MAX).map(|variant| variant.name.as_str()).collect();
                write!(f, "one of {}", names.join(", "))
            }
        }
    }
}

impl Variant {
    fn fits(&self, value: &Value) -> bool {
        match (&self.inside, value) {
            (Inside::Nothing, Value::String(name)) => *name == self.name,
            (Inside::Nothing, Value::Object(object)) => object.get(&self.name).is_some_and(Value::is_null),
            (Inside::Value(shape), Value::Object(object)) => {
                object.get(&self.name).is_some_and(|inside| shape.difference(inside).is_none())
            }
            (Inside::Value(Shape::Any), _) | (Inside::Unknown | Inside::Asked, _) => true,
            (Inside::Value(_) | Inside::Nothing, _) => false,
        }
    }
}

fn describe_fields(f: &mut fmt::Formatter<'_>, fields: &[Field], deep: usize) -> fmt::Result {
    f.write_str(" {")?;
    for (n, field) in fields.iter().take(NAMED_MAX).enumerate() {
        f.write_str(if n == 0 { "" } else { ", " })?;
        write!(f, "{}: ", field.name)?;
        field.shape.describe(f, deep + 1)?;
    }
    f.write_str(if fields.len() > NAMED_MAX { ", …}" } else { "}" })
}

fn record_schema(fields: &[Field], lists: bool) -> Value {
    let required: Vec<&str> =
        fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
    let mut schema = Map::new();
    let kind = if lists { json!(["object", "array"]) } else { json!("object") };
    schema.insert("type".to_owned(), kind);
    if lists {
        schema.insert("minItems".to_owned(), required.len().into());
    }
    let known = fields.iter().map(|field| (field.name.clone(), field.shape.bare_schema()));
    let known: Map<String, Value> = known.filter(|(_, schema)| *schema != json!({})).collect();
    if !known.is_empty() {
        schema.insert("properties".to_owned(), known.into());
    }
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema.into()
}

fn choice_schema(variants: &[Variant]) -> Value {
    let names: Vec<&str> = variants
        .iter()
        .filter(|v| matches!(v.inside, Inside::Nothing | Inside::Value(Shape::Any)))
        .map(|v| v.name.as_str())
        .collect();
    let inside = |variant: &Variant| match &variant.inside {
        Inside::Value(shape) => shape.bare_schema(),
        Inside::Nothing => json!({ "type": "null" }),
        Inside::Unknown | Inside::Asked => json!({}),
    };
    let inside: Map<String, Value> =
        variants.iter().map(|variant| (variant.name.clone(), inside(variant))).collect();
    let object = json!({
        "type": "object", "minProperties": 1, "maxProperties": 1, "properties": inside, "additionalProperties": false,
    });
    if names.is_empty() { object } else { json!({ "anyOf": [{ "enum": names }, object] }) }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f, 0)
    }
}

#[cfg(test)]
mod tests;
