//! Secrets that a process has without being told: those that it opens its stores with.

use goldseam_core::Redactor;
use goldseam_store::url_secrets;

/// Variables that buckets are opened with.
const OF_BUCKETS: &[&str] =
    &["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN"];

/// Hides the secrets of these URLs, and those of the environment that buckets are opened with. What is too short to be
/// looked for in a text is left out; it is not shown in a URL either.
pub fn hide_known<'a>(
    redactor: &mut Redactor,
    urls: impl IntoIterator<Item = &'a str>,
    env: impl Fn(&str) -> Option<String>,
) {
    let of_urls = urls.into_iter().flat_map(url_secrets);
    for secret in of_urls.chain(OF_BUCKETS.iter().filter_map(|name| env(name))) {
        let _ = redactor.hide(&secret);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_a_store_is_hidden() {
        let mut redactor = Redactor::default();
        let env = |name: &str| (name == "AWS_SECRET_ACCESS_KEY").then(|| "from/the/environment".to_owned());
        hide_known(&mut redactor, ["postgres://ada:open%2Fsesame@h/d", "postgres://ada:1234@h/d"], env);
        let text = "open/sesame open%2Fsesame from/the/environment 1234";
        assert_eq!(redactor.text(text), "[secret] [secret] [secret] 1234");
    }
}
