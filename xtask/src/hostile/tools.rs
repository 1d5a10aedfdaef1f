//! Third-party tools: installation and invocation.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use goldseam_testbed::packages::{self, Python};

/// The installed tools.
pub(super) struct Tools {
    python: Python,
    node: PathBuf,
}

impl Tools {
    /// Installs the packages of `lists` that the cache folder does not have.
    pub(super) fn install(lists: &Path) -> Result<Self, String> {
        println!("installing the tools of xtask/hostile if they are missing");
        let message = |error: goldseam_testbed::TestbedError| error.to_string();
        let requirements = lists.join("requirements.txt");
        let list = std::fs::read_to_string(&requirements)
            .map_err(|error| format!("{}: {error}", requirements.display()))?;
        Ok(Self {
            python: packages::python("hostile", &list).map_err(message)?,
            node: packages::node("hostile", lists).map_err(message)?,
        })
    }

    /// The folder with Node's modules.
    pub(super) fn node_modules(&self) -> PathBuf {
        self.node.join("node_modules")
    }

    /// A program of a Python package.
    pub(super) fn python_program(&self, name: &str) -> Command {
        self.with_modules(&self.python.modules.join("bin").join(name))
    }

    /// Python with this script.
    pub(super) fn script(&self, script: &Path) -> Command {
        let mut command = self.with_modules(&self.python.program);
        command.arg(script);
        command
    }

    /// A program of a Node package.
    pub(super) fn node_program(&self, name: &str) -> Command {
        Command::new(self.node_modules().join(".bin").join(name))
    }

    fn with_modules(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let mut path = OsString::from(self.python.modules.join("bin"));
        path.push(":");
        path.push(env::var_os("PATH").unwrap_or_default());
        command.env("PYTHONPATH", &self.python.modules).env("PATH", path);
        command.env("PYTHONNOUSERSITE", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

/// Adds the modules of this folder to a Python command.
pub(super) fn with_modules_of<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    let known = command.get_envs().find(|(name, _)| *name == "PYTHONPATH").and_then(|(_, value)| value);
    let mut modules = folder.as_os_str().to_owned();
    modules.push(":");
    modules.push(known.unwrap_or_default());
    command.env("PYTHONPATH", modules)
}

/// Runs a command and returns its output, as an error if it failed.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {program}: {error}"))?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(format!("{said}\n{program}: {}", output.status)) }
}

/// The measurements of a script: its lines `NAME=VALUE`.
pub(super) struct Figures(BTreeMap<String, f64>);

impl Figures {
    pub(super) fn of(said: &str) -> Self {
        let pair = |line: &str| {
            let (name, value) = line.split_once('=')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        Self(said.lines().filter_map(pair).collect())
    }

    pub(super) fn get(&self, name: &str) -> Result<f64, String> {
        self.0.get(name).copied().ok_or_else(|| format!("the script did not measure {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_figures_by_name() {
        let figures = Figures::of("noise\nreads_p99_ms=12.5\nbad=x\n");
        assert_eq!(figures.get("reads_p99_ms"), Ok(12.5));
        assert!(figures.get("bad").unwrap_err().contains("did not measure bad"));
    }
}
