//! Dependencies between crates: lower layers only, and a pure core.

use super::homes::{CORE_BANNED, DEVELOPERS, DOCUMENTED, LAYERS, TESTBEDS, matches};
use crate::finding::Finding;
use crate::tree::{File, Tree};

/// Dependencies against the layers, impure ones of the core, and testbeds in shipped crates.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_suffix("/Cargo.toml").flat_map(check_crate).collect()
}

fn check_crate(file: &File) -> Vec<Finding> {
    let manifest = Manifest::parse(&file.text);
    let layer = layer(&manifest.name);
    let mut findings = Vec::new();
    if layer.is_none() && !matches(TESTBEDS, &manifest.name) && file.path.starts_with("crates/") {
        let what = format!("crate `{}` has no layer", manifest.name);
        findings.push(Finding::new(&file.path, 1, what, "add it to LAYERS in xtask/src/tidy/homes.rs"));
    }
    for Use { line, name, ships } in &manifest.uses {
        let refused = match (layer, self::layer(name)) {
            // Only crates of the workspace have a layer, except the tooling, which uses none of them.
            (_, None) => impure(&manifest.name, name).or_else(|| shipped(&manifest.name, name, *ships)),
            (None, Some(_)) => Some("the tooling depends on no crate of the workspace"),
            // A crate's tests may enable its features.
            _ if *name == manifest.name => None,
            // Examples in the documentation show the paths that users write.
            _ if name == "goldseam" && !*ships && matches(DOCUMENTED, &manifest.name) => None,
            (Some(user), Some(used)) if used >= user => Some("dependencies point to lower layers only"),
            _ => None,
        };
        if let Some(fix) = refused {
            let what = format!("`{}` depends on `{name}`", manifest.name);
            findings.push(Finding::new(&file.path, *line, what, fix));
        }
    }
    findings
}

fn impure(user: &str, used: &str) -> Option<&'static str> {
    let banned = user == "goldseam-core" && matches(CORE_BANNED, used);
    banned.then_some("the core is pure: move the code that needs it to another crate")
}

fn shipped(user: &str, used: &str, ships: bool) -> Option<&'static str> {
    let refused = ships && matches(TESTBEDS, used) && !matches(DEVELOPERS, user);
    refused.then_some("shipped crates start no test servers: make it a dev-dependency, or optional")
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|names| matches(names, name))
}

/// The relevant parts of a `Cargo.toml`.
#[derive(Debug, Default)]
struct Manifest {
    name: String,
    /// Including those of tests and build scripts.
    uses: Vec<Use>,
}

/// A dependency.
#[derive(Debug)]
struct Use {
    line: usize,
    name: String,
    /// Whether it is part of the crate by default, outside tests.
    ships: bool,
}

