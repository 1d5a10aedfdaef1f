//! `cargo xtask tidy`: checks that no compiler makes. Each check is a function from the tree to findings.

mod calls;
mod codes;
mod commits;
mod deps;
mod docs;
mod homes;
mod length;
mod links;
mod modules;
mod packed;
mod places;
mod proofs;
mod shell;
mod sql;
mod types;
mod words;

use std::path::Path;

use crate::finding::Finding;
use crate::ratchet::{self, Counts, FILE, Kind, Ratchet};
use crate::tree::{self, Tree};
use words::Survey;

pub(crate) use codes::pages;

/// The checks that need only the files.
const CHECKS: &[fn(&Tree) -> Vec<Finding>] = &[
    deps::check,
    length::check,
    calls::check_homes,
    calls::check_forbidden,
    sql::check,
    codes::check,
    links::check,
    places::check,
    proofs::check,
    shell::check,
    modules::check,
    packed::check,
    types::check,
    docs::check,
    crate::generate::check,
    crate::record::check,
];

/// Measures everything that the ratchet bounds.
pub(crate) fn measure(tree: &Tree) -> Vec<(Kind, Counts)> {
    let survey = Survey::of(tree);
    vec![
        (Kind::Lines, length::count(tree)),
        (Kind::Unraised, codes::count(tree)),
        (Kind::Words, survey.by_path()),
        (Kind::Unclean, survey.by_place()),
        (Kind::Cycle, modules::cycles(tree)),
        (Kind::Upward, modules::upward(tree)),
        (Kind::Homonyms, types::count(tree)),
        (Kind::Terms, docs::count(tree)),
    ]
}

/// Runs the check, or the part that the arguments name.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let root = tree::root()?;
    let tree = Tree::read(&root)?;
    match args {
        [] => check(&root, &tree),
        ["--words", places @ ..] => {
            let survey = Survey::of(&tree);
            print(&survey.list(places));
            println!("{}", survey.summary());
            Ok(())
        }
        ["--homonyms"] => {
            for (name, places) in types::homonyms(&tree) {
                println!("{name} {}: {}", places.len(), places.join(" "));
            }
            Ok(())
        }
        ["--modules"] => {
            modules::notes(&tree).iter().for_each(|note| println!("{note}"));
            Ok(())
        }
        ["--ratchet"] => write_ratchet(&root, &tree, Raise::No),
        ["--ratchet", "--raise"] => write_ratchet(&root, &tree, Raise::Yes),
        _ => {
            Err("tidy takes --words [PATHS], --homonyms, --modules, --ratchet [--raise], or nothing"
                .to_owned())
        }
    }
}

fn check(root: &Path, tree: &Tree) -> Result<(), String> {
    let survey = Survey::of(tree);
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    findings.extend(survey.check(&Ratchet::of(tree).0));
    findings.extend(commits::check(root));
    findings.extend(crate::planted::check(root, tree)?);
    findings.extend(ratchet::check(root, tree)?);
    findings.sort();
    print(&findings);
    println!("{}", survey.summary());
    match findings.len() {
        0 => Ok(()),
        1 => Err("tidy: 1 finding".to_owned()),
        count => Err(format!("tidy: {count} findings")),
    }
}

fn print(findings: &[Finding]) {
    findings.iter().for_each(|finding| println!("{finding}"));
}

/// Whether an entry of the ratchet may rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Raise {
    No,
    Yes,
}

/// Writes the ratchet as measured. An entry that rises is an error, or begins a new epoch of its kind.
fn write_ratchet(root: &Path, tree: &Tree, raise: Raise) -> Result<(), String> {
    let mut next = Ratchet::of(tree).0;
    for (kind, counts) in measure(tree) {
        next.replace(kind, counts);
    }
    let mut earlier = ratchet::earlier(root)?;
    earlier.push(Ratchet::of(tree).0);
    let raised = next.loosened(&earlier);
    for (_, finding) in &raised {
        println!("{finding}");
    }
    if raise == Raise::No && !raised.is_empty() {
        return Err(format!("{} entries would rise: correct the code, or pass --raise", raised.len()));
    }
    for kind in Kind::ALL {
        if raised.iter().any(|(raised, _)| *raised == kind) {
            next.begin_epoch(kind);
        }
    }
    std::fs::write(root.join(FILE), next.to_text()).map_err(|error| format!("{FILE}: {error}"))?;
    println!("wrote {FILE}");
    Ok(())
}
