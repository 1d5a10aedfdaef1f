//! The dashboard: builds it, checks the built files, tests it in a browser, and takes screenshots.

use std::path::Path;
use std::process::Command;

use goldseam_testbed::packages;

use crate::{cargo, tree};

/// What to do with the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DashboardTask {
    /// Write the built files.
    Build,
    /// Fail if the built files differ from their sources.
    Check,
    /// Test every page in a browser against the debug binary.
    Test,
    /// Measure the figures against the release binary.
    Figures,
    /// Take a screenshot of every page in both themes.
    Shots,
}

/// `cargo xtask ui` and `cargo xtask shots`.
pub(crate) fn run(task: DashboardTask) -> Result<(), String> {
    let root = tree::root()?;
    let ui = root.join("ui");
    link_modules(&ui)?;
    match task {
        DashboardTask::Build => node(&ui, "scripts/build.mjs", &[], None),
        DashboardTask::Check => node(&ui, "scripts/build.mjs", &["--check"], None),
        DashboardTask::Test => browse(&root, &ui, "tests/run.mjs", "debug"),
        DashboardTask::Figures => browse(&root, &ui, "tests/figures.mjs", "release"),
        DashboardTask::Shots => browse(&root, &ui, "tests/shots.mjs", "debug"),
    }
}

/// Installs the packages into the cache folder, and links them beside the sources, where the tools look for them.
fn link_modules(ui: &Path) -> Result<(), String> {
    let installed = packages::node("ui", ui).map_err(|error| error.to_string())?.join("node_modules");
    let link = ui.join("node_modules");
    if std::fs::read_link(&link).is_ok_and(|target| target == installed) {
        return Ok(());
    }
    if link.is_symlink() {
        std::fs::remove_file(&link).map_err(|error| format!("{}: {error}", link.display()))?;
    }
    if link.exists() {
        // A developer's own installation.
        return Ok(());
    }
    std::os::unix::fs::symlink(&installed, &link).map_err(|error| format!("{}: {error}", link.display()))
}

/// Runs a script that drives a browser against a build of the binary.
fn browse(root: &Path, ui: &Path, script: &str, profile: &str) -> Result<(), String> {
    match profile {
        "release" => cargo::run(root, "build --quiet --release --package goldseam-cli", &[])?,
        _ => cargo::build_test_binary(root)?,
    }
    let chromium = packages::chromium().map_err(|error| error.to_string())?;
    let binary = tree::target(root).join(profile).join("goldseam");
    node(ui, script, &[], Some(Programs { binary: &binary, chromium: &chromium }))
}

/// The programs of a browser test.
struct Programs<'a> {
    binary: &'a Path,
    chromium: &'a Path,
}

fn node(ui: &Path, script: &str, args: &[&str], programs: Option<Programs<'_>>) -> Result<(), String> {
    let mut command = Command::new("node");
    command.arg(script).args(args).current_dir(ui);
    if let Some(Programs { binary, chromium }) = programs {
        command.env("GOLDSEAM_BINARY", binary).env("GOLDSEAM_CHROMIUM", chromium);
    }
    let status = command.status().map_err(|error| format!("cannot run node: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("ui/{script}: {status}")) }
}
