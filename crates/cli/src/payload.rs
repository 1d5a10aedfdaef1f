//! Values from the command line: JSON, `@file` or `-`.

use std::io::Read;

use goldseam::{Limits, Payload};

use crate::error::{CliError, Exit};

/// The limits, with those of the environment.
pub(crate) fn limits() -> Result<Limits, CliError> {
    Ok(goldseam::Config::from_env()?.limits)
}

/// Reads JSON text, `@file` or `-` (stdin); `None` is `null`.
pub(crate) fn read(text: Option<&str>) -> Result<Payload, CliError> {
    let Some(text) = text else { return Ok(Payload::null()) };
    let held;
    let json = match text.strip_prefix('@') {
        Some(file) => {
            held = from_file(file)?;
            &held
        }
        None if text == "-" => {
            held = from_stdin()?;
            &held
        }
        None => text,
    };
    Ok(Payload::parse(json.trim(), &limits()?)?)
}

/// Reads JSON; takes other text as a JSON string. For answers.
pub(crate) fn read_or_text(text: &str) -> Result<Payload, CliError> {
    if text == "-" || text.starts_with('@') {
        return read(Some(text));
    }
    let limits = limits()?;
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(_) => Ok(Payload::parse(text, &limits)?),
        Err(_) if text.trim_start().starts_with(['{', '[', '"']) => Ok(Payload::parse(text, &limits)?),
        Err(_) => Ok(Payload::of(text, &limits)?),
    }
}

/// More bytes than a payload may have, so that an oversized payload is detected.
fn bound() -> u64 {
    u64::try_from(Limits::PAYLOAD_BYTES_MOST).unwrap_or(u64::MAX) + 64 * 1024
}

fn from_file(file: &str) -> Result<String, CliError> {
    let cannot = |error: std::io::Error| CliError {
        code: None,
        message: format!("cannot read {file}: {error}"),
        help: Some("pass a file with one JSON value, as in @order.json".to_owned()),
        next: Vec::new(),
        exit: Exit::Usage,
    };
    let mut text = String::new();
    let open = std::fs::File::open(file).map_err(cannot)?;
    open.take(bound()).read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

fn from_stdin() -> Result<String, CliError> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(bound()).read_to_string(&mut text);
    read.map_err(|error| {
        CliError::usage(format!("cannot read stdin: {error}"), "pipe one JSON value to it")
    })?;
    Ok(text)
}
