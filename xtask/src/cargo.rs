//! Runs cargo in the root of the workspace.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// The words of a command line without quotes.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Runs cargo with these arguments and variables.
pub(crate) fn run(root: &Path, args: &str, envs: &[(&str, &str)]) -> Result<(), String> {
    run_words(root, &words(args), envs)
}

/// Runs cargo with these arguments, of which one may have blanks, and variables.
pub(crate) fn run_words(root: &Path, args: &[String], envs: &[(&str, &str)]) -> Result<(), String> {
    let mut command = command(root, "");
    let status = command.args(args).envs(envs.iter().copied()).status();
    let status = status.map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`cargo {}` ended with {status}", args.join(" "))) }
}

/// Builds the binary with the features that the tests build it with, so that cargo compiles no crate twice. A test as
/// second target adds the features of dev-dependencies.
pub(crate) fn build_test_binary(root: &Path) -> Result<(), String> {
    run(root, "build --quiet --workspace --all-features --bin goldseam --test it", &[])
}

/// Runs cargo and returns its output.
pub(crate) fn output(root: &Path, args: &str) -> Result<String, String> {
    let output = command(root, args).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("`cargo {args}` ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs cargo, prints its output, and returns the line that begins with `record: `.
pub(crate) fn record_line(root: &Path, args: &str) -> Result<String, String> {
    let mut record = None;
    let status = for_each_line(&mut command(root, args), |line| match line.starts_with("record: ") {
        true => record = Some(line.to_owned()),
        false => println!("{line}"),
    })?;
    if !status.success() {
        return Err(format!("`cargo {args}` ended with {status}"));
    }
    record.ok_or_else(|| format!("`cargo {args}` left no record"))
}

/// Runs cargo and passes each line of its output to `each` as it is printed.
pub(crate) fn for_each_line(cargo: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus, String> {
    let cannot = |error| format!("cannot run cargo: {error}");
    let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        each(&line.map_err(cannot)?);
    }
    child.wait().map_err(cannot)
}

/// Whether cargo has the subcommand `tool`.
pub(crate) fn is_installed(root: &Path, tool: &str) -> bool {
    command(root, &format!("{tool} --version"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Cargo with these arguments, in the root.
pub(crate) fn command(root: &Path, args: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(args.split_whitespace());
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn a_search_without_a_record_fails() {
        let root = tree::root().unwrap();
        assert!(record_line(&root, "--version").unwrap_err().contains("left no record"));
        assert!(record_line(&root, "no-such-subcommand").unwrap_err().contains("ended with"));
    }
}
