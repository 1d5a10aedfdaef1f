//! Strict JSON documents: an array in place of an object and duplicate names in a map are refused at every depth. serde
//! accepts both.
//!
//! Invariant: payloads and schemas are user data and are not checked here.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

/// The name with which serde_json requests raw text.
const RAW: &str = "$serde_json::private::RawValue";

/// Reads a document.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let document = T::deserialize(Strict(&mut json))?;
    json.end()?;
    Ok(document)
}

/// A strict wrapper of a serde type.
struct Strict<T>(T);

/// A visitor and the check for the value it visits.
struct Watched<V> {
    visitor: V,
    asked: ExpectedValue,
}

/// The kind of value that a document expects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpectedValue {
    /// An object with known fields.
    Object,
    /// A map with free, unique names.
    Map,
    /// Anything else.
    Other,
}

fn watched<V>(visitor: V, asked: ExpectedValue) -> Watched<V> {
    Watched { visitor, asked }
}

/// Delegates calls with a checked visitor.
macro_rules! delegate {
    ($($name:ident)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$name(watched(visitor, ExpectedValue::Other))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    delegate! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32
        deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq deserialize_identifier
    }

    /// User data: a schema or an ignored value.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_ignored_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        match name {
            RAW => self.0.deserialize_newtype_struct(name, visitor),
            _ => self.0.deserialize_newtype_struct(name, watched(visitor, ExpectedValue::Other)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, watched(visitor, ExpectedValue::Other))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, watched(visitor, ExpectedValue::Other))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, len, watched(visitor, ExpectedValue::Other))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(watched(visitor, ExpectedValue::Map))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, watched(visitor, ExpectedValue::Object))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, watched(visitor, ExpectedValue::Other))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// Delegates scalar values.
macro_rules! delegate_scalars {
    ($($name:ident($kind:ty))*) => {
        $(fn $name<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.visitor.$name(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Watched<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    delegate_scalars! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128) visit_f64(f64)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Strict(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        match self.asked {
            ExpectedValue::Object => Err(A::Error::custom("found an array, expected an object")),
            ExpectedValue::Map | ExpectedValue::Other => self.visitor.visit_seq(Strict(items)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        match self.asked {
            ExpectedValue::Map => self.visitor.visit_map(Unique { entries, seen: BTreeSet::new() }),
            ExpectedValue::Object | ExpectedValue::Other => self.visitor.visit_map(Strict(entries)),
        }
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Strict(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(inner))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }
}

/// The fields of an object. serde refuses duplicates.
impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }
}

/// The entries of a map with unique names.
struct Unique<A> {
    entries: A,
    seen: BTreeSet<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Unique<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let Some(name) = self.entries.next_key::<String>()? else { return Ok(None) };
        if !self.seen.insert(name.clone()) {
            let shown: String = name.chars().take(128).collect();
            return Err(A::Error::custom(format_args!("duplicate name {shown:?}")));
        }
        let name: StringDeserializer<A::Error> = serde::de::IntoDeserializer::into_deserializer(name);
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.entries.next_value_seed(Strict(seed))
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Strict<A> {
    type Error = A::Error;
    type Variant = Strict<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        self.0.variant_seed(seed).map(|(value, variant)| (value, Strict(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Strict(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, watched(visitor, ExpectedValue::Other))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, watched(visitor, ExpectedValue::Object))
    }
}

#[cfg(test)]
mod tests {
    use goldseam::unstable::engine::remote::wire::{Append, Register};
    use goldseam_api::doc::key::NewKey;
    use goldseam_api::doc::run::NewRun;

    use super::*;

    fn refused<T: DeserializeOwned>(json: &str, words: &str) {
        let error = read::<T>(json.as_bytes()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(words), "{json}: {error}");
    }

    fn append(doing: &str) -> String {
        format!(r#"{{"token":"t","id":"a","after":0,"doings":[{doing}]}}"#)
    }

    #[test]
    fn array_in_place_of_object_is_refused_at_any_depth() {
        let object = "found an array, expected an object";
        refused::<NewRun>(r#"["greet","arr-1"]"#, object);
        refused::<NewRun>(r#"{"workflow":"greet","tags":[["a","b"]]}"#, "expected a map");
        for doing in [
            r#"{"complete":[1]}"#,
            r#"{"step_started":["charge",0,1]}"#,
            r#"{"fail":{"failure":["terminal","no"]}}"#,
            r#"{"step_failed":{"path":"a","ord":0,"attempt":1,"failure":{"message":"m"},"retry":[5,1,2000,9,0]}}"#,
            r#"{"wait":{"path":"a","ord":0,"ask":["How?","text"]}}"#,
        ] {
            refused::<Append>(&append(doing), object);
        }
    }

    #[test]
    fn duplicate_names_in_objects_and_maps_are_refused() {
        refused::<NewRun>(r#"{"workflow":"a","workflow":"b"}"#, "duplicate field");
        refused::<NewRun>(r#"{"workflow":"a","tags":{"k":"1","k":"2"}}"#, "duplicate name");
        let plans = r#"{"name":"w","workflows":[],"slots":1,"plans":{"a":[],"a":["b"]}}"#;
        refused::<Register>(plans, "duplicate name");
    }

    #[test]
    fn user_data_is_not_checked() {
        let run: NewRun =
            read(br#"{"workflow":"a","input":[[1],{"k":1,"k":[2]}],"tags":{"k":"v"}}"#).unwrap();
        assert_eq!(run.input.as_str(), r#"[[1],{"k":1,"k":[2]}]"#);
        let schema = r#"{"wait":{"path":"a","ord":0,"schemas":{"go":{"enum":[[1],{}]}},"ask":{"prompt":"?","form":{"choice":["a"]}}}}"#;
        read::<Append>(append(schema).as_bytes()).unwrap();
        read::<Append>(append(r#"{"cancelled":{}},{"complete":{"output":[{}]}}"#).as_bytes()).unwrap();
        let key: NewKey = read(br#"{"name":"n","scopes":["read","start"],"queues":["a"]}"#).unwrap();
        assert_eq!(key.scopes.len(), 2);
        assert!(read::<NewRun>(br#"{"workflow":"a"} x"#).is_err());
    }
}
