//! `cargo xtask planted`: plants bugs in a copy of the tree and lets the simulation find them.
//!
//! Production code has no planted bug. The folder `crates/sim/planted` mirrors the tree: `PATH.patch` changes the file
//! at PATH, any other file is added at its path. The copy is `TARGET/planted/tree`; it is built once, with all bugs.

mod patch;
mod refresh;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::cargo;
use crate::finding::Finding;
use crate::tree::{self, Tree};
use patch::Stage;

/// The folder with patches and added files.
const FOLDER: &str = "crates/sim/planted/";
const SUFFIX: &str = ".patch";
const REFRESH: &str = "cargo xtask planted --refresh";
const USAGE: &str = "planted takes [--bug NAME] [--search], --edit PATHS, or --refresh";

/// Searches for the bugs, or changes the patches.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let root = tree::root()?;
    match args {
        ["--refresh"] => refresh::refresh(&root),
        ["--edit", paths @ ..] if !paths.is_empty() => refresh::edit(&root, paths),
        [] | ["--bug", ..] | ["--search", ..] => search(&root, args),
        _ => Err(USAGE.to_owned()),
    }
}

/// Plants the bugs, builds the copy and runs the search; its last line is the record.
fn search(root: &Path, args: &[&str]) -> Result<(), String> {
    let folder = folder(root)?;
    // Another worktree may share the target directory.
    let lock = folder.join("lock");
    let lock = File::create(&lock).and_then(|lock| lock.lock().map(|()| lock)).map_err(of(&lock))?;
    let copy = folder.join("tree");
    write_changed(&copy, &planted(root, &Tree::read(root)?)?)?;
    let target = folder.join("target");
    let target = target.to_str().ok_or("the target directory is not UTF-8")?;
    let run = format!("run --quiet --package goldseam-sim --bin planted -- {}", args.join(" "));
    let outcome = cargo::run(&copy, &run, &[("CARGO_TARGET_DIR", target)]);
    drop(lock);
    outcome
}

/// Patches that do not apply.
pub(crate) fn check(root: &Path, tree: &Tree) -> Result<Vec<Finding>, String> {
    if patches(tree).next().is_none() {
        return Ok(Vec::new());
    }
    let stage = Stage::new(&folder(root)?)?;
    let fails = |(path, text): (&str, &str)| {
        let applied = tree.get(path).map(|file| stage.apply(&file.text, text));
        let what = match applied {
            Some(Ok(_)) => return None,
            Some(Err(error)) => format!("the patch does not apply to {path}: {error}"),
            None => format!("the patch changes {path}, which does not exist"),
        };
        let fix = format!("run `{REFRESH}` (docs/dev/change-planted-code.md)");
        Some(Finding::new(&place(path), 1, what, fix))
    };
    Ok(patches(tree).filter_map(fails).collect())
}

/// Every file of the tree by path, with the bugs planted.
fn planted(root: &Path, tree: &Tree) -> Result<BTreeMap<String, String>, String> {
    let findings = check(root, tree)?;
    if !findings.is_empty() {
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        return Err(lines.join("\n"));
    }
    let stage = Stage::new(&folder(root)?)?;
    let mut files = BTreeMap::new();
    for file in &tree.files {
        files.entry(file.path.clone()).or_insert_with(|| file.text.clone());
        match file.path.strip_prefix(FOLDER) {
            Some(added) if !added.ends_with(SUFFIX) => {
                files.insert(added.to_owned(), file.text.clone());
            }
            _ => {}
        }
    }
    for (path, text) in patches(tree) {
        let file = tree.get(path).ok_or_else(|| format!("{path} does not exist"))?;
        files.insert(path.to_owned(), stage.apply(&file.text, text)?);
    }
    Ok(files)
}

/// The changed path and the text of each patch.
fn patches(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let patch = |file: &'_ tree::File| file.path.starts_with(FOLDER);
    tree.files.iter().filter(move |file| patch(file)).filter_map(|file| {
        let path = file.path.strip_prefix(FOLDER)?.strip_suffix(SUFFIX)?;
        Some((path, file.text.as_str()))
    })
}

/// The path of the patch for the file at `path`.
fn place(path: &str) -> String {
    format!("{FOLDER}{path}{SUFFIX}")
}

/// The folder for copies, without symbolic links, so that git can compare it.
fn folder(root: &Path) -> Result<PathBuf, String> {
    let folder = tree::target(root).join("planted");
    fs::create_dir_all(&folder).and_then(|()| folder.canonicalize()).map_err(of(&folder))
}

/// Makes `folder` hold exactly these files. An unchanged file keeps its time, so cargo does not rebuild its crate.
fn write_changed(folder: &Path, files: &BTreeMap<String, String>) -> Result<(), String> {
    for path in listed(folder)? {
        if !files.contains_key(&path) {
            let gone = folder.join(path);
            fs::remove_file(&gone).map_err(of(&gone))?;
        }
    }
    for (path, text) in files {
        let place = folder.join(path);
        if fs::read(&place).ok().as_deref() != Some(text.as_bytes()) {
            write(&place, text)?;
        }
    }
    Ok(())
}

/// The files below `folder`, relative to it.
fn listed(folder: &Path) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop().filter(|next| next.is_dir()) {
        for entry in fs::read_dir(&next).map_err(of(&next))? {
            let path = entry.map_err(of(&next))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str) {
                files.push(name.to_owned());
            }
        }
    }
    Ok(files)
}

fn write(place: &Path, text: &str) -> Result<(), String> {
    let parent = place.parent().map_or(Ok(()), fs::create_dir_all);
    parent.and_then(|()| fs::write(place, text)).map_err(of(place))
}

/// Names the file of an I/O error.
fn of(place: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", place.display())
}

#[cfg(test)]
mod tests;
