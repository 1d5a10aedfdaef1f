//! Values from the command line: JSON, `@file` or `-`.

use std::io::Read;

use goldseam::{Limits, Payload};

use crate::fail::{Exit, Fail};

/// The bounds of whoever works on a store from here.
pub(crate) fn limits() -> Result<Limits, Fail> {
    let mut limits = Limits::default();
    let name = goldseam_server::config::PAYLOAD_BYTES_MAX_ENV;
    let Some(text) = std::env::var(name).ok().filter(|text| !text.is_empty()) else { return Ok(limits) };
    let most = Limits::PAYLOAD_BYTES_MOST;
    let wrong =
        || Fail::usage(format!("{name} is {text:?}"), format!("write a number of bytes, {most} at the most"));
    limits.payload_bytes_max = text.trim().parse().ok().filter(|bytes| *bytes <= most).ok_or_else(wrong)?;
    Ok(limits)
}

/// Reads JSON text, `@file` or `-` (stdin); nothing is `null`.
pub(crate) fn read(text: Option<&str>) -> Result<Payload, Fail> {
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

/// Reads JSON; text that is no JSON is taken as a JSON string. For answers.
pub(crate) fn read_or_text(text: &str) -> Result<Payload, Fail> {
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

/// One byte more than may be read, so that too much is seen as such.
fn bound() -> u64 {
    u64::try_from(Limits::PAYLOAD_BYTES_MOST).unwrap_or(u64::MAX) + 64 * 1024
}

fn from_file(file: &str) -> Result<String, Fail> {
    let cannot = |error: std::io::Error| Fail {
        code: None,
        message: format!("{file} cannot be read: {error}"),
        help: Some("name a file that holds one JSON value, as in @order.json".to_owned()),
        exit: Exit::Usage,
    };
    let mut text = String::new();
    let open = std::fs::File::open(file).map_err(cannot)?;
    open.take(bound()).read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

fn from_stdin() -> Result<String, Fail> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(bound()).read_to_string(&mut text);
    read.map_err(|error| Fail::usage(format!("stdin cannot be read: {error}"), "pipe one JSON value in"))?;
    Ok(text)
}
