//! Values from and for columns, and statements under construction.

use goldseam_core::RunId;
use goldseam_store::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::types::{FromSql, ToSql, Type};

use crate::fault::PgFault;

/// Converts an unsigned number for Postgres. A number that does not fit becomes larger than any stored one.
pub(crate) fn sql_int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The value of a column.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a tokio_postgres::Row, index: usize) -> Result<T, PgFault> {
    row.try_get(index).map_err(|error| PgFault::unreadable("a column", &error))
}

/// The run id of a column.
pub(crate) fn run_id(row: &tokio_postgres::Row, index: usize) -> Result<RunId, PgFault> {
    let text: String = column(row, index)?;
    RunId::new(text).map_err(|error| PgFault::unreadable("a run's id", &error))
}

/// Decodes the JSON of a column that may be null.
pub(crate) fn json<T: DeserializeOwned>(text: Option<&str>) -> Result<Option<T>, String> {
    text.map(serde_json::from_str).transpose().map_err(|error| error.to_string())
}

/// A value as JSON text.
pub(crate) fn json_text<T: Serialize>(value: Option<&T>) -> Result<Option<String>, StoreError> {
    let text = value.map(serde_json::to_string).transpose();
    text.map_err(|error| StoreError::Damaged { detail: format!("cannot encode a record: {error}") })
}

/// A bound value.
#[derive(Debug)]
enum BoundValue {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
    Numbers(Vec<i64>),
    Float(f64),
}

impl BoundValue {
    fn value(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => (text, Type::TEXT),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
            Self::Number(number) => (number, Type::INT8),
            Self::Numbers(numbers) => (numbers, Type::INT8_ARRAY),
            Self::Float(number) => (number, Type::FLOAT8),
        }
    }
}

/// A statement under construction.
#[derive(Debug)]
pub(crate) struct PgQuery {
    pub(crate) sql: String,
    bound: Vec<BoundValue>,
}

impl PgQuery {
    pub(crate) fn new(begin: &'static str) -> Self {
        Self { sql: begin.to_owned(), bound: Vec::new() }
    }

    /// Adds a piece without a value, if it is wanted.
    pub(crate) fn add_if(&mut self, piece: &'static str, wanted: bool) {
        if wanted {
            self.sql.push_str(piece);
        }
    }

    /// Adds a piece and its value after it, if there is a value.
    pub(crate) fn add_text(&mut self, piece: &'static str, value: Option<&str>) {
        self.add(piece, value.map(|value| BoundValue::Text(value.to_owned())));
    }

    /// The same with a number.
    pub(crate) fn add_number(&mut self, piece: &'static str, value: Option<i64>) {
        self.add(piece, value.map(BoundValue::Number));
    }

    /// The same with a floating-point number, which is always there.
    pub(crate) fn add_float(&mut self, piece: &'static str, value: f64) {
        self.add(piece, Some(BoundValue::Float(value)));
    }

    /// The same with a list of numbers, which is always there.
    pub(crate) fn add_numbers(&mut self, piece: &'static str, values: Vec<i64>) {
        self.add(piece, Some(BoundValue::Numbers(values)));
    }

    /// The same with a list, in parentheses for `ANY` and `ALL`.
    pub(crate) fn add_texts(&mut self, piece: &'static str, values: Option<&[String]>) {
        if let Some(values) = values {
            self.add_if(piece, true);
            self.add("(", Some(BoundValue::Texts(values.to_vec())));
            self.sql.push(')');
        }
    }

    fn add(&mut self, piece: &'static str, value: Option<BoundValue>) {
        if let Some(value) = value {
            self.bound.push(value);
            self.sql.push_str(piece);
            self.sql.push('$');
            self.sql.push_str(&self.bound.len().to_string());
        }
    }

    /// The bound values with their types.
    pub(crate) fn values(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.bound.iter().map(BoundValue::value).collect()
    }
}
