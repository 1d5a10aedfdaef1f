//! Probes a type: a deserializer that answers every request with a dummy and records the request.
//!
//! One pass follows one variant of each enum; passes repeat until they find nothing new. If a type refuses a dummy,
//! the next pass tries another one. A part that stays unknown becomes [`Shape::Any`].

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::{Field, Inside, Shape, Variant};

/// Most passes over one type.
const PASSES_MAX: u32 = 200;
/// Most levels that are examined; a deeper part may be anything.
const DEPTH_MAX: u32 = 8;
/// Texts that types with custom rules tend to accept.
const TEXTS: [&str; 8] = [
    "",
    "a",
    "0",
    "2000-01-01T00:00:00Z",
    "2000-01-01",
    "00000000-0000-4000-8000-000000000000",
    "127.0.0.1",
    "http://a.example/",
];
/// Number of dummies for a part that may be anything: null, a text, a number, a boolean, a map, a list.
const VALUES: usize = 6;

/// Probes `T`. Never panics, even if `T` does.
pub(super) fn probe<T: DeserializeOwned>() -> Shape {
    let mut shape = Shape::Unknown;
    let mut pass = Pass::default();
    for _ in 0..PASSES_MAX {
        pass.begin();
        let probed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            T::deserialize(Probe { shape: &mut shape, pass: &mut pass, depth: 0 }).is_ok()
        }));
        let more = match probed {
            Ok(true) => pass.has_new,
            // Try another dummy for the refused leaf, or another variant.
            Ok(false) => pass.next_dummy() || pass.has_new,
            Err(_) => break,
        };
        if !more {
            break;
        }
    }
    shape.settle();
    shape
}

/// The progress of a pass.
#[derive(Default)]
struct Pass {
    /// The dummy of each leaf, in the order of the requests.
    dummies: Vec<usize>,
    /// Number of possible dummies of each requested leaf.
    asked: Vec<usize>,
    /// Whether a variant has not been examined yet.
    has_new: bool,
    /// The key of a field that was already given under another name.
    alias: Option<String>,
}

impl Pass {
    fn begin(&mut self) {
        self.asked.clear();
        self.has_new = false;
    }

    fn leaf(&mut self, dummies: usize) -> usize {
        let at = self.asked.len();
        self.asked.push(dummies);
        if self.dummies.len() <= at {
            self.dummies.push(0);
        }
        self.dummies[at].min(dummies.saturating_sub(1))
    }

    /// Chooses the next dummy for the refused last leaf. Returns whether there is one.
    fn next_dummy(&mut self) -> bool {
        let Some(last) = self.asked.len().checked_sub(1) else { return self.alias.is_some() };
        self.dummies.truncate(last + 1);
        self.dummies[last] += 1;
        self.dummies[last] < self.asked[last] || self.alias.is_some()
    }
}

/// The error that ends a pass early.
#[derive(Debug)]
struct Refused {
    duplicate: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the type refused a dummy")
    }
}

impl std::error::Error for Refused {}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self { duplicate: false }
    }

    fn duplicate_field(_: &'static str) -> Self {
        Self { duplicate: true }
    }
}

struct Probe<'a> {
    shape: &'a mut Shape,
    pass: &'a mut Pass,
    depth: u32,
}

