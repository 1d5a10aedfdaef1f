//! `cargo xtask fuzz`: runs every target of `fuzz/` for some seconds.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::tree;

/// Default seconds for each target.
const SECONDS: u64 = 30;

/// Targets that depend on the engine, the stores, the server or the command line, which take long to build.
const OUTSIDE: [&str; 4] = ["arguments", "config", "urls", "wire"];

/// The prefix of libFuzzer's line with the number of inputs.
const EXECUTED: &str = "stat::number_of_executed_units:";

/// The targets to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// All but [`OUTSIDE`].
    Core,
}

/// Runs every target; the last line is the record.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let (seconds, scope) = parse(args)?;
    let root = tree::root()?;
    is_installed()?;
    lock(&root)?;
    let mut targets = targets(&root)?;
    targets.retain(|target| scope == Scope::All || !OUTSIDE.contains(&target.as_str()));
    let mut executions = 0;
    let mut crashed = Vec::new();
    for target in &targets {
        let ran = run_target(&root, target, (seconds, scope))?;
        println!("{target}: {} executions{}", ran.executions, if ran.crashed { ", a crash" } else { "" });
        executions += ran.executions;
        if ran.crashed {
            eprintln!("{}", ran.output);
            crashed.push(target.as_str());
        }
    }
    let count = targets.len();
    let crashes = crashed.len();
    println!(
        "record: targets={count} executions={executions} crashes={crashes} seconds={}",
        seconds * count as u64
    );
    match crashes {
        0 => Ok(()),
        _ => Err(format!("inputs that crash are in fuzz/artifacts: {}", crashed.join(", "))),
    }
}

fn parse(args: &[&str]) -> Result<(u64, Scope), String> {
    let mut seconds = SECONDS;
    let mut scope = Scope::All;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match *word {
            "--core" => scope = Scope::Core,
            "--seconds" => {
                let number = words.next().and_then(|number| number.parse().ok());
                seconds = number.ok_or("--seconds needs a number")?;
            }
            other => return Err(format!("unknown argument {other:?}: fuzz takes --seconds N and --core")),
        }
    }
    Ok((seconds, scope))
}

/// Copies the lock file of the workspace, unless the fuzzer's workspace has one.
fn lock(root: &Path) -> Result<(), String> {
    let own = root.join("fuzz/Cargo.lock");
    if own.exists() {
        return Ok(());
    }
    fs::copy(root.join("Cargo.lock"), &own).map(|_| ()).map_err(|error| format!("{}: {error}", own.display()))
}

fn is_installed() -> Result<(), String> {
    let missing = "cargo-fuzz is missing; install it with `cargo install cargo-fuzz`";
    let version = Command::new("cargo").args(["fuzz", "--version"]).output();
    match version.is_ok_and(|output| output.status.success()) {
        true => Ok(()),
        false => Err(missing.to_owned()),
    }
}

fn targets(root: &Path) -> Result<Vec<String>, String> {
    let place = root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// The outcome of one target.
struct Ran {
    executions: u64,
    crashed: bool,
    output: String,
}

fn run_target(root: &Path, target: &str, (seconds, scope): (u64, Scope)) -> Result<Ran, String> {
    // New inputs go to an untracked folder; the committed corpus is read only.
    let found = root.join("fuzz/target/found").join(target);
    fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    let limit = format!("-max_total_time={seconds}");
    let output = Command::new("cargo")
        // Safe code needs no sanitizer, and builds in half the time without.
        .args(["fuzz", "run", "--sanitizer", "none"])
        .args((scope == Scope::Core).then_some("--no-default-features"))
        .arg(target)
        .arg(&found)
        .arg(root.join("fuzz/corpus").join(target))
        .args(["--", &limit, "-print_final_stats=1", "-max_len=16384"])
        // Coverage needs a flag that a stable compiler takes only like this.
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cargo-fuzz cannot be run: {error}"))?;
    let status = output.status;
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    match executed(&output) {
        Some(executions) => Ok(Ran { executions, crashed: !status.success(), output }),
        None => Err(format!("{target} could not be built or run; cargo-fuzz printed:\n{output}")),
    }
}

/// The number of inputs, from libFuzzer's final statistics.
fn executed(output: &str) -> Option<u64> {
    output.lines().find_map(|line| line.trim().strip_prefix(EXECUTED)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_executions_from_the_final_statistics() {
        let output =
            "Done 12 runs in 1 second(s)\nstat::number_of_executed_units: 12\nstat::peak_rss_mb: 40\n";
        assert_eq!(executed(output), Some(12));
        assert_eq!(executed("error: no such command"), None);
    }

    #[test]
    fn lists_every_target() {
        let root = tree::root().unwrap();
        let names = targets(&root).unwrap();
        assert!(names.contains(&"event".to_owned()), "{names:?}");
        assert!(OUTSIDE.iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
        let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        assert_eq!(manifest.matches("required-features").count(), OUTSIDE.len());
    }

    #[test]
    fn parses_arguments() {
        assert_eq!(parse(&[]), Ok((SECONDS, Scope::All)));
        assert_eq!(parse(&["--core", "--seconds", "5"]), Ok((5, Scope::Core)));
        assert!(parse(&["--seconds"]).is_err() && parse(&["--sceonds", "5"]).is_err());
    }
}
