//! Every code has a page, and some crate raises the code of every page.

use crate::finding::Finding;
use crate::ratchet::{Counts, FILE, Kind, Ratchet};
use crate::source::line_of;
use crate::tree::{File, Tree};

/// The folder of the pages.
const DIR: &str = "docs/codes/";
/// The most lines of an error's page: the command line prints it.
const PAGE_LINES_MAX: usize = 25;
const SECTIONS: &[&str] = &["## What happened", "## Why", "## What to do"];

/// One page.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    /// The code that it explains: `GS0104`, or a rule such as `A2`.
    pub(crate) code: &'a str,
    /// The title in the first line, if the line has the right form.
    pub(crate) title: Option<&'a str>,
    /// The name, if it is the page of a rule.
    pub(crate) name: Option<&'a str>,
    file: &'a File,
}

/// All pages, in order of code.
pub(crate) fn pages(tree: &Tree) -> Vec<Page<'_>> {
    tree.files.iter().filter_map(page).collect()
}

fn page(file: &File) -> Option<Page<'_>> {
    let code = file.path.strip_prefix(DIR)?.strip_suffix(".md")?;
    let heading = file.text.lines().next().unwrap_or_default();
    let title = heading.strip_prefix("# ").and_then(|rest| rest.strip_prefix(code)?.strip_prefix(": "));
    let name = file.text.lines().nth(2).and_then(|line| line.strip_prefix("Name: `")?.strip_suffix('`'));
    (code != "README").then_some(Page { code, title, name, file })
}

/// Whether some crate or SDK names this code.
fn is_raised(tree: &Tree, code: &str) -> bool {
    sources(tree).any(|file| file.text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == code))
}

fn sources(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_rust = |path: &str| path.starts_with("crates/") && path.ends_with(".rs");
    let is_python = |path: &str| path.starts_with("sdk/python/src/") && path.ends_with(".py");
    tree.files.iter().filter(move |file| is_rust(&file.path) || is_python(&file.path))
}

/// Codes without a page, pages without a code, and pages of the wrong form.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = pages(tree);
    let mut findings: Vec<Finding> = pages.iter().filter_map(malformed).collect();
    findings.extend(without_page(tree, &pages));
    findings.extend(unraised(tree, &pages));
    findings
}

fn malformed(page: &Page<'_>) -> Option<Finding> {
    let File { path, text } = page.file;
    let lines = text.lines().count();
    let is_error = page.code.starts_with("GS");
    let missing = SECTIONS.iter().find(|section| !text.lines().any(|line| line == **section));
    if page.title.is_none() {
        let fix = format!("begin it with `# {}: title`", page.code);
        return Some(Finding::new(path, 1, "the page does not begin with its code", fix));
    }
    if is_error && lines > PAGE_LINES_MAX {
        let what = format!("the page has {lines} lines, {PAGE_LINES_MAX} fit a terminal");
        return Some(Finding::new(path, PAGE_LINES_MAX, what, "shorten it"));
    }
    let missing = missing.filter(|_| is_error)?;
    Some(Finding::new(path, 1, format!("the page has no section `{missing}`"), "add it"))
}

fn without_page(tree: &Tree, pages: &[Page<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources(tree) {
        for (at, code) in error_codes(&file.text) {
            if !pages.iter().any(|page| page.code == code) {
                let fix = format!("write {DIR}{code}.md");
                let line = line_of(&file.text, at);
                findings.push(Finding::new(&file.path, line, format!("{code} has no page"), fix));
            }
        }
    }
    findings
}

/// Every `GS` with four digits that is a whole word.
fn error_codes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices("GS").filter_map(|(at, _)| {
        let code = text.get(at..at + 6)?;
        let digits = code[2..].bytes().all(|byte| byte.is_ascii_digit());
        let before = text[..at].chars().next_back();
        let after = text[at + 6..].chars().next();
        let joined = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        (digits && !joined(before) && !joined(after)).then_some((at, code))
    })
}

fn unraised(tree: &Tree, pages: &[Page<'_>]) -> Vec<Finding> {
    let (ratchet, _) = Ratchet::of(tree);
    let mut findings = Vec::new();
    for page in pages {
        let excused = ratchet.get(Kind::Unraised, page.code).is_some();
        match (is_raised(tree, page.code), excused) {
            (false, false) => findings.push(Finding::new(
                &page.file.path,
                1,
                format!("no crate raises {}", page.code),
                "raise it, or delete the page",
            )),
            (true, true) => findings.push(slack(format!("{} is raised now", page.code))),
            _ => {}
        }
    }
    let gone =
        ratchet.entries(Kind::Unraised).filter(|(code, _)| !pages.iter().any(|page| page.code == *code));
    findings.extend(gone.map(|(code, _)| slack(format!("{code} has no page"))));
    findings
}

/// The pages whose code no crate raises.
pub(super) fn count(tree: &Tree) -> Counts {
    let pages = pages(tree);
    pages.iter().filter(|page| !is_raised(tree, page.code)).map(|page| (page.code.to_owned(), 1)).collect()
}

fn slack(what: String) -> Finding {
    Finding::new(FILE, 1, what, "run `cargo xtask generate`, which removes the exception")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# GS0104: unknown run\n\n## What happened\n\n## Why\n\n## What to do\n";
    const CODE: (&str, &str) = ("crates/a/src/b.rs", "const X: &str = \"GS0104\";");

    fn count(files: &[(&str, &str)]) -> usize {
        check(&Tree::of(files)).len()
    }

    #[test]
    fn pages_and_raised_codes_match() {
        assert_eq!(count(&[("docs/codes/GS0104.md", PAGE), CODE]), 0);
        assert_eq!(count(&[CODE]), 1, "no page");
        assert_eq!(count(&[("docs/codes/GS0104.md", PAGE)]), 1, "nothing raises it");
        assert_eq!(count(&[("docs/codes/GS0104.md", PAGE), ("xtask/src/x.rs", "\"GS0104\"")]), 1);
    }

    #[test]
    fn an_exception_is_for_unraised_codes_only() {
        let excuse = (FILE, "unraised GS0104\n");
        assert_eq!(count(&[("docs/codes/GS0104.md", PAGE), excuse]), 0);
        assert_eq!(count(&[("docs/codes/GS0104.md", PAGE), CODE, excuse]), 1);
        assert_eq!(count(&[excuse]), 1, "no page");
    }

    #[test]
    fn a_page_has_a_title_and_sections() {
        let with = |text: &str| count(&[("docs/codes/GS0104.md", text), CODE]);
        assert_eq!(with(&PAGE.replace("GS0104", "GS0105")), 1);
        assert_eq!(with(&PAGE.replace("## Why\n", "")), 1);
        assert_eq!(with(&format!("{PAGE}{}", "x\n".repeat(30))), 1);
        let rule = "# A2: the status says running, the log has an open question\n";
        assert_eq!(count(&[("docs/codes/A2.md", rule), ("crates/a/src/b.rs", "\"A2\"")]), 0);
    }

    #[test]
    fn finds_whole_codes_only() {
        let codes = |text: &'static str| error_codes(text).map(|(_, code)| code).collect::<Vec<_>>();
        assert_eq!(codes("GS0104, [GS0201]: XGS0104 GS01045 GS010 GS"), ["GS0104", "GS0201"]);
    }
}
