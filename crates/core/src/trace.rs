//! W3C trace context: the place of a run in the distributed trace of the program that started it.
//!
//! A trace context is a `traceparent` and an optional `tracestate`, as in <https://www.w3.org/TR/trace-context/>. The
//! ids of the spans that a server exports follow from the trace id, the run and the idempotency key of an operation,
//! so the code of a step can name its span before the span is exported.

use serde::{Deserialize, Deserializer, Serialize};

use crate::branch::BranchId;
use crate::hash::Hash;
use crate::id::RunId;

/// Longest `traceparent` that is read. Version 00 has exactly 55 bytes; later versions may append fields.
pub const TRACEPARENT_BYTES_MAX: usize = 512;
/// Longest `tracestate` that is kept. Of a longer one, the leading members that fit are kept.
pub const TRACESTATE_BYTES_MAX: usize = 512;
/// Most members of a `tracestate`.
const MEMBERS_MAX: usize = 32;
/// Length of version, trace id, parent id and flags with their separators.
const TRACEPARENT_BYTES: usize = 55;
/// The flags that are passed on: sampled, and random trace id.
const FLAGS_KNOWN: u8 = 0b11;

/// The place of a caller in a distributed trace: a `traceparent` and a `tracestate` of the W3C.
///
/// ```
/// use goldseam_core::TraceContext;
///
/// let caller = TraceContext::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")?;
/// assert_eq!(caller.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(caller.parent_id(), "00f067aa0ba902b7");
/// assert!(caller.is_sampled());
/// assert!(TraceContext::new("00-00000000000000000000000000000000-00f067aa0ba902b7-01").is_err());
/// # Ok::<(), goldseam_core::trace::TraceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TraceContext {
    /// Version, trace id, parent id and flags, as in `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
    traceparent: String,
    /// Data of the tracing systems along the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
}

/// Why a text is not a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent: {0}")]
pub struct TraceError(&'static str);

impl TraceError {
    /// The stable code, with a page in `docs/codes`.
    pub const CODE: &'static str = "GS0153";

    /// What the caller should do.
    pub const HINT: &'static str =
        "write version, trace id, parent id and flags in lower-case hexadecimal: 00-TRACE-PARENT-01";
}

impl TraceContext {
    /// Checks a `traceparent`. A later version than 00 is read as far as version 00 defines it.
    pub fn new(traceparent: &str) -> Result<Self, TraceError> {
        Ok(Self { traceparent: checked(traceparent)?, tracestate: None })
    }

    /// Adds a `tracestate`. An invalid one is left out, because it must not break the trace. Of one that is longer
    /// than [`TRACESTATE_BYTES_MAX`], the leading members that fit are kept.
    #[must_use]
    pub fn with_state(self, tracestate: &str) -> Self {
        Self { tracestate: checked_state(tracestate), ..self }
    }

    /// Reads the texts of a request. Returns nothing if the `traceparent` is invalid: by the rules of the W3C, the
    /// receiver then ignores both.
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let context = Self::new(traceparent).ok()?;
        Some(match tracestate {
            Some(state) => context.with_state(state),
            None => context,
        })
    }

    /// The value of the header `traceparent`.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// The value of the header `tracestate`, if there is one.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// The id of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        &self.traceparent[3..35]
    }

    /// The id of the caller's span: 16 hexadecimal digits.
    pub fn parent_id(&self) -> &str {
        &self.traceparent[36..52]
    }

    /// Whether the caller records its part of the trace.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.traceparent[53..], 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// The context of code that belongs to the run: its parent is the span of the run.
    #[must_use]
    pub fn within_run(&self, run: &RunId) -> Self {
        self.under(&self.run_span(run))
    }

    /// The context of code that belongs to an operation with this idempotency key: its parent is the span of the
    /// operation.
    #[must_use]
    pub fn within(&self, key: &str) -> Self {
        self.under(&self.span(key))
    }

    /// The id of the span of a run.
    pub fn run_span(&self, run: &RunId) -> String {
        span_id(&["run", self.trace_id(), run.as_str()])
    }

    /// The id of the span of an operation with this idempotency key.
    pub fn span(&self, key: &str) -> String {
        span_id(&["span", self.trace_id(), key])
    }

    fn under(&self, span: &str) -> Self {
        let trace = self.trace_id();
        let flags = &self.traceparent[53..];
        Self { traceparent: format!("00-{trace}-{span}-{flags}"), tracestate: self.tracestate.clone() }
    }

    /// Leaves the `tracestate` out if it contains what `finds` looks for.
    pub(crate) fn drop_state_if(&mut self, finds: impl Fn(&str) -> bool) {
        if self.tracestate.as_deref().is_some_and(finds) {
            self.tracestate = None;
        }
    }
}

