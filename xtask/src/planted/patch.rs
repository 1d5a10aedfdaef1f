//! Patches of one file: apply, merge and compare, by git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{of, write};

/// A folder for the input of git, removed at the end.
pub(super) struct Stage {
    folder: PathBuf,
}

/// A merge of two changes of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Merged {
    Clean(String),
    /// With marks at the places that both changed.
    Conflict(String),
}

/// The beginning of a conflict in a merged text.
pub(super) const CONFLICT: &str = "<<<<<<< ";

impl Stage {
    /// Creates the folder in `parent`. Its name is unique, since processes may share a target directory.
    pub(super) fn new(parent: &Path) -> Result<Self, String> {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = parent.join(format!("stage-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(of(&folder))?;
        Ok(Self { folder })
    }

    /// The text after the patch. Where the patch is stored decides which file it changes, not its header: so a patch can
    /// be moved along with its file.
    pub(super) fn apply(&self, text: &str, patch: &str) -> Result<String, String> {
        let hunks = patch.find("@@ ").map(|at| &patch[at..]).ok_or("it has no change")?;
        let file = self.folder.join("file");
        write(&file, text)?;
        write(&self.folder.join("change"), &format!("--- a/file\n+++ b/file\n{hunks}"))?;
        let output = self.git(&["apply", "change"])?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr).replace("error: ", "");
            return Err(error.lines().next().unwrap_or("git apply failed").to_owned());
        }
        let applied = fs::read_to_string(&file).map_err(of(&file))?;
        if applied == text { Err("git ignored it".to_owned()) } else { Ok(applied) }
    }

    /// Applies to `ours` what changed from `base` to `theirs`.
    pub(super) fn merge(&self, ours: &str, base: &str, theirs: &str) -> Result<Merged, String> {
        for (name, text) in [("tree", ours), ("base", base), ("planted", theirs)] {
            write(&self.folder.join(name), text)?;
        }
        let output = self.git(&["merge-file", "--stdout", "--diff3", "tree", "base", "planted"])?;
        let merged = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.code() {
            Some(0) => Ok(Merged::Clean(merged)),
            // The number of conflicts.
            Some(1..=127) => Ok(Merged::Conflict(merged)),
            _ => Err(format!("git merge-file: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// The patch of `path` from `text` to `planted`. Its header holds the hash of `text`, from which a later refresh
    /// merges.
    pub(super) fn diff(&self, path: &str, text: &str, planted: &str) -> Result<String, String> {
        let from = format!("a/{path}");
        let to = format!("b/{path}");
        write(&self.folder.join(&from), text)?;
        write(&self.folder.join(&to), planted)?;
        let options = ["diff", "--no-index", "--no-color", "--no-ext-diff", "--no-prefix", "--full-index"];
        let output = self.git(&[&options[..], &["--", &from, &to]].concat())?;
        match output.status.code() {
            Some(0 | 1) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            _ => Err(format!("git diff: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn git(&self, args: &[&str]) -> Result<Output, String> {
        let mut git = Command::new("git");
        git.current_dir(&self.folder).args(args);
        // Inside a repository, git would apply a patch to tracked files only.
        if let Some(parent) = self.folder.parent() {
            git.env("GIT_CEILING_DIRECTORIES", parent);
        }
        git.output().map_err(|error| format!("cannot run git: {error}"))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A folder that stays is only untidy.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The hash of the text that the patch was made from.
pub(super) fn base_hash(patch: &str) -> Option<&str> {
    let line = patch.lines().find_map(|line| line.strip_prefix("index "))?;
    line.split_once("..").map(|(base, _)| base)
}
