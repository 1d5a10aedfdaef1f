//! Schemas of types that a derive cannot describe, for the OpenAPI description.

use std::borrow::Cow;

use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::hash::Hash;
use crate::id::{ID_BYTES_MAX, Id, Kind};
use crate::path::{PATH_BYTES_MAX, Path};
use crate::payload::Payload;

impl<K: Kind> PartialSchema for Id<K> {
    fn schema() -> RefOr<Schema> {
        text(ID_BYTES_MAX, "^[A-Za-z0-9][A-Za-z0-9._-]*$")
    }
}

impl<K: Kind> ToSchema for Id<K> {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Id")
    }
}

impl PartialSchema for Path {
    fn schema() -> RefOr<Schema> {
        text(PATH_BYTES_MAX, "^[A-Za-z0-9._:#/~-]*$")
    }
}

impl ToSchema for Path {}

impl PartialSchema for Hash {
    fn schema() -> RefOr<Schema> {
        text(32, "^[0-9a-f]{32}$")
    }
}

impl ToSchema for Hash {}

impl PartialSchema for Payload {
    /// Returns the schema that accepts any JSON.
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).into()
    }
}

impl ToSchema for Payload {}

fn text(bytes_max: usize, pattern: &str) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).max_length(Some(bytes_max)).pattern(Some(pattern)).into()
}
