//! `fuzz`: every target of `fuzz/`, for a while each.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::tree;

/// Seconds for each target, unless told otherwise.
pub(crate) const SECONDS: u64 = 30;

/// What libFuzzer calls the number of inputs that it tried.
const EXECUTED: &str = "stat::number_of_executed_units:";

/// Feeds every target for so many seconds. The last line counts what was done.
pub(crate) fn run(seconds: u64) -> Result<(), String> {
    let root = tree::root()?;
    let targets = targets(&root)?;
    let (mut executions, mut crashed) = (0, Vec::new());
    for target in &targets {
        let ran = feed(&root, target, seconds)?;
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

fn feed(root: &Path, target: &str, seconds: u64) -> Result<Ran, String> {
    // What is found goes where it is not committed; the kept corpus is only read.
    let found = root.join("fuzz/target/found").join(target);
    fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    let limit = format!("-max_total_time={seconds}");
    let output = Command::new("cargo")
        // Safe code needs no sanitizer, and builds in half the time without.
        .args(["fuzz", "run", "--sanitizer", "none", target])
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
        None => Err(format!("{target} was not fed; is cargo-fuzz installed? It said:\n{told}")),
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
        let names = targets(&tree::root().unwrap()).unwrap();
        assert!(names.contains(&"event".to_owned()), "{names:?}");
    }
}
