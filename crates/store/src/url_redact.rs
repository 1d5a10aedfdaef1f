//! Redaction of store URLs.

use percent_encoding::percent_decode_str;

/// Options of a URL that are secret.
const SECRET: &[&str] = &["password", "secret_access_key", "session_token"];

/// Minimum length of a user without a password that counts as a token.
const TOKEN_BYTES_MIN: usize = 20;

/// The text that replaces a secret.
const HIDDEN: &str = "***";

/// The parts of a URL.
struct UrlParts<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    password: Option<&'a str>,
    place: &'a str,
    query: Option<&'a str>,
}

impl<'a> UrlParts<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let (user, place) = place.rsplit_once('@').map_or((None, place), |(user, place)| (Some(user), place));
        let named = user.and_then(|user| user.split_once(':'));
        let (user, password) = named.map_or((user, None), |(user, password)| (Some(user), Some(password)));
        Some(Self { scheme, user, password, place, query })
    }
}

/// Returns a store's URL without its secrets, for people. A user without a password may be a token, and is hidden,
/// too.
pub fn shown_url(url: &str) -> String {
    let Some(UrlParts { scheme, user, password, place, query }) = UrlParts::of(url) else {
        return url.to_owned();
    };
    let user = match (user, password) {
        (None, _) => String::new(),
        (Some(_), None) => format!("{HIDDEN}@"),
        (Some(user), Some(_)) => format!("{user}:{HIDDEN}@"),
    };
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if SECRET.contains(&name) => format!("{name}={HIDDEN}"),
        _ => pair.to_owned(),
    };
    match query.map(|query| query.split('&').map(hidden).collect::<Vec<_>>().join("&")) {
        Some(query) => format!("{scheme}://{user}{place}?{query}"),
        None => format!("{scheme}://{user}{place}"),
    }
}

/// Returns the secrets of a store's URL, both as written and decoded. A password that is also visible elsewhere in
/// the URL, such as in the name of the database, is not secret.
pub fn url_secrets(url: &str) -> Vec<String> {
    let Some(UrlParts { user, password, query, .. }) = UrlParts::of(url) else { return Vec::new() };
    let token = user.filter(|user| password.is_none() && user.len() >= TOKEN_BYTES_MIN);
    let options =
        query.into_iter().flat_map(|query| query.split('&')).filter_map(|pair| pair.split_once('='));
    let options = options.filter(|(name, _)| SECRET.contains(name)).map(|(_, value)| value);
    let shown = shown_url(url);
    let written = [password, token].into_iter().flatten().chain(options);
    let mut secrets: Vec<String> = written
        .flat_map(|secret| [secret.to_owned(), unescaped(secret)])
        .filter(|it| !shown.contains(it.as_str()))
        .collect();
    secrets.dedup();
    secrets
}

/// Decodes `%XX`.
fn unescaped(text: &str) -> String {
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        for (url, shown) in [
            ("postgres://ada:p@ss@h/d?password=x&schema=y", "postgres://ada:***@h/d?password=***&schema=y"),
            ("postgres://ada@h/d", "postgres://***@h/d"),
            ("https://ghp_sesame@h", "https://***@h"),
            ("postgres://h/d?user=a&password=b", "postgres://h/d?user=a&password=***"),
            (
                "s3://b/p?access_key_id=a&secret_access_key=b&session_token=c==&region=r",
                "s3://b/p?access_key_id=a&secret_access_key=***&session_token=***&region=r",
            ),
            ("sqlite:a:b@c.db", "sqlite:a:b@c.db"),
        ] {
            assert_eq!(shown_url(url), shown);
            assert_eq!(shown_url(shown), shown);
        }
    }

    #[test]
    fn url_secrets_are_the_hidden_parts() {
        for (url, secrets) in [
            ("postgres://ada:open%2Fsesame@h/d", &["open%2Fsesame", "open/sesame"][..]),
            ("postgres://ada:sesame@h/d?password=open", &["sesame", "open"]),
            ("s3://b/p?access_key_id=a&secret_access_key=b==&session_token=hush", &["b==", "hush"]),
            ("http://ghp_0123456789abcdef@collector", &["ghp_0123456789abcdef"]),
            ("postgres://goldseam@h/d", &[]),
            ("postgres://goldseam:goldseam@h/d", &[]),
            ("sqlite:a:b@c.db", &[]),
        ] {
            assert_eq!(url_secrets(url), secrets, "{url}");
        }
        assert_eq!(unescaped("%41%zz%4"), "A%zz%4");
    }
}
