//! Hashes: the chain between events, write-ids, hashes of inputs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The first 128 bits of a SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash(pub [u8; 16]);

impl Hash {
    /// The hash that the first event names as its predecessor.
    pub const ZERO: Self = Self([0; 16]);

    /// Returns the hash of `parts`, each preceded by its length so that no two lists collide.
    pub fn of_parts(parts: &[&str]) -> Self {
        let mut sha = Sha256::new();
        for part in parts {
            sha.update((part.len() as u64).to_be_bytes());
            sha.update(part.as_bytes());
        }
        Self::cut(&sha.finalize())
    }

    /// Returns the hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::cut(&Sha256::digest(bytes))
    }

    fn cut(digest: &[u8]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Self(half)
    }

    /// Returns the leading 64 bits, for seeding.
    pub fn leading(self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(bytes)
    }
}

/// Returns a whole SHA-256 in hexadecimal, as `sha256sum` prints it.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let mut text = [0; 64];
    write_hex(&digest, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The id of one append, by which a writer whose reply was lost finds out whether the append succeeded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WriteId(pub u64);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn write_hex(bytes: &[u8], out: &mut [u8]) {
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

fn read_hex(text: &str, out: &mut [u8]) -> Option<()> {
    if text.len() != out.len() * 2 {
        return None;
    }
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(())
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 32];
        write_hex(&self.0, &mut text);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Display for WriteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 16];
        write_hex(&self.0.to_be_bytes(), &mut text);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for WriteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not lower-case hexadecimal of the right length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not lower-case hexadecimal of the right length")]
pub struct NotHex;

impl FromStr for Hash {
    type Err = NotHex;

    fn from_str(text: &str) -> Result<Self, NotHex> {
        let mut bytes = [0; 16];
        read_hex(text, &mut bytes).ok_or(NotHex)?;
        Ok(Self(bytes))
    }
}

impl FromStr for WriteId {
    type Err = NotHex;

    fn from_str(text: &str) -> Result<Self, NotHex> {
        let mut bytes = [0; 8];
        read_hex(text, &mut bytes).ok_or(NotHex)?;
        Ok(Self(u64::from_be_bytes(bytes)))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for WriteId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for WriteId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_round_trips() {
        let hash = Hash::of(b"gold");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        let write = WriteId(0x0123_4567_89ab_cdef);
        assert_eq!(write.to_string(), "0123456789abcdef");
        assert_eq!(write.to_string().parse(), Ok(write));
        assert_eq!("0123456789ABCDEF".parse::<WriteId>(), Err(NotHex));
    }

    #[test]
    fn a_fingerprint_is_the_beginning_of_a_sha_256() {
        let whole = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), whole);
        let hash = Hash::of(b"abc");
        assert_eq!((hash.to_string(), hash.leading()), (whole[..32].to_owned(), 0xba78_16bf_8f01_cfea));
        let counted = [&1u64.to_be_bytes()[..], b"a", &2u64.to_be_bytes(), b"bc"].concat();
        assert_eq!(Hash::of_parts(&["a", "bc"]), Hash::of(&counted), "each part after its length");
    }

    #[test]
    fn fingerprints_are_texts_in_json_and_on_screen() {
        let hash = Hash([0x0f; 16]);
        let write = WriteId(0xf0);
        let texts = ["0f".repeat(16), "00000000000000f0".to_owned()];
        assert_eq!([format!("{hash:?}"), format!("{write:?}")], texts);
        let json = serde_json::to_string(&(hash, write)).unwrap();
        assert_eq!(json, format!("[\"{}\",\"{}\"]", texts[0], texts[1]));
        assert_eq!(serde_json::from_str::<(Hash, WriteId)>(&json).unwrap(), (hash, write));
        for wrong in ["", "0f", &texts[1], &texts[0][1..], &format!("{}0", texts[0]), &"0g".repeat(16)] {
            assert_eq!(wrong.parse::<Hash>(), Err(NotHex), "{wrong}");
        }
        assert_eq!(texts[0].parse::<WriteId>(), Err(NotHex));
    }

    #[test]
    fn parts_are_not_confused_with_their_concatenation() {
        assert_ne!(Hash::of_parts(&["ab", "c"]), Hash::of_parts(&["a", "bc"]));
    }
}
