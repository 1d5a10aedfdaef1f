//! The pages of all codes: what happened, why, and what to do.

use goldseam::recovery::Code;

/// Code and page of everything that has one, in order of code.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// The page of a code, as Markdown.
pub fn page(code: &str) -> Option<&'static str> {
    PAGES.iter().find(|(known, _)| *known == code).map(|(_, page)| *page)
}

/// Every code with its page: the rules, then the errors.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rules = PAGES.iter().filter(|(code, _)| is_rule(code));
    rules.chain(PAGES.iter().filter(|(code, _)| !is_rule(code))).copied()
}

fn is_rule(code: &str) -> bool {
    code.parse::<Code>().is_ok()
}

/// A code in a few words: a rule's from the catalogue, an error's from its page.
pub fn title<'a>(code: &str, page: &'a str) -> &'a str {
    if let Ok(code) = code.parse::<Code>() {
        return code.rule().title;
    }
    let heading = page.lines().next().unwrap_or_default();
    heading.split_once(": ").map_or(heading, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_called_the_same_in_the_catalogue_and_on_its_page() {
        for (code, page) in all().filter(|(code, _)| is_rule(code)) {
            assert_eq!(page.lines().next(), Some(format!("# {code}: {}", title(code, page)).as_str()));
            let parts = ["## What happened", "## Why", "## What to do", "    goldseam "];
            assert!(parts.iter().all(|part| page.contains(part)), "{code}: {page}");
        }
    }
}
