//! `promtool`, which checks and tests rules of Prometheus.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::TestbedError;
use crate::programs::{command, found_or_installed, last_lines, path};

/// Runs `promtool` with these arguments in `folder`, and returns its output. Installs it if it is missing and this
/// process may.
///
/// ```no_run
/// # fn main() -> Result<(), goldseam_testbed::TestbedError> {
/// let output = goldseam_testbed::promtool::run("docs/alerts".as_ref(), &["check", "rules", "goldseam.rules.yml"])?;
/// assert!(output.contains("SUCCESS"));
/// # Ok(())
/// # }
/// ```
pub fn run(folder: &Path, arguments: &[&str]) -> Result<String, TestbedError> {
    let promtool = found_or_installed(promtool_if_installed, "promtool", "prometheus")?;
    let what = || format!("`promtool {}`", arguments.join(" "));
    let output = command(promtool)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| TestbedError::failed(what(), error))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let out = text(&output.stdout);
    let errors = text(&output.stderr);
    if output.status.success() {
        return Ok(out);
    }
    Err(TestbedError::failed(what(), last_lines(&format!("{out}\n{errors}"))))
}

fn promtool_if_installed() -> Option<PathBuf> {
    path().map(|folder| folder.join("promtool")).find(|file| file.is_file())
}
