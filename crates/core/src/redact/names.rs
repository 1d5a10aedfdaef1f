//! Names of secrets: keys of documents and fields of log lines whose values are hidden.

/// The default names. `next_page_token` does not match: a bare `token` matches only as the whole name.
pub const USUAL: &str = "password, passwd, passphrase, pwd, secret, secret_key, api_key, access_key, private_key, \
    signing_key, encryption_key, access_token, refresh_token, id_token, auth_token, session_token, bearer_token, =token, \
    authorization, cookie, credential, credentials, connection_string";

/// Names of secrets. A name matches itself and the last words of a longer key: `password` matches `db_password`,
/// `dbPassword` and `DB-PASSWORD`, but not `password_hint`. A name with a leading `=` matches only itself. The plural
/// with `s` matches as well: `api_key` matches `apiKeys`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(Vec<Name>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    /// Lower-case letters and digits, without word separators.
    letters: String,
    whole: bool,
}

impl Names {
    /// Returns the names in [`USUAL`].
    pub fn usual() -> Self {
        Self::of(USUAL.split(','))
    }

    /// Creates a set of names; a name without letters and digits is ignored.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let name = |written: &str| {
            let written = written.trim();
            let letters = written.bytes().filter(|byte| !is_gap(*byte)).map(|byte| byte.to_ascii_lowercase());
            let letters = String::from_utf8(letters.collect()).unwrap_or_default();
            Name { letters, whole: written.starts_with('=') }
        };
        Self(names.into_iter().map(name).filter(|name| !name.letters.is_empty()).collect())
    }

    /// Returns whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a key of this name holds a secret.
    pub fn has(&self, key: &str) -> bool {
        let key = key.as_bytes();
        let singular = key.strip_suffix(b"s").or_else(|| key.strip_suffix(b"S"));
        let matches = |name: &Name| name.matches(key) || singular.is_some_and(|key| name.matches(key));
        self.0.iter().any(matches)
    }
}

impl Name {
    /// Compares from the end, so that the last words suffice.
    fn matches(&self, key: &[u8]) -> bool {
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

/// Returns whether a byte separates words.
fn is_gap(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric()
}

/// Returns whether a word begins here: at the start, after a separator, or with a capital as in `dbPassword` and
/// `DBPassword`.
fn begins_word(key: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| key[before]) else { return true };
    let next_is_small = key.get(at + 1).is_some_and(u8::is_ascii_lowercase);
    is_gap(before) || (key[at].is_ascii_uppercase() && (!before.is_ascii_uppercase() || next_is_small))
}
