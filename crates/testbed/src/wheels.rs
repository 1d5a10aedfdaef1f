//! Programs from Python packages, each installed once into its own folder.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::TestbedError;
use crate::programs::{found_or_installed, last_lines, output, path};

/// The folder of the programs of these packages. Installs them unless they are installed.
pub(crate) fn programs(name: &'static str, packages: &[&str]) -> Result<PathBuf, TestbedError> {
    folder(name, packages, &packages.join("_"))
}

/// Python, and the folder of these packages and their dependencies. Installs them unless they are installed.
pub(crate) fn modules(name: &'static str, packages: &[&str]) -> Result<(PathBuf, PathBuf), TestbedError> {
    let python = python()?;
    let folder = folder(name, packages, &format!("{}_{}", cache_tag(&python), packages.join("_")))?;
    Ok((python, folder))
}

/// As [`modules`], in a folder named after `digest`: a long list is too long for a name.
pub(crate) fn pinned(
    name: &'static str,
    packages: &[&str],
    digest: &str,
) -> Result<(PathBuf, PathBuf), TestbedError> {
    let python = python()?;
    let folder = folder(name, packages, &format!("{name}-{}-{digest}", cache_tag(&python)))?;
    Ok((python, folder))
}

/// The tag of this version of Python: modules work with one version only.
fn cache_tag(python: &Path) -> String {
    let tag = output(Command::new(python).args(["-c", "import sys; print(sys.implementation.cache_tag)"]));
    tag.unwrap_or_default()
}

fn folder(name: &'static str, packages: &[&str], folder: &str) -> Result<PathBuf, TestbedError> {
    installed(name, folder, |to| install(&python()?, packages, to))
}

/// The folder of this name in the cache. `install` fills it if it does not exist.
pub(crate) fn installed(
    name: &'static str,
    folder: &str,
    install: impl FnOnce(&Path) -> Result<(), TestbedError>,
) -> Result<PathBuf, TestbedError> {
    let missing = |hint: String| TestbedError::Missing { program: name, hint };
    let cache = cache().ok_or_else(|| missing("no cache folder: set HOME or XDG_CACHE_HOME".to_owned()))?;
    let folder = cache.join(folder);
    if folder.is_dir() {
        return Ok(folder);
    }
    // One installation of a name at a time: tests run in many processes.
    let lock = fs::create_dir_all(&cache).and_then(|()| File::create(cache.join(format!("{name}.lock"))));
    let lock =
        lock.and_then(|lock| lock.lock().map(|()| lock)).map_err(|error| missing(error.to_string()))?;
    if !folder.is_dir() {
        fill(&folder, install).map_err(|error| missing(error.to_string()))?;
    }
    drop(lock);
    Ok(folder)
}

/// Installs under another name first, so that an interrupted installation is repeated.
fn fill(folder: &Path, install: impl FnOnce(&Path) -> Result<(), TestbedError>) -> Result<(), TestbedError> {
    let failed = |error: io::Error| TestbedError::failed(format!("creating {}", folder.display()), error);
    let unfinished = folder.with_added_extension("unfinished");
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    install(&unfinished)?;
    fs::rename(&unfinished, folder).map_err(failed)
}

/// Python with pip. Installs pip if it is missing and this process may.
fn python() -> Result<PathBuf, TestbedError> {
    found_or_installed(python_if_installed, "Python's pip", "python3-pip")
}

/// The real interpreter: the one on the path may be a script.
fn python_if_installed() -> Option<PathBuf> {
    let usual = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    let mut found = path().chain(usual).map(|folder| folder.join("python3")).filter(|file| file.is_file());
    found
        .find_map(|file| output(Command::new(file).args(["-c", "import pip, sys; print(sys.executable)"])))
        .map(PathBuf::from)
}

fn cache() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(caches.join("goldseam-testbed"))
}

fn install(python: &Path, packages: &[&str], folder: &Path) -> Result<(), TestbedError> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--target"]);
    run(pip.arg(folder).args(packages), || format!("`pip install {}`", packages.join(" ")))
}

/// Runs an installer to its end.
pub(crate) fn run(installer: &mut Command, what: impl Fn() -> String) -> Result<(), TestbedError> {
    let output = installer
        .stdin(Stdio::null())
        .output()
        .map_err(|error: io::Error| TestbedError::failed(what(), error))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(TestbedError::failed(what(), last_lines(&errors))) }
}
