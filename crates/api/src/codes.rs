//! The page of every code: what happened, why, and what to do.

use goldseam::recovery::Code;

/// Every code with its page, ordered by code.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Returns the page of a code or of a rule's name, as Markdown.
pub fn page(code: &str) -> Option<&'static str> {
    let code = Code::from_name(code).map_or(code, |rule| rule.as_str());
    PAGES.iter().find(|(known, _)| *known == code).map(|(_, page)| *page)
}

/// Lists every code with its page: rules first, then errors.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rules = PAGES.iter().filter(|(code, _)| is_rule(code));
    rules.chain(PAGES.iter().filter(|(code, _)| !is_rule(code))).copied()
}

fn is_rule(code: &str) -> bool {
    Code::from_code(code).is_some()
}

/// Returns the title of a code: of a rule from the catalogue, of an error from its page.
pub fn title<'a>(code: &str, page: &'a str) -> &'a str {
    if let Some(code) = Code::from_code(code) {
        return code.rule().title;
    }
    let heading = page.lines().next().unwrap_or_default();
    heading.split_once(": ").map_or(heading, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_titles_match_their_pages() {
        for (code, page) in all().filter(|(code, _)| is_rule(code)) {
            assert_eq!(page.lines().next(), Some(format!("# {code}: {}", title(code, page)).as_str()));
            let name = Code::from_code(code).unwrap().name();
            assert_eq!(page.lines().nth(2), Some(format!("Name: `{name}`").as_str()), "{code}");
            assert_eq!(super::page(name), Some(page));
            let parts = ["## What happened", "## Why", "## What to do", "    goldseam "];
            assert!(parts.iter().all(|part| page.contains(part)), "{code}: {page}");
        }
    }
}