/// Returns the idempotency key of an operation, from which the id of its span follows. The key of a compensation has
/// the path `undo PATH`.
pub fn key_of(run: &RunId, generation: BranchId, path: &str) -> String {
    Hash::of_parts(&[run.as_str(), &generation.to_string(), path]).to_string()
}

/// Returns the path of a compensation, as views and spans name it.
pub fn undo_path(path: &str) -> String {
    format!("undo {path}")
}

fn span_id(parts: &[&str]) -> String {
    let id = Hash::of_parts(parts).to_string()[..16].to_owned();
    // Zero is not a valid span id.
    if is_zero(&id) { "0000000000000001".to_owned() } else { id }
}

fn is_zero(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'0')
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns a valid `traceparent` as one of version 00, with only the flags that this version knows.
fn checked(text: &str) -> Result<String, TraceError> {
    let text = text.trim_matches([' ', '\t']);
    if text.len() > TRACEPARENT_BYTES_MAX {
        return Err(TraceError("it is longer than 512 bytes"));
    }
    if !text.is_ascii() {
        return Err(TraceError("it has a character that is not ASCII"));
    }
    if text.len() < TRACEPARENT_BYTES {
        return Err(TraceError("it is shorter than 55 characters"));
    }
    let (head, rest) = text.split_at(TRACEPARENT_BYTES);
    let mut fields = head.split('-');
    let mut field = |digits: usize, wrong| {
        let field = fields.next().filter(|field| field.len() == digits && is_lower_hex(field));
        field.ok_or(TraceError(wrong))
    };
    let version = field(2, "its version is not two lower-case hexadecimal digits")?;
    let trace = field(32, "its trace id is not 32 lower-case hexadecimal digits")?;
    let parent = field(16, "its parent id is not 16 lower-case hexadecimal digits")?;
    let flags = field(2, "its flags are not two lower-case hexadecimal digits")?;
    match version {
        "ff" => return Err(TraceError("version ff is invalid")),
        "00" if !rest.is_empty() => return Err(TraceError("version 00 has exactly 55 characters")),
        _ if !rest.is_empty() && !rest.starts_with('-') => {
            return Err(TraceError("a dash must follow its flags"));
        }
        _ => {}
    }
    if is_zero(trace) {
        return Err(TraceError("its trace id is zero"));
    }
    if is_zero(parent) {
        return Err(TraceError("its parent id is zero"));
    }
    let flags = u8::from_str_radix(flags, 16).unwrap_or_default() & FLAGS_KNOWN;
    Ok(format!("00-{trace}-{parent}-{flags:02x}"))
}

/// Returns a valid `tracestate`, shortened to whole members; none if it is invalid or empty.
fn checked_state(text: &str) -> Option<String> {
    if !text.bytes().all(|byte| byte == b'\t' || matches!(byte, 0x20..=0x7e)) {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut keys: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for member in text.split(',').map(|member| member.trim_matches([' ', '\t'])) {
        // The grammar allows empty members.
        if member.is_empty() {
            continue;
        }
        let (key, value) = member.split_once('=')?;
        if !is_state_key(key) || !is_state_value(value) || keys.contains(&key) || keys.len() == MEMBERS_MAX {
            return None;
        }
        keys.push(key);
        bytes += member.len() + usize::from(keys.len() > 1);
        if bytes <= TRACESTATE_BYTES_MAX {
            kept.push(member);
        }
    }
    (!kept.is_empty()).then(|| kept.join(","))
}

fn is_state_key(key: &str) -> bool {
    let is_part = |part: &str, max: usize| {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/');
        !part.is_empty() && part.len() <= max && part.bytes().all(allowed)
    };
    let begins = key.bytes().next().is_some_and(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    begins
        && match key.split_once('@') {
            Some((tenant, system)) => {
                is_part(tenant, 241)
                    && is_part(system, 14)
                    && system.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
            }
            None => is_part(key, 256),
        }
}

fn is_state_value(value: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b',' && byte != b'=';
    !value.is_empty() && value.len() <= 256 && value.bytes().all(allowed)
}

/// Reads an optional trace context from a record. An invalid one is left out: a record must stay readable without it.
pub fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TraceContext>, D::Error> {
    let found = serde_json::Value::deserialize(deserializer)?;
    let text = |name: &str| found.get(name).and_then(serde_json::Value::as_str);
    Ok(text("traceparent").and_then(|parent| TraceContext::read(parent, text("tracestate"))))
}

#[cfg(test)]
mod tests;
