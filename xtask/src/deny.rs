//! Licences, bans and sources of dependencies, by the lists of `deny.toml`.
//!
//! It reads `Cargo.lock`, the manifests and `cargo tree`, and takes a second. `cargo deny check licenses bans sources`
//! reads the same lists, but is a large program to build from source.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cargo;
use crate::finding::Finding;
use crate::tree::Tree;

const LISTS: &str = "deny.toml";
const LOCK: &str = "Cargo.lock";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Every dependency of every target with its licence, one per line.
const LICENCES: &str = "tree --quiet --workspace --all-features --target all --edges normal,build,dev \
                        --prefix none --format {p}|{l}";
/// Every package that a program with a SQLite store builds, one per line.
const EMBEDDED: &str = "tree --quiet --package goldseam --edges normal,build --prefix none --format {p}";
/// The most packages that such a program may build.
const EMBEDDED_MAX: usize = 130;

/// Checks the dependencies and prints the findings.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let text = |path: &str| tree.get(path).map(|file| file.text.as_str()).ok_or(format!("{path} is missing"));
    let lists = Lists::parse(text(LISTS)?);
    if lists.licences.is_empty() || lists.bans.is_empty() {
        return Err(format!("{LISTS} has no licences or no bans"));
    }
    let packages = packages(text(LOCK)?);
    let mut findings = sources(&packages);
    findings.extend(banned(&packages, &lists.bans));
    findings.extend(wildcards(&tree));
    findings.extend(unlicensed(&cargo::output(root, LICENCES)?, &lists.licences));
    findings.extend(too_many(&cargo::output(root, EMBEDDED)?, EMBEDDED_MAX));
    findings.iter().for_each(|finding| println!("{finding}"));
    println!(
        "{} packages, {} versions of packages with more than one",
        packages.len(),
        duplicates(&packages)
    );
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("deny: {count} findings")),
    }
}

/// Refuses more than `most` different packages in a list of them.
fn too_many(listed: &str, most: usize) -> Option<Finding> {
    let count = listed.lines().filter_map(|line| line.split(" (").next()).collect::<BTreeSet<_>>().len();
    (count > most).then(|| {
        let what = format!("a program with a SQLite store builds {count} packages, more than {most}");
        Finding::new(
            "crates/goldseam/Cargo.toml",
            1,
            what,
            "make the dependency a feature that is off by default",
        )
    })
}

/// The lists of `deny.toml`.
#[derive(Debug, Default)]
struct Lists {
    licences: BTreeSet<String>,
    bans: Vec<Ban>,
}

/// A package that only its wrappers may depend on.
#[derive(Debug)]
struct Ban {
    name: String,
    wrappers: Vec<String>,
    reason: String,
}

impl Lists {
    /// Reads `allow` of `[licenses]`, one licence per line, and `deny` of `[bans]`, one package per line.
    fn parse(text: &str) -> Self {
        let mut lists = Self::default();
        let mut section = "";
        let mut list = "";
        for line in text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim()) {
            match line {
                "" => {}
                "]" => list = "",
                _ if line.starts_with('#') => {}
                _ if line.starts_with('[') => section = line,
                _ if line.ends_with("= [") => list = line,
                _ => match (section, list) {
                    ("[licenses]", "allow = [") => lists.licences.extend(quoted(line)),
                    ("[bans]", "deny = [") => lists.bans.extend(Ban::parse(line)),
                    _ => {}
                },
            }
        }
        lists
    }
}

impl Ban {
    fn parse(line: &str) -> Option<Self> {
        let after = |key: &str| line.split_once(&format!("{key} = ")).map(|(_, rest)| rest);
        let wrappers = after("wrappers").and_then(|rest| rest.split(']').next()).map(quoted);
        Some(Self {
            name: quoted(after("crate")?).into_iter().next()?,
            wrappers: wrappers.unwrap_or_default(),
            reason: after("reason").and_then(|rest| quoted(rest).into_iter().next()).unwrap_or_default(),
        })
    }
}

fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A package of `Cargo.lock`.
#[derive(Debug, Default)]
struct Package {
    line: usize,
    name: String,
    /// None for the workspace's own.
    source: Option<String>,
    dependencies: Vec<String>,
}

fn packages(lock: &str) -> Vec<Package> {
    let mut packages: Vec<Package> = Vec::new();
    for (number, line) in (1..).zip(lock.lines()) {
        if line == "[[package]]" {
            packages.push(Package { line: number, ..Package::default() });
        }
        let Some(package) = packages.last_mut() else { continue };
        let value = quoted(line).into_iter().next();
        match (line.split(' ').next(), value) {
            (Some("name"), Some(name)) => package.name = name,
            (Some("source"), source) => package.source = source,
            // A dependency: a name, with a version if there are several.
            (Some(""), Some(dependency)) => {
                package.dependencies.extend(dependency.split(' ').next().map(str::to_owned));
            }
            _ => {}
        }
    }
    packages
}

fn sources(packages: &[Package]) -> Vec<Finding> {
    let is_other = |package: &&Package| package.source.as_deref().is_some_and(|source| source != REGISTRY);
    let finding = |package: &Package| {
        let what = format!("{} comes from {}", package.name, package.source.as_deref().unwrap_or_default());
        Finding::new(LOCK, package.line, what, "take it from crates.io")
    };
    packages.iter().filter(is_other).map(finding).collect()
}

