//! `fuzz`: every target of `fuzz/`, for a while each.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::tree;

/// Seconds for each target, unless told otherwise.
const SECONDS: u64 = 30;

/// Targets that need the engine, the stores, the server or the command line, which take long to build.
const OUTSIDE: [&str; 4] = ["arguments", "config", "urls", "wire"];

/// What libFuzzer calls the number of inputs that it tried.
const EXECUTED: &str = "stat::number_of_executed_units:";

/// What is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// All but [`OUTSIDE`].
    Core,
}

/// Feeds every target for a while. The last line counts what was done.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let (seconds, scope) = asked(args)?;
    let root = tree::root()?;
    is_installed()?;
    lock(&root)?;
    let mut targets = targets(&root)?;
    targets.retain(|target| scope == Scope::All || !OUTSIDE.contains(&target.as_str()));
    let (mut executions, mut crashed) = (0, Vec::new());
    for target in &targets {
        let ran = feed(&root, target, (seconds, scope))?;
        println!("{target}: {} executions{}", ran.executions, if ran.crashed { ", a crash" } else { "" });
        executions += ran.executions;
        if ran.crashed {
            eprintln!("{}", ran.told);
            crashed.push(target.as_str());
        }
    }
    let (count, crashes) = (targets.len(), crashed.len());
    println!(
        "record: targets={count} executions={executions} crashes={crashes} seconds={}",
        seconds * count as u64
    );
    match crashes {
        0 => Ok(()),
        _ => Err(format!("what was found is in fuzz/artifacts: {}", crashed.join(", "))),
    }
}

fn asked(args: &[&str]) -> Result<(u64, Scope), String> {
    let (mut seconds, mut scope) = (SECONDS, Scope::All);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match *word {
            "--core" => scope = Scope::Core,
            "--seconds" => {
                let number = words.next().and_then(|number| number.parse().ok());
                seconds = number.ok_or("--seconds needs a number")?;
            }
            other => return Err(format!("fuzz does not know {other:?}; it takes --seconds N and --core")),
        }
    }
    Ok((seconds, scope))
}

/// The versions that everything else is tested with, unless the workspace of the fuzzer has chosen already.
fn lock(root: &Path) -> Result<(), String> {
    let own = root.join("fuzz/Cargo.lock");
    if own.exists() {
        return Ok(());
    }
    fs::copy(root.join("Cargo.lock"), &own).map(|_| ()).map_err(|error| format!("{}: {error}", own.display()))
}

fn is_installed() -> Result<(), String> {
    let missing = "cargo-fuzz is missing; install it with `cargo install cargo-fuzz`";
    let asked = Command::new("cargo").args(["fuzz", "--version"]).output();
    match asked.is_ok_and(|output| output.status.success()) {
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

/// What came of one target.
struct Ran {
    executions: u64,
    crashed: bool,
    told: String,
}

fn feed(root: &Path, target: &str, (seconds, scope): (u64, Scope)) -> Result<Ran, String> {
    // What is found goes where it is not committed; the kept corpus is only read.
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
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    match executed(&told) {
        Some(executions) => Ok(Ran { executions, crashed: !output.status.success(), told }),
        None => Err(format!("{target} could not be built or fed; cargo-fuzz said:\n{told}")),
    }
}

/// How many inputs were tried, by what libFuzzer says at its end.
fn executed(told: &str) -> Option<u64> {
    told.lines().find_map(|line| line.trim().strip_prefix(EXECUTED)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_from_what_the_fuzzer_says() {
        let told = "Done 12 runs in 1 second(s)\nstat::number_of_executed_units: 12\nstat::peak_rss_mb: 40\n";
        assert_eq!(executed(told), Some(12));
        assert_eq!(executed("error: no such command"), None);
    }

    #[test]
    fn every_target_has_its_name() {
        let root = tree::root().unwrap();
        let names = targets(&root).unwrap();
        assert!(names.contains(&"event".to_owned()), "{names:?}");
        assert!(OUTSIDE.iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
        let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        assert_eq!(manifest.matches("required-features").count(), OUTSIDE.len());
    }

    #[test]
    fn what_is_asked_is_understood() {
        assert_eq!(asked(&[]), Ok((SECONDS, Scope::All)));
        assert_eq!(asked(&["--core", "--seconds", "5"]), Ok((5, Scope::Core)));
        assert!(asked(&["--seconds"]).is_err() && asked(&["--sceonds", "5"]).is_err());
    }
}
