//! `--edit` and `--refresh`: planted files are edited as whole files, and the patches are made from them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::patch::{CONFLICT, Merged, Stage, base_hash};
use super::{REFRESH, folder, listed, of, patches, place, write};
use crate::tree::{self, Tree};

/// The suffix of the text that an edit began with.
const BASE: &str = ".base";

/// A planted file that a person edits, and the file of the tree that it was made from.
struct Edit {
    base: PathBuf,
    planted: PathBuf,
}

impl Edit {
    fn of(root: &Path, path: &str) -> Result<Self, String> {
        let planted = edits(root)?.join(path);
        let base = planted.with_file_name(format!("{}{BASE}", file_name(path)));
        Ok(Self { base, planted })
    }

    fn read(&self) -> Option<(String, String)> {
        Some((fs::read_to_string(&self.base).ok()?, fs::read_to_string(&self.planted).ok()?))
    }

    fn write(&self, base: &str, planted: &str) -> Result<(), String> {
        write(&self.base, base)?;
        write(&self.planted, planted)
    }

    fn shown(&self) -> String {
        format!("  {}", self.planted.display())
    }

    fn remove(&self) -> Result<(), String> {
        for place in [&self.base, &self.planted] {
            if place.exists() {
                fs::remove_file(place).map_err(of(place))?;
            }
        }
        Ok(())
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn edits(root: &Path) -> Result<PathBuf, String> {
    Ok(folder(root)?.join("edit"))
}

/// Writes the planted files at `paths` for a person to edit.
pub(super) fn edit(root: &Path, paths: &[&str]) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let stage = Stage::new(&folder(root)?)?;
    for path in paths {
        let file = tree.get(path).ok_or_else(|| format!("{path} does not exist"))?;
        let planted = match patches(&tree).find(|(changed, _)| changed == path) {
            Some((_, patch)) => stage.apply(&file.text, patch).map_err(|error| {
                format!("{} does not apply ({error}): run `{REFRESH}` first", place(path))
            })?,
            None => file.text.clone(),
        };
        let edit = Edit::of(root, path)?;
        edit.write(&file.text, &planted)?;
        println!("edit {}", edit.planted.display());
    }
    println!("then run `{REFRESH}`");
    Ok(())
}

/// Makes every patch again: from an edited file, or from the patch, merged into the file as it is now.
pub(super) fn refresh(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let stage = Stage::new(&folder(root)?)?;
    let edited = listed(&edits(root)?)?.into_iter().filter(|path| !path.ends_with(BASE));
    let paths: BTreeSet<String> = edited.chain(patches(&tree).map(|(path, _)| path.to_owned())).collect();
    let mut open = Vec::new();
    for path in &paths {
        let edit = Edit::of(root, path)?;
        let patch = patches(&tree).find(|(changed, _)| changed == path).map(|(_, patch)| patch);
        let file = match (tree.get(path), patch) {
            (Some(file), _) => file,
            (None, Some(_)) => {
                let patch = place(path);
                return Err(format!("{path} does not exist: move {patch} along with its code, or remove it"));
            }
            // The patch was moved after the edit began.
            (None, None) => {
                edit.remove()?;
                continue;
            }
        };
        let planted = match (edit.read(), patch) {
            (Some((_, text)), _) if text.contains(CONFLICT) => {
                open.push(edit.shown());
                continue;
            }
            (Some((base, text)), _) => stage.merge(&file.text, &base, &text)?,
            (None, Some(patch)) => replant(root, &stage, &file.text, patch)
                .map_err(|error| format!("{}: {error}", place(path)))?,
            (None, None) => continue,
        };
        match planted {
            Merged::Clean(text) => {
                keep(root, &stage, file, &text)?;
                edit.remove()?;
            }
            Merged::Conflict(text) => {
                edit.write(&file.text, &text)?;
                open.push(edit.shown());
            }
        }
    }
    match open.len() {
        0 => Ok(()),
        _ => Err(format!(
            "the tree changed where bugs are planted; edit these files, then run `{REFRESH}` again:\n{}",
            open.join("\n")
        )),
    }
}

/// The file with the bugs of the patch, by the text that the patch was made from if it no longer applies.
fn replant(root: &Path, stage: &Stage, text: &str, patch: &str) -> Result<Merged, String> {
    let error = match stage.apply(text, patch) {
        Ok(planted) => return Ok(Merged::Clean(planted)),
        Err(error) => error,
    };
    let hash = base_hash(patch).ok_or_else(|| error.clone())?;
    let base = tree::git(root, &["cat-file", "blob", hash])?.ok_or_else(|| {
        format!(
            "{error}, and this clone lacks {hash}, the file it was made from: plant its bugs again by hand"
        )
    })?;
    stage.merge(text, &base, &stage.apply(&base, patch)?)
}

/// Writes the patch if it changed. A file without bugs has none.
fn keep(root: &Path, stage: &Stage, file: &tree::File, planted: &str) -> Result<(), String> {
    let path = place(&file.path);
    let whole = root.join(&path);
    let patch = stage.diff(&file.path, &file.text, planted)?;
    let former = fs::read_to_string(&whole).unwrap_or_default();
    match patch.as_str() {
        "" if whole.exists() => {
            println!("removed {path}");
            fs::remove_file(&whole).map_err(of(&whole))
        }
        patch if patch != former => {
            println!("wrote {path}");
            write(&whole, patch)
        }
        _ => Ok(()),
    }
}
