//! `cargo xtask test`: every check of the project, in order; the first failure ends it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::servers::{Servers, Which};
use crate::{hostile, tidy, tree};

const DENY_VERSION: &str = "0.20.2";

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    Full,
    /// Without deny, doc and clients.
    Quick,
}

/// What a step runs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Work {
    /// The checks of [`tidy`], in this process.
    Tidy,
    /// Cargo with these arguments.
    Cargo(&'static str),
    /// Cargo with these arguments, beside the servers that tests work with.
    Tests(&'static str),
    /// Cargo with these arguments, every warning of rustdoc being an error.
    Doc(&'static str),
    /// `cargo deny`, which is installed first if it is missing.
    Deny(&'static str),
    /// Linters and generated clients of others, on the served description; installed first if they are missing.
    Clients,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    name: &'static str,
    work: Work,
}

/// The steps in order.
fn plan(scope: Scope, has_nextest: bool) -> Vec<Step> {
    let tests = if has_nextest {
        "nextest run --workspace --all-features"
    } else {
        "test --workspace --all-features --lib --bins --tests --examples"
    };
    let step = |name, work| Step { name, work };
    let mut steps = vec![
        step("fmt", Work::Cargo("fmt --all --check")),
        step("tidy", Work::Tidy),
        step("clippy", Work::Cargo("clippy --workspace --all-targets --all-features -- -D warnings")),
    ];
    if scope == Scope::Full {
        steps.push(step("doc", Work::Doc("doc --no-deps --workspace --all-features")));
        steps.push(step("deny", Work::Deny("deny check licenses bans sources")));
    }
    steps.push(step("test", Work::Tests(tests)));
    steps.push(step("doctest", Work::Cargo("test --doc --workspace --all-features")));
    if scope == Scope::Full {
        steps.push(step("clients", Work::Clients));
    }
    steps
}

/// Runs the steps and prints how long each took.
#[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
pub(crate) fn run(scope: Scope) -> Result<(), String> {
    let root = tree::root()?;
    let has_nextest = is_installed(&root, "nextest");
    if !has_nextest {
        println!("cargo-nextest is not installed: the tests run under plain `cargo test`");
    }
    let steps = plan(scope, has_nextest);
    let mut report = Report::default();
    let begin = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        println!("── {} ({} of {})", step.name, number + 1, steps.len());
        let from = Instant::now();
        let outcome = work(&root, &step.work);
        report.line(if outcome.is_ok() { "ok" } else { "FAILED" }, step.name, from.elapsed());
        if let Err(message) = outcome {
            for skipped in &steps[number + 1..] {
                report.skipped(skipped.name);
            }
            println!("\n{}", report.text);
            return Err(format!("step `{}` failed: {message}", step.name));
        }
    }
    println!("\n{}all passed in {:.1} s", report.text, begin.elapsed().as_secs_f64());
    Ok(())
}

/// The summary, a line for each step.
#[derive(Debug, Default)]
struct Report {
    text: String,
}

impl Report {
    fn line(&mut self, outcome: &str, name: &str, took: Duration) {
        let line = format!("{outcome:>8}  {name:<8} {:>7.1} s\n", took.as_secs_f64());
        print!("{line}");
        self.text.push_str(&line);
    }

    fn skipped(&mut self, name: &str) {
        self.text.push_str(&format!("{:>8}  {name}\n", "not run"));
    }
}

fn work(root: &Path, work: &Work) -> Result<(), String> {
    match work {
        Work::Tidy => tidy::run(),
        Work::Cargo(args) => cargo(root, args, &[]),
        Work::Tests(args) => {
            let servers = Servers::start(Which::All)?;
            let variables = servers.variables();
            let variables: Vec<_> = variables.iter().map(|(name, url)| (*name, url.as_str())).collect();
            cargo(root, args, &variables)
        }
        Work::Clients => hostile::quick(),
        Work::Doc(args) => cargo(root, args, &[("RUSTDOCFLAGS", "-D warnings")]),
        Work::Deny(args) => {
            if !is_installed(root, "deny") {
                println!("cargo-deny is not installed: installing {DENY_VERSION}");
                cargo(root, &format!("install cargo-deny --locked --version {DENY_VERSION}"), &[])?;
            }
            cargo(root, args, &[])
        }
    }
}

/// Runs cargo with these arguments and variables.
pub(crate) fn cargo(root: &Path, args: &str, envs: &[(&str, &str)]) -> Result<(), String> {
    let status = command(root, args)
        .envs(envs.iter().copied())
        .status()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`cargo {args}` ended with {status}")) }
}

/// `cargo xtask sim`: the simulation, optimised, with these arguments.
pub(crate) fn sim(args: &[&str]) -> Result<(), String> {
    let root = tree::root()?;
    cargo(&root, &format!("run --quiet --release --package goldseam-sim -- {}", args.join(" ")), &[])
}

/// `cargo xtask models`: the models in their large scopes, optimised, with every broken twin.
pub(crate) fn models() -> Result<(), String> {
    let root = tree::root()?;
    let record = told(&root, "test --release --package goldseam-sim --test models -- --ignored --nocapture")?;
    println!("{record}");
    Ok(())
}

/// Runs cargo, shows what it prints as it comes, and returns the record that stands in it.
fn told(root: &Path, args: &str) -> Result<String, String> {
    let mut record = None;
    let status = heard(&mut command(root, args), |line| match line.starts_with("record: ") {
        true => record = Some(line.to_owned()),
        false => println!("{line}"),
    })?;
    if !status.success() {
        return Err(format!("`cargo {args}` ended with {status}"));
    }
    record.ok_or_else(|| format!("`cargo {args}` left no record"))
}

/// Runs cargo and hands over what it prints, line by line, as it comes.
pub(crate) fn heard(cargo: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus, String> {
    let cannot = |error| format!("cargo cannot be run: {error}");
    let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        each(&line.map_err(cannot)?);
    }
    child.wait().map_err(cannot)
}

fn is_installed(root: &Path, tool: &str) -> bool {
    command(root, &format!("{tool} --version"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

pub(crate) fn command(root: &Path, args: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(args.split_whitespace());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scope: Scope) -> Vec<&'static str> {
        plan(scope, true).into_iter().map(|step| step.name).collect()
    }

    #[test]
    fn quick_leaves_out_deny_doc_and_clients_only() {
        assert_eq!(
            names(Scope::Full),
            ["fmt", "tidy", "clippy", "doc", "deny", "test", "doctest", "clients"]
        );
        assert_eq!(names(Scope::Quick), ["fmt", "tidy", "clippy", "test", "doctest"]);
    }

    #[test]
    fn warnings_are_errors() {
        let plan = plan(Scope::Full, false);
        assert!(matches!(plan[2].work, Work::Cargo(args) if args.ends_with("-D warnings")));
        assert!(matches!(plan[3].work, Work::Doc(_)));
    }

    #[test]
    fn a_step_that_fails_is_a_failure() {
        let root = tree::root().unwrap();
        assert!(work(&root, &Work::Cargo("--version")).is_ok());
        assert!(work(&root, &Work::Cargo("no-such-subcommand")).is_err());
        assert!(!is_installed(&root, "no-such-subcommand"));
    }

    #[test]
    fn a_search_without_a_record_is_a_failure() {
        let root = tree::root().unwrap();
        assert!(told(&root, "--version").unwrap_err().contains("left no record"));
        assert!(told(&root, "no-such-subcommand").unwrap_err().contains("ended with"));
    }

    #[test]
    fn without_nextest_the_same_tests_run() {
        let tests = |has| plan(Scope::Full, has).into_iter().find(|step| step.name == "test").unwrap().work;
        assert!(matches!(tests(true), Work::Tests(args) if args.starts_with("nextest ")));
        assert!(matches!(tests(false), Work::Tests(args) if args.starts_with("test ")));
    }
}
