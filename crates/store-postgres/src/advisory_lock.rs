//! Keys of advisory locks.

use goldseam_core::Hash;

/// The key of an advisory lock. A collision with the locks of another program is unlikely.
pub(crate) fn key_of(parts: &[&str]) -> i64 {
    let hash = Hash::of_parts(&[&["goldseam"], parts].concat()).to_string();
    let digits = hash.get(..16).unwrap_or(&hash);
    u64::from_str_radix(digits, 16).unwrap_or_default().cast_signed()
}
