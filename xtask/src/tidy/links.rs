//! Links between Markdown files of the repository.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// Relative links to a missing file or heading.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_suffix(".md").flat_map(|file| dangling(tree, file)).collect()
}

fn dangling(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in links(&file.text) {
        let (place, heading) = target.split_once('#').unwrap_or((target, ""));
        let Some(path) = resolve(&file.path, place) else {
            let what = format!("the link {target} leaves the repository");
            findings.push(Finding::new(&file.path, line, what, "link to a file inside, or to an address"));
            continue;
        };
        if !tree.has(&path) {
            let what = format!("the link {target} is broken");
            findings.push(Finding::new(
                &file.path,
                line,
                what,
                format!("{path} does not exist: correct the link"),
            ));
        } else if !heading.is_empty()
            && tree.get(&path).is_some_and(|goal| goal.path.ends_with(".md") && !has_heading(goal, heading))
        {
            let what = format!("the link {target} names a missing heading");
            findings.push(Finding::new(&file.path, line, what, format!("look at the headings of {path}")));
        }
    }
    findings
}

/// Line and target of every relative link outside code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            fenced = !fenced;
        } else if !fenced {
            let found = inline(line).into_iter().chain(reference(line));
            links.extend(found.filter(|target| is_relative(target)).map(|target| (number + 1, target)));
        }
    }
    links
}

/// Targets of `[text](target)` outside code spans.
fn inline(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut at = 0;
    while let Some(offset) = line[at..].find(['`', ']']) {
        let here = at + offset;
        at = here + 1;
        if line[here..].starts_with('`') {
            // A backtick without a partner does not begin a span.
            at = line[at..].find('`').map_or(at, |end| at + end + 1);
        } else if let Some(rest) = line[at..].strip_prefix('(') {
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            targets.push(rest[..end].trim_matches(['<', '>']));
        }
    }
    targets
}

/// The target of `[name]: target`.
fn reference(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix('[')?.split_once("]: ")?;
    rest.split_whitespace().next().map(|target| target.trim_matches(['<', '>']))
}

fn is_relative(target: &str) -> bool {
    let scheme = target.split(['/', '#', '?']).next().unwrap_or_default();
    !target.is_empty() && !scheme.contains(':')
}

/// Resolves `target` in the file `from`; none if the path is above the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> =
        if target.starts_with('/') { Vec::new() } else { from.split('/').rev().skip(1).collect() };
    parts.reverse();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn has_heading(file: &File, anchor: &str) -> bool {
    let headings = file.text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| slug(line.trim_start_matches('#'))).any(|slug| slug == anchor)
}

/// The anchor that a heading gets.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let goal = "# One idea\n\n## What `x` is, really\n";
        let tree = Tree::of(&[("docs/a.md", text), ("docs/adr/b.md", goal), ("README.md", "# R\n")]);
        check(&tree).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn accepts_links_that_resolve() {
        for text in [
            "[b](adr/b.md) and [r](../README.md), [dir](adr), [self](#top)\n# Top\n",
            "[b](adr/b.md#one-idea) [c](adr/b.md#what-x-is-really) [r](/README.md)",
            "[x](https://example.org/y.md) <mailto:a@example.org>",
            "`[x](nowhere.md)`\n```\n[x](nowhere.md)\n```\n",
            "[name]: adr/b.md",
        ] {
            assert!(lines(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn finds_broken_links() {
        assert_eq!(lines("x\n[b](adr/c.md)"), [2]);
        assert_eq!(lines("[b](adr/b.md#other)"), [1]);
        assert_eq!(lines("[self](#other)"), [1]);
        assert_eq!(lines("[up](../../x.md)"), [1]);
        assert_eq!(lines("[name]: nowhere.md"), [1]);
        assert_eq!(lines("`code` [b](nowhere.md) `code`"), [1]);
        assert_eq!(lines("```\nx\n```\n[b](nowhere.md)"), [4]);
    }
}
