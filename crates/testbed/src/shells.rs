//! Shells, for tests of completion scripts.

use std::path::PathBuf;

use crate::TestbedError;
use crate::programs::{found_or_installed, path};

/// Returns the path of `zsh`. Installs it if it is missing and this process may.
pub fn zsh() -> Result<PathBuf, TestbedError> {
    found_or_installed(|| find("zsh"), "zsh", "zsh")
}

/// Returns the path of `fish`. Installs it if it is missing and this process may.
pub fn fish() -> Result<PathBuf, TestbedError> {
    found_or_installed(|| find("fish"), "fish", "fish")
}

fn find(shell: &str) -> Option<PathBuf> {
    path().map(|folder| folder.join(shell)).find(|file| file.is_file())
}
