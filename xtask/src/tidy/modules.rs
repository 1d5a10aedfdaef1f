//! Modules inside a crate: layers import downwards, and no more than two top-level modules import each other in a ring.

use std::collections::{BTreeMap, BTreeSet};

use super::homes::{LAYERS_INSIDE, LayersInside};
use crate::finding::Finding;
use crate::ratchet::{Counts, Kind, Ratchet};
use crate::source::{Source, is_test_file};
use crate::tree::{File, Tree};

/// The most modules that may import each other.
const RING_MAX: usize = 2;

/// An import of one top-level module by another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Import {
    path: String,
    line: usize,
    from: String,
    to: String,
}

/// Rings and imports against the layers, as far as the ratchet does not allow them.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (ratchet, _) = Ratchet::of(tree);
    let mut findings = ratchet.compare(Kind::Cycle, &cycles(tree));
    findings.extend(ratchet.compare(Kind::Upward, &upward(tree)));
    for layers in LAYERS_INSIDE.iter().filter(|layers| ratchet.get(Kind::Upward, layers.folder).is_none()) {
        findings.extend(imports_upward(tree, layers).into_iter().map(|import| {
            let what = format!("`{}` imports `{}`, which is a higher layer", import.from, import.to);
            Finding::new(&import.path, import.line, what, "move what both need to the lower layer")
        }));
    }
    findings
}

/// The size of the largest ring of each crate, if it is too large.
pub(super) fn cycles(tree: &Tree) -> Counts {
    let largest =
        |folder: &String| rings(&imports(tree, folder)).iter().map(BTreeSet::len).max().unwrap_or(0);
    let sizes = folders(tree).into_iter().map(|folder| (largest(&folder), folder));
    sizes.filter(|(size, _)| *size > RING_MAX).map(|(size, folder)| (folder, size)).collect()
}

/// The number of imports of a higher layer, for each crate with layers.
pub(super) fn upward(tree: &Tree) -> Counts {
    let count = |layers: &LayersInside| (layers.folder.to_owned(), imports_upward(tree, layers).len());
    LAYERS_INSIDE.iter().map(count).filter(|(_, count)| *count > 0).collect()
}

/// A line for each large ring, and for each crate whose layers do not exist yet.
pub(super) fn notes(tree: &Tree) -> Vec<String> {
    let mut notes = Vec::new();
    for folder in folders(tree) {
        for ring in rings(&imports(tree, &folder)).iter().filter(|ring| ring.len() > RING_MAX) {
            let names: Vec<&str> = ring.iter().map(String::as_str).collect();
            notes.push(format!("{folder}: {} modules in one import cycle: {}", ring.len(), names.join(" ")));
        }
    }
    for layers in LAYERS_INSIDE {
        let missing = missing(tree, layers);
        if !missing.is_empty() {
            notes.push(format!("{}: layers not checked yet, missing: {}", layers.folder, missing.join(" ")));
        }
    }
    notes
}

fn missing(tree: &Tree, layers: &LayersInside) -> Vec<&'static str> {
    let has = |name: &str, end: &str| tree.has(&format!("{}/src/{name}{end}", layers.folder));
    let is_missing = |name: &&str| !has(name, "") && !has(name, ".rs");
    layers.layers.iter().copied().flatten().copied().filter(is_missing).collect()
}

/// Imports of a higher layer; none as long as a layer is missing.
fn imports_upward(tree: &Tree, layers: &LayersInside) -> Vec<Import> {
    if !missing(tree, layers).is_empty() {
        return Vec::new();
    }
    let layer = |name: &str| layers.layers.iter().position(|names| names.contains(&name));
    let is_upward =
        |import: &Import| layer(&import.from) < layer(&import.to) && layer(&import.from).is_some();
    imports(tree, layers.folder).into_iter().filter(is_upward).collect()
}

/// The folders of crates.
fn folders(tree: &Tree) -> Vec<String> {
    let manifests = tree.with_suffix("/Cargo.toml").filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    manifests.filter(|folder| tree.has(&format!("{folder}/src"))).map(str::to_owned).collect()
}

