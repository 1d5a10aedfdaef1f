//! Names of secrets: keys of documents and fields of log lines whose values nobody may read.

/// The names unless told otherwise. `next_page_token` is none of them: a bare `token` counts only as the whole name.
pub const USUAL: &str = "password, passwd, passphrase, pwd, secret, secret_key, api_key, access_key, private_key, \
    signing_key, encryption_key, access_token, refresh_token, id_token, auth_token, session_token, bearer_token, =token, \
    authorization, cookie, credential, credentials, connection_string";

/// Names of secrets. A name is met by itself and as the last words of a longer one: `password` by `db_password`,
/// `dbPassword` and `DB-PASSWORD`, never by `password_hint`. One that is written with `=` before it is met by itself alone. The
/// plural with `s` counts as the name itself: `api_key` is met by `apiKeys`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(Vec<Name>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    /// In small letters, without what stands between words.
    letters: String,
    whole: bool,
}

impl Names {
    /// Those of [`USUAL`].
    pub fn usual() -> Self {
        Self::of(USUAL.split(','))
    }

    /// These; what has neither letter nor digit is none.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let name = |written: &str| {
            let written = written.trim();
            let letters = written.bytes().filter(|byte| !is_gap(*byte)).map(|byte| byte.to_ascii_lowercase());
            let letters = String::from_utf8(letters.collect()).unwrap_or_default();
            Name { letters, whole: written.starts_with('=') }
        };
        Self(names.into_iter().map(name).filter(|name| !name.letters.is_empty()).collect())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key of this name holds a secret.
    pub fn has(&self, key: &str) -> bool {
        let key = key.as_bytes();
        let singular = key.strip_suffix(b"s").or_else(|| key.strip_suffix(b"S"));
        let met = |name: &Name| name.is_met_by(key) || singular.is_some_and(|key| name.is_met_by(key));
        self.0.iter().any(met)
    }
}

impl Name {
    /// Compares from the end, so that the last words are enough.
    fn is_met_by(&self, key: &[u8]) -> bool {
        let mut at = key.len();
        for letter in self.letters.bytes().rev() {
            let Some(found) = key[..at].iter().rposition(|byte| !is_gap(*byte)) else { return false };
            if key[found].to_ascii_lowercase() != letter {
                return false;
            }
            at = found;
        }
        match self.whole {
            true => key[..at].iter().all(|byte| is_gap(*byte)),
            false => begins_word(key, at),
        }
    }
}

/// What stands between words.
fn is_gap(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric()
}

/// Whether a word begins here: at the start, after a gap, or with a capital as in `dbPassword` and `DBPassword`.
fn begins_word(key: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| key[before]) else { return true };
    let next_is_small = key.get(at + 1).is_some_and(u8::is_ascii_lowercase);
    is_gap(before) || (key[at].is_ascii_uppercase() && (!before.is_ascii_uppercase() || next_is_small))
}