impl Probe<'_> {
    /// Records a leaf. If it was requested as another kind before, it may be anything.
    fn note(&mut self, found: Shape) {
        if *self.shape == Shape::Unknown {
            *self.shape = found;
        } else if *self.shape != found {
            *self.shape = Shape::Any;
        }
    }

    fn too_deep(&mut self) -> Result<(), Refused> {
        if self.depth < DEPTH_MAX {
            return Ok(());
        }
        *self.shape = Shape::Any;
        Err(Refused::custom(""))
    }

    fn number<'de, V: Visitor<'de>>(mut self, shape: Shape, visitor: V) -> Result<V::Value, Refused> {
        self.note(shape);
        if self.pass.leaf(2) == 0 { visitor.visit_u64(0) } else { visitor.visit_u64(1) }
    }

    fn text<'de, V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let dummy = self.pass.leaf(TEXTS.len());
        let like = TEXTS.get(dummy).copied().unwrap_or_default();
        if let Shape::Text { like: known } = self.shape {
            *known = like;
        }
        self.note(Shape::Text { like });
        visitor.visit_str(like)
    }

    fn anything<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        *self.shape = Shape::Any;
        match self.pass.leaf(VALUES) {
            0 => visitor.visit_unit(),
            1 => visitor.visit_str(""),
            2 => visitor.visit_u64(0),
            3 => visitor.visit_bool(false),
            4 => visitor.visit_map(Nothing),
            _ => visitor.visit_seq(Nothing),
        }
    }

    fn tuple<'de, V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        let Self { shape, pass, depth } = self;
        if !matches!(shape, Shape::Tuple { items, .. } if items.len() == len) {
            *shape = Shape::Tuple { items: vec![Shape::Unknown; len], whole: false };
        }
        let Shape::Tuple { items, .. } = shape else { return Err(Refused::custom("")) };
        visitor.visit_seq(Items { items: items.iter_mut(), pass, depth: depth + 1 })
    }

    fn record<'de, V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let Self { shape, pass, depth } = self;
        if !matches!(shape, Shape::Record { .. }) {
            let field =
                |name: &&str| Field { name: (*name).to_owned(), shape: Shape::Unknown, required: false };
            let fields = fields.iter().map(field).collect();
            *shape = Shape::Record { name: name.to_owned(), fields, aliases: Vec::new(), lists: true };
        }
        let Shape::Record { fields, aliases, .. } = shape else { return Err(Refused::custom("")) };
        pass.alias = None;
        let mut entries = Fields {
            fields: fields.iter_mut(),
            known: aliases,
            now: None,
            last: None,
            pass,
            depth: depth + 1,
        };
        let read = visitor.visit_map(&mut entries);
        let last = entries.last.take();
        if let (Err(Refused { duplicate: true }), Some(last)) = (&read, last) {
            aliases.push(last.clone());
            pass.alias = Some(last);
        }
        read
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.anything(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Shape::Bool);
        let dummy = self.pass.leaf(2) == 1;
        visitor.visit_bool(dummy)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Integer { unsigned: false }, visitor)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Integer { unsigned: false }, visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Integer { unsigned: false }, visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Integer { unsigned: false }, visitor)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Integer { unsigned: true }, visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Integer { unsigned: true }, visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Integer { unsigned: true }, visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Integer { unsigned: true }, visitor)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Number, visitor)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Number, visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Number, visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.number(Shape::Number, visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.text(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.text(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let Self { shape, pass, depth } = self;
        if depth >= DEPTH_MAX {
            *shape = Shape::Any;
            return visitor.visit_none();
        }
        if !matches!(shape, Shape::Optional(_)) {
            *shape = Shape::Optional(Box::new(Shape::Unknown));
        }
        let Shape::Optional(inner) = shape else { return visitor.visit_none() };
        visitor.visit_some(Probe { shape: inner, pass, depth: depth + 1 })
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Shape::Null);
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        // Types of serde_json that read raw text.
        if name.starts_with("$serde_json") {
            return self.anything(visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.too_deep()?;
        let Self { shape, pass, depth } = self;
        if !matches!(shape, Shape::List(_)) {
            *shape = Shape::List(Box::new(Shape::Unknown));
        }
        let Shape::List(item) = shape else { return Err(Refused::custom("")) };
        let one = std::slice::from_mut(&mut **item);
        // An empty list ends a recursive type at the depth limit.
        let items = if depth + 1 < DEPTH_MAX { one.iter_mut() } else { [].iter_mut() };
        visitor.visit_seq(Items { items, pass, depth: depth + 1 })
    }

    fn deserialize_tuple<V: Visitor<'de>>(mut self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        self.too_deep()?;
        self.tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.too_deep()?;
        self.tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.too_deep()?;
        let Self { shape, pass, depth } = self;
        if !matches!(shape, Shape::Map(_)) {
            *shape = Shape::Map(Box::new(Shape::Unknown));
        }
        let Shape::Map(value) = shape else { return Err(Refused::custom("")) };
        let given = depth + 1 >= DEPTH_MAX;
        visitor.visit_map(MapEntry { value, given, pass, depth: depth + 1 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        if name.starts_with("$serde_json") {
            return self.anything(visitor);
        }
        self.too_deep()?;
        self.record(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.too_deep()?;
        let Self { shape, pass, depth } = self;
        if !matches!(shape, Shape::Choice { .. }) {
            let variant = |name: &&str| Variant { name: (*name).to_owned(), inside: Inside::Unknown };
            *shape =
                Shape::Choice { name: name.to_owned(), variants: variants.iter().map(variant).collect() };
        }
        let Shape::Choice { variants, .. } = shape else { return Err(Refused::custom("")) };
        let new = |variant: &Variant| variant.inside == Inside::Unknown;
        let at = variants.iter().position(new).unwrap_or(0);
        pass.has_new |= variants.iter().skip(at + 1).any(new);
        let Some(variant) = variants.get_mut(at) else { return Err(Refused::custom("")) };
        if variant.inside == Inside::Unknown {
            variant.inside = Inside::Asked;
        }
        visitor.visit_enum(Pick { variant, pass, depth: depth + 1 })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        *self.shape = Shape::Any;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { bytes byte_buf identifier }
}

/// The elements of a list or tuple.
struct Items<'a> {
    items: std::slice::IterMut<'a, Shape>,
    pass: &'a mut Pass,
    depth: u32,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        let Some(shape) = self.items.next() else { return Ok(None) };
        seed.deserialize(Probe { shape, pass: self.pass, depth: self.depth }).map(Some)
    }
}

/// The fields of a record, without aliases.
struct Fields<'a> {
    fields: std::slice::IterMut<'a, Field>,
    known: &'a [String],
    now: Option<&'a mut Field>,
    last: Option<String>,
    pass: &'a mut Pass,
    depth: u32,
}

impl<'de> MapAccess<'de> for &mut Fields<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        let known = self.known;
        let Some(field) = self.fields.by_ref().find(|field| !known.contains(&field.name)) else {
            return Ok(None);
        };
        self.last = Some(field.name.clone());
        let key = seed.deserialize(StrDeserializer::new(&field.name));
        self.now = Some(field);
        key.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let Some(field) = self.now.take() else { return Err(Refused::custom("")) };
        seed.deserialize(Probe { shape: &mut field.shape, pass: self.pass, depth: self.depth })
    }
}