/// Every import between top-level modules in the production code of the crate in `folder`.
fn imports(tree: &Tree, folder: &str) -> Vec<Import> {
    let prefix = format!("{folder}/src/");
    let files: Vec<Parsed> = tree
        .rust()
        .filter(|file| file.path.starts_with(&prefix) && !is_test_file(&file.path))
        .map(|file| Parsed::new(file, &file.path[prefix.len()..]))
        .collect();
    let tests: BTreeSet<Vec<String>> = files.iter().flat_map(Parsed::test_modules).collect();
    let is_test = |file: &&Parsed| (0..=file.module.len()).any(|depth| tests.contains(&file.module[..depth]));
    let files: Vec<&Parsed> = files.iter().filter(|file| !is_test(file)).collect();
    let modules: BTreeSet<&str> =
        files.iter().filter_map(|file| Some(file.module.first()?.as_str())).collect();
    let exported: BTreeMap<String, String> =
        files.iter().filter(|file| file.module.is_empty()).flat_map(|file| file.exports(&modules)).collect();
    let mut imports = Vec::new();
    for file in files {
        let Some(from) = file.module.first() else { continue };
        for (at, name) in file.root_names() {
            let to = exported.get(&name).map_or(name.as_str(), String::as_str);
            if modules.contains(to) && to != from {
                let line = file.source.line(at);
                imports.push(Import { path: file.path.clone(), line, from: from.clone(), to: to.to_owned() });
            }
        }
    }
    imports
}

/// One file of a crate.
struct Parsed {
    path: String,
    /// Its module path: empty for the root.
    module: Vec<String>,
    source: Source,
}

impl Parsed {
    fn new(file: &File, within: &str) -> Self {
        let stem = within.trim_end_matches(".rs");
        let mut module: Vec<String> = stem.split('/').map(str::to_owned).collect();
        let is_root = module.len() == 1 && matches!(stem, "lib" | "main");
        if is_root || module.last().is_some_and(|name| name == "mod") {
            module.pop();
        }
        Self { path: file.path.clone(), module, source: Source::new(&file.text) }
    }

    /// The modules in files of their own that exist in tests only.
    fn test_modules(&self) -> Vec<Vec<String>> {
        let code = &self.source.code;
        let declared = code.match_indices("#[cfg(test)]").filter_map(|(at, mark)| {
            let rest = code[at + mark.len()..].trim_start();
            let rest = rest.strip_prefix("pub(crate) ").unwrap_or(rest).strip_prefix("mod ")?;
            let name = first_name(rest);
            rest[name.len()..].starts_with(';').then_some(name)
        });
        declared.map(|name| self.module.iter().cloned().chain([name.to_owned()]).collect()).collect()
    }

    /// Names that the root exports from a module of its own, with the module.
    fn exports(&self, modules: &BTreeSet<&str>) -> Vec<(String, String)> {
        let mut exports = Vec::new();
        for at in self.source.find_all("use").filter(|at| !self.source.in_tests(*at)) {
            let rest = self.source.code[at + "use".len()..].trim_start();
            let tree = rest.split(';').next().unwrap_or_default();
            let tree = tree.strip_prefix("self::").unwrap_or(tree);
            let module = first_name(tree);
            if modules.contains(module) {
                let leaves = leaves(&tree[module.len()..]).into_iter().filter(|name| *name != module);
                exports.extend(leaves.map(|name| (name.to_owned(), module.to_owned())));
            }
        }
        exports
    }

    /// Names of the root that production code of this file mentions: `crate::name`, or `super::name` from the right depth.
    fn root_names(&self) -> Vec<(usize, String)> {
        let code = &self.source.code;
        let mut names = Vec::new();
        for at in self.source.find_all("crate::").filter(|at| !self.source.in_tests(*at)) {
            names.extend(heads(&code[at + "crate::".len()..]).into_iter().map(|name| (at, name)));
        }
        for at in self.source.find_all("super::").filter(|at| !self.source.in_tests(*at)) {
            let rest = code[at..].trim_start_matches("super::");
            let ups = (code.len() - at - rest.len()) / "super::".len();
            if ups == self.module.len() && !code[..at].ends_with("super::") {
                names.extend(heads(rest).into_iter().map(|name| (at, name)));
            }
        }
        names
    }
}

