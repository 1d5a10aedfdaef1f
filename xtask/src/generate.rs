//! `cargo xtask generate`: writes the index of codes, the page of records, and the tightened ratchet.

use crate::finding::Finding;
use crate::ratchet::{self, Ratchet};
use crate::record;
use crate::tidy::{measure, pages};
use crate::tree::{self, Tree};

/// The index of codes.
const INDEX: &str = "docs/codes/README.md";

/// The action for a stale file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Write it.
    Write,
    /// Report it and fail.
    Check,
}

/// Families of codes: the prefix of the code, and the title of the table.
const FAMILIES: &[(&str, &str)] = &[
    ("GS01", "Runs and commands"),
    ("GS02", "Stores"),
    ("GS03", "Tasks and locks"),
    ("GS04", "Copying a store"),
    ("GS", "Other errors"),
    ("", "Rules"),
];

/// Writes or checks the generated files.
pub(crate) fn run(mode: Mode) -> Result<(), String> {
    let root = tree::root()?;
    let tree = Tree::read(&root)?;
    let mut stale = Vec::new();
    for (path, text) in [
        (INDEX, index(&tree)),
        (record::PAGE, record::page(&tree)),
        (ratchet::FILE, tightened(&tree).to_text()),
    ] {
        if tree.get(path).is_some_and(|file| file.text == text) {
            continue;
        }
        stale.push(path);
        if mode == Mode::Write {
            std::fs::write(root.join(path), text).map_err(|error| format!("{path}: {error}"))?;
            println!("wrote {path}");
        }
    }
    if mode == Mode::Check && !stale.is_empty() {
        return Err(format!("stale: {} (run `cargo xtask generate`)", stale.join(", ")));
    }
    Ok(())
}

/// Generated pages that are stale. (The checks with exceptions report a ratchet that is too loose.)
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let made = [(INDEX, index(tree)), (record::PAGE, record::page(tree))];
    let stale = made.into_iter().filter(|(path, text)| tree.get(path).is_none_or(|file| file.text != *text));
    stale.map(|(path, _)| Finding::new(path, 1, "the page is stale", "run `cargo xtask generate`")).collect()
}

fn index(tree: &Tree) -> String {
    let mut text = String::from(
        "# Codes\n\n\
         Every error and every rule has a code and a page. `goldseam explain CODE` prints the page. Each rule also has \
         a name, which can be used wherever its code can: `goldseam explain worker-lost`.\n\n\
         This file is generated from the pages: `cargo xtask generate`.\n",
    );
    let mut left = pages(tree);
    for (prefix, name) in FAMILIES {
        let (family, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|page| page.code.starts_with(prefix));
        left = others;
        if family.is_empty() {
            continue;
        }
        let is_named = family.iter().any(|page| page.name.is_some());
        let (head, line) = if is_named { ("| name ", "|---") } else { ("", "") };
        text.push_str(&format!("\n## {name}\n\n| code {head}| title |\n|---{line}|---|\n"));
        for page in family {
            let code = page.code;
            let title = page.title.unwrap_or("?").replace('|', "\\|");
            let name = match (is_named, page.name) {
                (true, name) => format!("| `{}` ", name.unwrap_or("?")),
                (false, _) => String::new(),
            };
            text.push_str(&format!("| [{code}]({code}.md) {name}| {title} |\n"));
        }
    }
    text
}

/// The ratchet with every entry as tight as the tree allows; never looser.
fn tightened(tree: &Tree) -> Ratchet {
    let (ratchet, _) = Ratchet::of(tree);
    measure(tree).into_iter().fold(ratchet, |ratchet, (kind, counts)| ratchet.tightened(kind, &counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratchet::Kind;

    const PAGES: &[(&str, &str)] = &[
        ("docs/codes/A2.md", "# A2: an open question\n\nName: `hidden-question`\n"),
        ("docs/codes/GS0104.md", "# GS0104: unknown run\n"),
        ("docs/codes/GS0201.md", "# GS0201: not a Goldseam database\n"),
        ("docs/codes/README.md", "old"),
    ];

    #[test]
    fn lists_every_page_by_family() {
        let text = index(&Tree::of(PAGES));
        let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle} is not in {text}"));
        assert!(at("## Runs and commands") < at("| [GS0104](GS0104.md) | unknown run |"));
        assert!(at("[GS0104]") < at("## Stores") && at("## Stores") < at("[GS0201]"));
        assert!(at("[GS0201]") < at("## Rules") && at("## Rules") < at("[A2]"));
        at("| [A2](A2.md) | `hidden-question` | an open question |");
        assert!(!text.contains("README") && !text.contains("Other errors"));
    }

    #[test]
    fn reports_a_stale_page() {
        let mut tree = Tree::of(PAGES);
        tree.files.push(tree::File { path: record::PAGE.to_owned(), text: String::new() });
        assert_eq!(check(&tree).len(), 2);
        for (path, text) in [(INDEX, index(&tree)), (record::PAGE, record::page(&tree))] {
            tree.files
                .iter_mut()
                .filter(|file| file.path == path)
                .for_each(|file| file.text.clone_from(&text));
        }
        assert!(check(&tree).is_empty());
        tree.files.retain(|file| file.path != "docs/codes/A2.md");
        assert_eq!(check(&tree).len(), 1);
    }

    #[test]
    fn tightens_the_ratchet_and_never_loosens_it() {
        let long = "x();\n".repeat(650);
        let tree = Tree::of(&[
            ("a.rs", &long),
            ("b.rs", &long),
            ("c.rs", "x();\n"),
            ("docs/codes/GS0104.md", "# GS0104: unknown run\n"),
            ("docs/codes/GS0201.md", "# GS0201: x\n"),
            ("crates/a/src/b.rs", "\"GS0201\""),
            (
                ratchet::FILE,
                "lines a.rs 700\nlines b.rs 640\nlines c.rs 700\nunraised GS0104\nunraised GS0201\nunraised GS0999\n",
            ),
        ]);
        let tight = tightened(&tree);
        assert_eq!(tight.entries(Kind::Lines).collect::<Vec<_>>(), [("a.rs", 650), ("b.rs", 640)]);
        assert_eq!(tight.entries(Kind::Unraised).collect::<Vec<_>>(), [("GS0104", 1)]);
    }
}