impl Manifest {
    fn parse(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = String::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(head) = line.strip_prefix('[') {
                section = head.trim_matches(['[', ']', ' ']).to_owned();
                if let Some((kind, name)) = section.rsplit_once("dependencies.") {
                    let ships = !kind.ends_with("dev-");
                    manifest.uses.push(Use { line: number, name: unquoted(name), ships });
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            if section == "package" && key.trim() == "name" {
                manifest.name = unquoted(value);
            } else if section.ends_with("dependencies") && !section.starts_with("workspace") {
                let name = renamed(value).unwrap_or_else(|| unquoted(key.split('.').next().unwrap_or(key)));
                let ships = !section.ends_with("dev-dependencies") && !value.contains("optional = true");
                manifest.uses.push(Use { line: number, name, ships });
            } else if section.contains("dependencies.") && key.trim() == "package" {
                let ships = !section.contains("dev-dependencies.");
                manifest.uses.push(Use { line: number, name: unquoted(value), ships });
            }
        }
        manifest
    }
}

/// The real name in `x = { package = "real", … }`.
fn renamed(value: &str) -> Option<String> {
    let (_, rest) = value.split_once("package")?;
    Some(unquoted(rest.trim_start().strip_prefix('=')?.split(',').next()?))
}

fn unquoted(text: &str) -> String {
    text.trim_matches(|c: char| c.is_whitespace() || "\"'{}".contains(c)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, rest: &str) -> Vec<usize> {
        let text = format!("[package]\nname = \"{name}\"\n{rest}");
        check(&Tree::of(&[("crates/x/Cargo.toml", &text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn the_core_has_no_workspace_or_impure_dependency() {
        let deps = "[dependencies]\nserde.workspace = true\ngoldseam-store.workspace = true\n\
                    tokio = { workspace = true }\nasync-trait = \"0.1\"\n[dev-dependencies]\nfutures-util = \"1\"\n";
        assert_eq!(lines("goldseam-core", deps), [5, 6, 7, 9]);
    }

    #[test]
    fn dependencies_point_to_lower_layers_only() {
        let on = |used: &str| format!("[dependencies]\n{used}.workspace = true\n");
        assert!(lines("goldseam-engine", &on("goldseam-store")).is_empty());
        assert!(lines("goldseam-cli", &on("goldseam")).is_empty());
        assert_eq!(lines("goldseam-engine", &on("goldseam-store-sqlite")), [4], "engine names no backend");
        assert_eq!(lines("goldseam-store-sqlite", &on("goldseam-engine")), [4]);
        assert_eq!(lines("goldseam-store", &on("goldseam-engine")), [4]);
        assert_eq!(lines("goldseam", &on("goldseam-sim")), [4]);
        assert_eq!(lines("goldseam-sim", &on("goldseam-cli")), [4]);
        assert!(lines("goldseam-store", &on("goldseam-store")).is_empty(), "its own features, for its tests");
    }

    #[test]
    fn only_examples_in_documentation_use_the_facade() {
        let on = |section: &str| format!("[{section}]\ngoldseam = {{ path = \"../goldseam\" }}\n");
        assert!(lines("goldseam-engine", &on("dev-dependencies")).is_empty());
        assert_eq!(lines("goldseam-engine", &on("dependencies")), [4]);
        assert_eq!(lines("goldseam-store", &on("dev-dependencies")), [4]);
    }

    #[test]
    fn no_spelling_hides_a_dependency() {
        for deps in [
            "[dev-dependencies]\ngoldseam-cli = { path = \"../cli\" }\n",
            "[dependencies.goldseam-cli]\npath = \"../cli\"\n",
            "[target.'cfg(unix)'.dependencies]\ngoldseam-cli.workspace = true\n",
            "[dependencies]\nfriend = { path = \"../cli\", package = \"goldseam-cli\" }\n",
            "[build-dependencies]\n\"goldseam-cli\" = { path = \"../cli\" }\n",
        ] {
            assert_eq!(lines("goldseam-engine", deps).len(), 1, "{deps}");
        }
    }

    #[test]
    fn shipped_crates_use_no_testbed() {
        let on = |section: &str, rest: &str| format!("[{section}]\ngoldseam-testbed = {{ {rest} }}\n");
        let store = |section: &str, rest: &str| lines("goldseam-store-postgres", &on(section, rest));
        assert_eq!(store("dependencies", "workspace = true"), [4]);
        assert!(store("dependencies", "workspace = true, optional = true").is_empty());
        assert!(store("dev-dependencies", "workspace = true").is_empty());
        assert!(lines("goldseam-bench", &on("dependencies", "workspace = true")).is_empty());
        assert_eq!(lines("goldseam-core", &on("dev-dependencies", "workspace = true")), [4]);
        assert_eq!(lines("goldseam-testbed", "[dependencies]\ngoldseam-core.workspace = true\n"), [4]);
    }

    #[test]
    fn finds_a_crate_without_a_layer() {
        assert_eq!(lines("goldseam-new", ""), [1]);
        let tooling = "[package]\nname = \"xtask\"\n[dependencies]\ngoldseam-core.workspace = true\n";
        assert_eq!(check(&Tree::of(&[("xtask/Cargo.toml", tooling)])).len(), 1);
    }
}