fn banned(packages: &[Package], bans: &[Ban]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ban in bans.iter().filter(|ban| packages.iter().any(|package| package.name == ban.name)) {
        let users = packages.iter().filter(|package| package.dependencies.contains(&ban.name));
        for user in users.filter(|user| !ban.wrappers.contains(&user.name)) {
            let what = format!("{} depends on {}, which is banned", user.name, ban.name);
            findings.push(Finding::new(LOCK, user.line, what, ban.reason.as_str()));
        }
    }
    findings
}

/// Dependencies on any version.
fn wildcards(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let lines = manifests.flat_map(|file| (1..).zip(file.text.lines()).map(move |line| (file, line)));
    let is_wildcard = |line: &str| line.contains("= \"*\"");
    lines
        .filter(|(_, (_, line))| is_wildcard(line))
        .map(|(file, (number, _))| {
            Finding::new(&file.path, number, "any version is accepted", "name a version")
        })
        .collect()
}

/// Packages without a licence of the list.
fn unlicensed(listed: &str, allowed: &BTreeSet<String>) -> Vec<Finding> {
    let lines: BTreeSet<&str> = listed.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    let packages = lines.into_iter().filter_map(|line| line.split_once('|'));
    packages
        .filter(|(_, licence)| !is_allowed(licence, allowed))
        .map(|(package, licence)| {
            let what = format!("{package} has the licence {licence:?}");
            Finding::new(LISTS, 1, what, "decide: add the licence to the list with the package that needs it")
        })
        .collect()
}

/// Whether an expression of licences (SPDX, or the older `A/B`) can be met by allowed ones alone.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&tokens, &mut at, allowed);
    met && at == tokens.len()
}

fn any(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = all(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(tokens, at, allowed);
    }
    met
}

fn all(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(tokens, at, allowed);
    }
    met
}

fn one(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token == "(" {
        let met = any(tokens, at, allowed);
        *at += 1;
        return met && tokens.get(*at - 1) == Some(&")");
    }
    if tokens.get(*at) == Some(&"WITH") {
        *at += 2;
        let exception = tokens.get(*at - 1).copied().unwrap_or_default();
        return allowed.contains(&format!("{token} WITH {exception}"));
    }
    allowed.contains(*token)
}

/// How many packages of the lock file share their name with another version.
fn duplicates(packages: &[Package]) -> usize {
    let shared = |package: &&Package| packages.iter().filter(|other| other.name == package.name).count() > 1;
    packages.iter().filter(shared).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    const DENY: &str = r#"[licenses]
# MIT only
allow = [
  "MIT", # "GPL"
  "Zlib",
]
[bans]
wildcards = "deny"
deny = [
  { crate = "openssl", reason = "TLS is rustls" },
  { crate = "chrono", wrappers = ["object_store", "x"], reason = "time" },
]
"#;
    const LOCKED: &str = r#"version = 4

[[package]]
name = "a"
version = "1.0.0"
dependencies = [
 "chrono",
 "b 2.0.0",
]

[[package]]
name = "b"
source = "git+https://example.org/b"

[[package]]
name = "chrono"
source = "registry+https://github.com/rust-lang/crates.io-index"

[[package]]
name = "object_store"
dependencies = [
 "chrono",
]

[[package]]
name = "b"
"#;

    #[test]
    fn reads_the_lists() {
        let lists = Lists::parse(DENY);
        assert_eq!(lists.licences, ["MIT", "Zlib"].map(str::to_owned).into());
        assert_eq!(lists.bans.len(), 2);
        assert_eq!((lists.bans[1].name.as_str(), lists.bans[1].wrappers.len()), ("chrono", 2));
        let real = Lists::parse(&std::fs::read_to_string(tree::root().unwrap().join(LISTS)).unwrap());
        assert_eq!((real.licences.len(), real.bans.len()), (11, 7));
    }

    #[test]
    fn counts_the_packages_of_a_small_program() {
        let listed = "goldseam v0.1.0 (/x)\nserde v1.0.1\nserde v1.0.1 (*)\nmade v1.0.0 (proc-macro)\n";
        assert_eq!(too_many(listed, 3), None);
        let found = too_many(listed, 2).unwrap().to_string();
        assert!(found.contains("builds 3 packages, more than 2"), "{found}");
    }

    #[test]
    fn finds_bans_and_other_sources() {
        let packages = packages(LOCKED);
        assert_eq!((packages.len(), duplicates(&packages)), (5, 2));
        let found = banned(&packages, &Lists::parse(DENY).bans);
        assert_eq!(found.len(), 1, "object_store may use chrono");
        assert!(found[0].to_string().contains("a depends on chrono"));
        assert_eq!(sources(&packages).len(), 1);
        let any = Tree::of(&[("crates/a/Cargo.toml", "x = \"*\"\ny = { version = \"*\" }\nz = \"1\"")]);
        assert_eq!(wildcards(&any).len(), 2);
    }

    #[test]
    fn an_expression_must_be_met_by_allowed_licences() {
        let allowed = Lists::parse(DENY).licences;
        for good in
            ["MIT", "MIT OR GPL-3.0", "GPL/MIT", "(GPL OR MIT) AND Zlib", "A WITH X OR MIT", "MIT AND (Zlib)"]
        {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL", "(MIT OR Zlib) AND GPL", "MIT WITH X", "(MIT", "MIT Zlib"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
        assert_eq!(unlicensed("a v1|MIT\nb v1|GPL (*)\nb v1|GPL\nc v2|\n", &allowed).len(), 2);
    }
}