/// The first names of a path or of a group of paths: `a::b` is `a`, `{a::b, c}` are `a` and `c`.
fn heads(text: &str) -> Vec<String> {
    let Some(group) = text.strip_prefix('{') else { return vec![first_name(text).to_owned()] };
    let mut heads = Vec::new();
    let mut depth = 0usize;
    let mut begin = 0;
    for (at, c) in group.char_indices() {
        let is_end = depth == 0 && matches!(c, ',' | '}');
        if is_end {
            heads.push(first_name(group[begin..at].trim_start()).to_owned());
            begin = at + 1;
        }
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    heads
}

/// The names that a tree of paths brings into scope.
fn leaves(tree: &str) -> Vec<&str> {
    let parts = tree.split(['{', '}', ',']).map(str::trim);
    let leaf = |part: &&str| !part.is_empty() && !part.ends_with("::") && !part.ends_with('*');
    parts.filter(leaf).map(|part| part.rsplit([' ', ':']).next().unwrap_or(part)).collect()
}

fn first_name(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The sets of modules that reach each other, of two and more.
fn rings(imports: &[Import]) -> Vec<BTreeSet<String>> {
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        graph.entry(&import.from).or_default().insert(&import.to);
    }
    let reached = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(next) = open.pop() {
            for to in graph.get(next).into_iter().flatten().filter(|to| seen.insert(**to)) {
                open.push(to);
            }
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> = graph.keys().map(|from| (*from, reached(from))).collect();
    let mutual = |from: &str| -> BTreeSet<String> {
        let comes_back = |to: &&&str| reach.get(**to).is_some_and(|back| back.contains(from));
        reach[from].iter().filter(comes_back).map(|to| (*to).to_owned()).collect()
    };
    let rings: BTreeSet<BTreeSet<String>> = graph.keys().map(|from| mutual(from)).collect();
    rings.into_iter().filter(|ring| ring.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), *text)).collect();
        let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        files.push(("crates/a/Cargo.toml", ""));
        Tree::of(&files)
    }

    fn edges(files: &[(&str, &str)]) -> Vec<(String, String)> {
        imports(&tree(files), "crates/a").into_iter().map(|import| (import.from, import.to)).collect()
    }

    #[test]
    fn finds_imports_by_crate_super_group_and_export() {
        let lib = ("lib.rs", "mod a; mod b; mod c;\npub use c::{deep::Thing, Other as Alias};");
        let with = |path: &str, text: &str| edges(&[lib, ("b.rs", ""), ("c/mod.rs", ""), (path, text)]);
        let to = |names: &[&str]| -> Vec<(String, String)> {
            names.iter().map(|name| ("a".to_owned(), (*name).to_owned())).collect()
        };
        assert_eq!(with("a.rs", "use crate::b::X;"), to(&["b"]));
        assert_eq!(with("a.rs", "use crate::{b::{X, Y}, c, Z};"), to(&["b", "c"]));
        assert_eq!(with("a.rs", "use super::b; fn f() { crate::c::g() }"), to(&["c", "b"]));
        assert_eq!(with("a/inner.rs", "use super::b; use super::super::c::X;"), to(&["c"]));
        assert_eq!(with("a/mod.rs", "use super::{b::X, c::{Y, Z}};"), to(&["b", "c"]));
        assert_eq!(with("a.rs", "use crate::Thing; use crate::Alias; use crate::Missing;"), to(&["c", "c"]));
    }

    #[test]
    fn ignores_tests_and_comments() {
        let with =
            |path: &str, text: &str| edges(&[("lib.rs", "#[cfg(test)]\nmod t;"), ("b.rs", ""), (path, text)]);
        assert!(with("a.rs", "// crate::b::X\n#[cfg(test)]\nmod tests { use crate::b::X; }").is_empty());
        assert!(with("a/tests.rs", "use crate::b::X;").is_empty());
        assert!(with("t.rs", "use crate::b::X;").is_empty(), "declared for tests only");
    }

    #[test]
    fn measures_the_largest_ring_of_a_crate() {
        let pair = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")];
        assert!(cycles(&tree(&pair)).is_empty(), "two may import each other");
        let three = [
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "use crate::a;"),
            ("d.rs", "use crate::a;"),
        ];
        assert_eq!(cycles(&tree(&three)), [("crates/a".to_owned(), 3)].into());
        assert!(notes(&tree(&three))[0].ends_with("3 modules in one import cycle: a b c"));
    }

    #[test]
    fn a_lower_layer_does_not_import_a_higher_one() {
        const LAYERS: LayersInside = LayersInside { folder: "crates/a", layers: &[&["low"], &["high"]] };
        let low = ("low.rs", "use crate::high::X; use crate::free;");
        let high = ("high.rs", "use crate::low::Y;");
        let upward = imports_upward(&tree(&[low, high, ("free.rs", "use crate::high;")]), &LAYERS);
        assert_eq!(upward.len(), 1);
        assert_eq!((upward[0].from.as_str(), upward[0].line), ("low", 1));
        assert!(imports_upward(&tree(&[low]), &LAYERS).is_empty(), "a layer is missing");
    }
}