/// One entry of a map.
struct MapEntry<'a> {
    value: &'a mut Shape,
    given: bool,
    pass: &'a mut Pass,
    depth: u32,
}

impl<'de> MapAccess<'de> for MapEntry<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        if std::mem::replace(&mut self.given, true) {
            return Ok(None);
        }
        let mut key = Shape::Unknown;
        seed.deserialize(Probe { shape: &mut key, pass: self.pass, depth: self.depth }).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        seed.deserialize(Probe { shape: self.value, pass: self.pass, depth: self.depth })
    }
}

/// An empty list or map.
struct Nothing;

impl<'de> SeqAccess<'de> for Nothing {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, _: T) -> Result<Option<T::Value>, Refused> {
        Ok(None)
    }
}

impl<'de> MapAccess<'de> for Nothing {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, Refused> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _: V) -> Result<V::Value, Refused> {
        Err(Refused::custom(""))
    }
}

/// One variant of an enum.
struct Pick<'a> {
    variant: &'a mut Variant,
    pass: &'a mut Pass,
    depth: u32,
}

impl<'de, 'a> EnumAccess<'de> for Pick<'a> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Refused> {
        let name: StrDeserializer<'_, Refused> = StrDeserializer::new(&self.variant.name);
        let value = seed.deserialize(name)?;
        Ok((value, self))
    }
}

impl Pick<'_> {
    fn inside(&mut self) -> Probe<'_> {
        if !matches!(self.variant.inside, Inside::Value(_)) {
            self.variant.inside = Inside::Value(Shape::Unknown);
        }
        match &mut self.variant.inside {
            Inside::Value(shape) => Probe { shape, pass: self.pass, depth: self.depth },
            Inside::Unknown | Inside::Asked | Inside::Nothing => unreachable!("it was set above"),
        }
    }
}

impl<'de> VariantAccess<'de> for Pick<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        self.variant.inside = Inside::Nothing;
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Refused> {
        seed.deserialize(self.inside())
    }

    fn tuple_variant<V: Visitor<'de>>(mut self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        self.inside().tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.inside().record("", fields, visitor)
    }
}

/// Returns whether `T` accepts this value.
pub(super) fn accepts<T: DeserializeOwned>(value: &serde_json::Value) -> bool {
    let read = || serde_json::from_str::<T>(&value.to_string()).is_ok();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).unwrap_or(true)
}
