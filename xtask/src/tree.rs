//! The text files of the repository.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

/// Every text file that git tracks or would track.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    /// In order of path.
    pub(crate) files: Vec<File>,
    /// Paths of files that are not text, as of images.
    binary: Vec<String>,
}

impl Tree {
    /// Reads the repository at `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let listed = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?
            .ok_or_else(|| {
                "git cannot list the files here: run this inside a clone of the repository".to_owned()
            })?;
        let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        // Deleted and binary files have nothing to check.
        let file = |path: &&str| Some(File { path: (*path).to_owned(), text: read_text(&root.join(path))? });
        let files: Vec<File> = paths.iter().filter_map(file).collect();
        let is_text = |path: &str| files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok();
        let is_binary = |path: &&&str| root.join(path).is_file() && !is_text(path);
        let binary = paths.iter().filter(is_binary).map(|path| (*path).to_owned()).collect();
        Ok(Self { files, binary })
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.with_suffix(".rs")
    }

    /// The files whose path ends with `suffix`.
    pub(crate) fn with_suffix<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.ends_with(suffix))
    }

    /// The file at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file or a directory with files.
    pub(crate) fn has(&self, path: &str) -> bool {
        let inside = |file: &str| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        let mut paths = self.files.iter().map(|file| &file.path).chain(&self.binary);
        path.is_empty() || paths.any(|file| file == path || inside(file))
    }

    /// A tree of the given files.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into() };
        Self { files: files.iter().map(file).collect(), binary: Vec::new() }
    }
}

fn read_text(path: &Path) -> Option<String> {
    if path.is_symlink() {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

/// The output of git, or `None` if it fails.
pub(crate) fn git(root: &Path, args: &[&str]) -> Result<Option<String>, String> {
    let output = Command::new("git")
        .current_dir(root)
        .args(args)
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The root of the workspace around the current directory.
pub(crate) fn root() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|error| format!("no current directory: {error}"))?;
    here.ancestors()
        .find(|dir| dir.join("xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .ok_or_else(|| "run this inside the repository".to_owned())
}

/// The target directory of cargo. Looking elsewhere would find an old binary.
pub(crate) fn target(root: &Path) -> PathBuf {
    target_of(root, std::env::var_os("CARGO_TARGET_DIR"))
}

/// Cargo runs in the root, so a relative folder is relative to the root.
fn target_of(root: &Path, configured: Option<OsString>) -> PathBuf {
    root.join(configured.filter(|folder| !folder.is_empty()).unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_target_directory() {
        let root = Path::new("/code");
        for (configured, folder) in
            [(None, "/code/target"), (Some(""), "/code/target"), (Some("/t"), "/t"), (Some("t"), "/code/t")]
        {
            assert_eq!(target_of(root, configured.map(OsString::from)), Path::new(folder));
        }
    }
}
