//! Tools from Python and Node packages, installed once in pinned versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{found_or_installed, path};
use crate::{TestbedError, wheels};

/// Python and a folder of modules, with programs in its `bin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The interpreter.
    pub program: PathBuf,
    /// The folder for `PYTHONPATH`.
    pub modules: PathBuf,
}

/// Installs the Python packages of a list of lines `NAME==VERSION`, unless they are installed.
pub fn python(name: &'static str, list: &str) -> Result<Python, TestbedError> {
    let packages: Vec<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let (program, modules) = wheels::pinned(name, &packages, &digest(list))?;
    Ok(Python { program, modules })
}

/// Installs the Node packages of `package.json` and `package-lock.json` in `from`, unless they are installed, and
/// returns the folder that holds `node_modules`. Runs no script of a package.
pub fn node(name: &'static str, from: &Path) -> Result<PathBuf, TestbedError> {
    let npm = found_or_installed(npm_if_installed, "npm", "npm")?;
    let text = |file: &str| {
        let path = from.join(file);
        fs::read_to_string(&path)
            .map_err(|error| TestbedError::failed(format!("reading {}", path.display()), error))
    };
    let files = [("package.json", text("package.json")?), ("package-lock.json", text("package-lock.json")?)];
    let folder = format!("{name}-node-{}", digest(&files[1].1));
    wheels::installed(name, &folder, |to| {
        let failed = |error| TestbedError::failed(format!("creating {}", to.display()), error);
        fs::create_dir_all(to).map_err(failed)?;
        for (file, text) in &files {
            fs::write(to.join(file), text).map_err(failed)?;
        }
        let mut ci = Command::new(&npm);
        ci.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(to);
        wheels::run(&mut ci, || "`npm ci`".to_owned())
    })
}

/// The path of Chromium. Installs it if it is missing and this process may.
pub fn chromium() -> Result<PathBuf, TestbedError> {
    found_or_installed(chromium_if_installed, "Chromium", "chromium")
}

fn chromium_if_installed() -> Option<PathBuf> {
    path().map(|folder| folder.join("chromium")).find(|file| file.is_file())
}

fn npm_if_installed() -> Option<PathBuf> {
    path().map(|folder| folder.join("npm")).find(|file| file.is_file())
}

/// A short name for a text (FNV-1a).
fn digest(text: &str) -> String {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_lists_have_different_folders() {
        assert_eq!(digest(""), "cbf29ce484222325");
        assert_eq!(digest("a"), "af63dc4c8601ec8c");
        assert_ne!(digest("a==1"), digest("a==2"));
    }
}
