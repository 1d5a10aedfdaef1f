//! Credentials of a server, kept in its main store: keys, and the secrets that sign passes and tokens.
//!
//! A server checks a credential before it has an [`Api`](crate::Api), because the credential selects the namespace.

pub mod cached_read;
pub mod file_mode;
pub mod keys;
pub mod passes;
pub mod token;

/// The namespace of the main store.
pub const NAMESPACE_DEFAULT: &str = "default";

/// Encodes bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
