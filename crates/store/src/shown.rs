//! URLs for people.

/// Options of a URL that nobody may see.
const SECRET: &[&str] = &["password", "secret_access_key", "session_token"];

/// A store's URL as it may be shown: without its secrets.
pub fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let place = match place.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:***@{host}"),
            None => format!("{user}@{host}"),
        },
        None => place.to_owned(),
    };
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if SECRET.contains(&name) => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    match query.map(|query| query.split('&').map(hidden).collect::<Vec<_>>().join("&")) {
        Some(query) => format!("{scheme}://{place}?{query}"),
        None => format!("{scheme}://{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        for (url, shown) in [
            ("postgres://ada:p@ss@h/d?password=x&schema=y", "postgres://ada:***@h/d?password=***&schema=y"),
            ("postgres://ada@h/d", "postgres://ada@h/d"),
            ("postgres://h/d?user=a&password=b", "postgres://h/d?user=a&password=***"),
            (
                "s3://b/p?access_key_id=a&secret_access_key=b&session_token=c==&region=r",
                "s3://b/p?access_key_id=a&secret_access_key=***&session_token=***&region=r",
            ),
            ("sqlite:a:b@c.db", "sqlite:a:b@c.db"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }
}
