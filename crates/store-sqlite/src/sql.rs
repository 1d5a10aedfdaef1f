//! Values from and for columns.

use rusqlite::types::{Type, Value, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::SqliteFault;

/// Converts an unsigned number for SQLite. A number that does not fit becomes larger than any stored one.
pub(crate) fn sql_int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The value of a column. Text that is not UTF-8 is returned as bytes.
pub(crate) fn cell(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Value> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Blob(bytes.to_owned()),
        },
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_owned()),
    })
}

/// The text of a column; none if it holds anything else.
pub(crate) fn text_of(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match cell(row, column)? {
        Value::Text(text) => Some(text),
        _ => None,
    })
}

/// A checked name from a column.
pub(crate) fn id<T: TryFrom<String>>(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T::Error: std::fmt::Display,
{
    T::try_from(row.get(column)?).map_err(|error| undecodable(column, error.to_string()))
}

/// A checked name from a column that may be null.
pub(crate) fn maybe_id<T: TryFrom<String>>(
    row: &rusqlite::Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>>
where
    T::Error: std::fmt::Display,
{
    let text: Option<String> = row.get(column)?;
    text.map(T::try_from).transpose().map_err(|error| undecodable(column, error.to_string()))
}

/// JSON from a column that may be null.
pub(crate) fn json<T: DeserializeOwned>(
    row: &rusqlite::Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let text =
        row.get_ref(column)?.as_str_or_null().map_err(|error| undecodable(column, error.to_string()))?;
    let value = text.map(serde_json::from_str).transpose();
    value.map_err(|error| undecodable(column, error.to_string()))
}

/// A value as JSON text.
pub(crate) fn json_text<T: Serialize>(value: Option<&T>) -> Result<Option<String>, SqliteFault> {
    let text = value.map(serde_json::to_string).transpose();
    text.map_err(|error| SqliteFault::Damaged(format!("cannot encode a record: {error}")))
}

/// The error of a column that cannot be decoded.
pub(crate) fn undecodable(column: usize, message: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, message.into())
}

/// Why a record is unreadable.
pub(crate) fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, inner) => inner.to_string(),
        rusqlite::Error::InvalidColumnType(_, column, kind) => format!("{column} holds {kind}"),
        other => other.to_string(),
    }
}

/// Whether an error means an unreadable record, not a failing database.
pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code().is_none() && !matches!(error, rusqlite::Error::QueryReturnedNoRows)
}
