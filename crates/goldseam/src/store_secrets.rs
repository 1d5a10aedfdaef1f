//! Redacts the credentials with which a process opens its stores.

use goldseam_core::Redactor;
use goldseam_store::url_secrets;

/// Environment variables with bucket credentials.
const BUCKET_VARIABLES: &[&str] =
    &["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN"];

/// Registers the secrets in `urls` and the bucket credentials in the environment with the redactor.
///
/// Skips secrets that are too short to search for in a text. URLs are printed without them anyway.
pub fn hide_known<'a>(
    redactor: &mut Redactor,
    urls: impl IntoIterator<Item = &'a str>,
    env: impl Fn(&str) -> Option<String>,
) {
    let from_urls = urls.into_iter().flat_map(url_secrets);
    for secret in from_urls.chain(BUCKET_VARIABLES.iter().filter_map(|name| env(name))) {
        let _ = redactor.hide(&secret);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacts_store_credentials() {
        let mut redactor = Redactor::default();
        let env = |name: &str| (name == "AWS_SECRET_ACCESS_KEY").then(|| "from/the/environment".to_owned());
        hide_known(&mut redactor, ["postgres://ada:open%2Fsesame@h/d", "postgres://ada:1234@h/d"], env);
        let text = "open/sesame open%2Fsesame from/the/environment 1234";
        assert_eq!(redactor.text(text), "[secret] [secret] [secret] 1234");
    }
}
