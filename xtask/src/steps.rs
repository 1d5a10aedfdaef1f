//! `cargo xtask test` and `check`: steps in order; the first failure ends the command.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::cargo::{self, is_installed, record_line, words};
use crate::servers::{Servers, Which};
use crate::{deny, hostile, planted, python, tidy, tree, ui};

/// How much `cargo xtask test` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every test, also those of [`LONG`], and the search for planted bugs, which builds a copy of the tree.
    All,
    /// Every step, without the tests of [`LONG`].
    Full,
    /// Without doc, deny, clients, the Python package and the browser, and without the tests of [`LONG`].
    Quick,
}

/// The flags that clippy, doc and the tests share, so that cargo builds dependencies with one set of features.
const EVERYTHING: &str = "--workspace --all-features";

/// Tests that only `cargo xtask test --all` runs: further stories and seeds of suites that the other scopes run with
/// fewer, on the stores that take longest, and the tests of the testbed itself.
const LONG: &[&str] = &[
    // SQLite plays every story; Postgres and object storage keep three.
    "package(goldseam-sim) & test(/^nth_real::(postgres|object::[a-z0-9]+)::/) & not test(/::(saga|child|remote)$/)",
    // A direct connection and the memory store run all seeds.
    "package(goldseam-store-postgres) & binary(pooled) & test(/^(the_seeds|lives)_from_/)",
    "package(goldseam-store-object) & binary(seaweedfs) & test(/^(the_seeds|lives)_from_(5|10|15)/)",
    // `cargo xtask kill` does the same at length.
    "package(goldseam-cli) & test(=demo::kills_the_real_binary_a_hundred_times)",
    "package(goldseam-testbed) & kind(test)",
    // Checks every mistake in a target folder of its own, for which it compiles the dependencies once more.
    "package(goldseam-mistakes) & test(=every_mistake_is_explained_as_expected)",
];

/// Unit tests, and the suites of the memory store and of SQLite. None needs a server.
const SERVERLESS: &[&str] = &[
    "kind(lib) | kind(bin)",
    "package(/^goldseam-(core|store|conformance|store-sqlite|engine|admin|suite|api|fake-s3|fuzz)$/)",
    "package(goldseam-store-object) & binary(/^(memory|harm)$/)",
    "package(goldseam) & binary(testing)",
    "package(goldseam) & binary(healing) & test(/^sqlite::/)",
    "package(goldseam) & binary(copying) & test(/^(sqlite_to_sqlite|sqlite_to_memory|memory_to_sqlite)::/)",
    "package(goldseam) & binary(it) & not test(/^(postgres|rights|starvation|examples|bucket)::|^peers::stuck::/)",
    "package(goldseam-sim) & (binary(models) | test(/^nth_memory::/))",
];

/// Tests that start Postgres, a pooler or an object store.
const WITH_SERVERS: &str = "package(/^goldseam-(testbed|store-postgres)$/) & kind(test) \
     | package(goldseam-store-object) & kind(test) & not (test(/^memory::|^harm::/) | binary_id(/::(memory|harm)$/)) \
     | test(/(^|::)(postgres|object|seaweedfs|moto|rclone|pooled)::/) \
     | test(/postgres|on_a_server|object_storage/) \
     | package(goldseam) & test(/^(rights|starvation|examples|bucket)::|^peers::stuck::/) \
     | package(goldseam-server) & test(/^(stores|healing)::/) \
     | package(goldseam-cli) & test(/^(bucket|changing|crash|demo|disk|drill|guides|prune)::/)";

/// The action of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Work {
    /// The checks of [`tidy`], in this process.
    Tidy,
    /// The check of dependencies, in this process.
    Deny,
    /// Cargo with these arguments.
    Cargo(Vec<String>),
    /// Cargo with these arguments, while the servers for tests run.
    Tests(Vec<String>),
    /// Cargo with these arguments and rustdoc warnings as errors.
    Doc(Vec<String>),
    /// The search for planted bugs.
    Planted,
    /// The Python package: wheel, types, tests.
    Python,
    /// The dashboard: its built files match their sources, and every page works in a browser.
    Dashboard,
    /// Third-party linters and generated clients on the served description, installed first if they are missing.
    Clients,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    name: &'static str,
    work: Work,
}

fn step(name: &'static str, work: Work) -> Step {
    Step { name, work }
}

fn any_of(filters: &[&str]) -> String {
    filters.iter().map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" | ")
}

/// Twice as many tests at once as there are cores: tests wait for disks, timers and processes half of their time.
fn test_threads() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("--test-threads {}", 2 * cores)
}

/// The steps of `cargo xtask test`, in order.
fn plan(scope: Scope, has_nextest: bool) -> Vec<Step> {
    let mut tests = words(&match has_nextest {
        true => format!("nextest run {EVERYTHING} {}", test_threads()),
        false => format!("test {EVERYTHING} --lib --bins --tests --examples"),
    });
    if has_nextest && scope != Scope::All {
        tests.extend(["-E".to_owned(), format!("not ({})", any_of(LONG))]);
    }
    let mut steps = vec![
        step("fmt", Work::Cargo(words("fmt --all --check"))),
        step("tidy", Work::Tidy),
        step("clippy", Work::Cargo(words(&format!("clippy {EVERYTHING} --all-targets -- -D warnings")))),
    ];
    if scope != Scope::Quick {
        steps.push(step("doc", Work::Doc(words(&format!("doc --no-deps {EVERYTHING}")))));
        steps.push(step("deny", Work::Deny));
    }
    steps.push(step("test", Work::Tests(tests)));
    steps.push(step("doctest", Work::Cargo(words(&format!("test --doc {EVERYTHING}")))));
    if scope != Scope::Quick {
        steps.push(step("clients", Work::Clients));
        steps.push(step("python", Work::Python));
        steps.push(step("ui", Work::Dashboard));
    }
    if scope == Scope::All {
        steps.push(step("planted", Work::Planted));
    }
    steps
}

/// The steps of `cargo xtask check`, for the workspace or one package.
fn check_plan(package: Option<&str>, has_nextest: bool) -> Vec<Step> {
    let what = package.map_or(EVERYTHING.to_owned(), |package| format!("--package {package} --all-features"));
    let mut tests = words(&match has_nextest {
        true => format!("nextest run {what} --no-tests pass {}", test_threads()),
        false => format!("test {what} --lib --bins"),
    });
    if has_nextest {
        let filter = match package {
            Some(_) => format!("not ({WITH_SERVERS})"),
            None => any_of(SERVERLESS),
        };
        tests.extend(["-E".to_owned(), filter]);
    }
    vec![
        step("fmt", Work::Cargo(words("fmt --all --check"))),
        step("tidy", Work::Tidy),
        step("clippy", Work::Cargo(words(&format!("clippy {what} --all-targets -- -D warnings")))),
        step("test", Work::Cargo(tests)),
    ]
}

/// `cargo xtask test`.
pub(crate) fn run(scope: Scope) -> Result<(), String> {
    let root = tree::root()?;
    let has_nextest = has_nextest(&root);
    if has_nextest && scope != Scope::All {
        println!("planted bugs and long tests are left to `cargo xtask test --all`: {}", any_of(LONG));
    }
    execute(&root, &plan(scope, has_nextest))
}

/// `cargo xtask check`.
pub(crate) fn check(args: &[&str]) -> Result<(), String> {
    let root = tree::root()?;
    let package = match args {
        [] => None,
        ["-p" | "--package", package] => Some(full_name(package)),
        ["--help" | "-h"] => {
            print!("{CHECK_HELP}");
            return Ok(());
        }
        _ => return Err(format!("check does not take {args:?}\n{CHECK_HELP}")),
    };
    execute(&root, &check_plan(package.as_deref(), has_nextest(&root)))
}

const CHECK_HELP: &str = "\
cargo xtask check [-p CRATE]   the fast loop, without servers; the time of each step is printed

  fmt      cargo fmt --all --check
  tidy     cargo xtask tidy
  clippy   all targets and features, warnings are errors
  test     unit tests, and the suites of the memory store and of SQLite

-p CRATE checks one crate (`engine` is `goldseam-engine`) and runs all of its tests that need no server.
It uses the features and the target directory of `cargo xtask test`, so either command finds what the other built.
Before you push: `cargo xtask test`, which also runs the servers' suites, doc tests and generated clients.
";

/// `engine` as `goldseam-engine`.
fn full_name(package: &str) -> String {
    match package {
        "goldseam" | "xtask" => package.to_owned(),
        _ if package.starts_with("goldseam-") => package.to_owned(),
        _ => format!("goldseam-{package}"),
    }
}

fn has_nextest(root: &Path) -> bool {
    let is_installed = is_installed(root, "nextest");
    if !is_installed {
        println!("cargo-nextest is not installed: the tests run under plain `cargo test`");
    }
    is_installed
}

/// Runs the steps and prints the time of each and of all.
#[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
fn execute(root: &Path, steps: &[Step]) -> Result<(), String> {
    let mut report = Report::default();
    let begin = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        println!("── {} ({} of {})", step.name, number + 1, steps.len());
        let from = Instant::now();
        let outcome = work(root, &step.work);
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

/// The summary, one line per step.
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
        Work::Tidy => tidy::run(&[]),
        Work::Deny => deny::run(root),
        Work::Cargo(args) => cargo::run_words(root, args, &[]),
        Work::Tests(args) => {
            let servers = Servers::start(Which::All)?;
            let variables = servers.variables();
            let variables: Vec<_> = variables.iter().map(|(name, url)| (*name, url.as_str())).collect();
            cargo::run_words(root, args, &variables)
        }
        Work::Planted => planted::run(&[]),
        Work::Clients => hostile::quick(),
        Work::Python => python::quick(),
        Work::Dashboard => ui::run(ui::DashboardTask::Check).and_then(|()| ui::run(ui::DashboardTask::Test)),
        Work::Doc(args) => cargo::run_words(root, args, &[("RUSTDOCFLAGS", "-D warnings")]),
    }
}

/// `cargo xtask sim`: the simulation, optimised, with these arguments.
pub(crate) fn sim(args: &[&str]) -> Result<(), String> {
    let root = tree::root()?;
    cargo::run(&root, &format!("run --quiet --release --package goldseam-sim -- {}", args.join(" ")), &[])
}

/// `cargo xtask models`: the models in their large scopes, optimised, with every broken twin.
pub(crate) fn models() -> Result<(), String> {
    let root = tree::root()?;
    let record =
        record_line(&root, "test --release --package goldseam-sim --test models -- --ignored --nocapture")?;
    println!("{record}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scope: Scope) -> Vec<&'static str> {
        plan(scope, true).into_iter().map(|step| step.name).collect()
    }

    fn tests_of(steps: Vec<Step>) -> String {
        let step = steps.into_iter().find(|step| step.name == "test").unwrap();
        match step.work {
            Work::Tests(args) | Work::Cargo(args) => args.join(" "),
            work => panic!("{work:?} is not a run of tests"),
        }
    }

    #[test]
    fn quick_skips_deny_doc_clients_and_browser_only() {
        assert_eq!(
            names(Scope::Full),
            ["fmt", "tidy", "clippy", "doc", "deny", "test", "doctest", "clients", "python", "ui"]
        );
        assert_eq!(names(Scope::All), [names(Scope::Full), vec!["planted"]].concat());
        assert_eq!(names(Scope::Quick), ["fmt", "tidy", "clippy", "test", "doctest"]);
    }

    #[test]
    fn all_runs_every_test() {
        let everything = format!("nextest run --workspace --all-features {}", test_threads());
        assert_eq!(tests_of(plan(Scope::All, true)), everything);
        assert!(tests_of(plan(Scope::Full, true)).contains("-E not ((package(goldseam-sim)"));
    }

    #[test]
    fn warnings_are_errors() {
        for plan in [plan(Scope::Full, false), check_plan(None, true)] {
            assert!(matches!(&plan[2].work, Work::Cargo(args) if args.ends_with(&words("-- -D warnings"))));
        }
        assert!(matches!(plan(Scope::Full, false)[3].work, Work::Doc(_)));
    }

    #[test]
    fn check_starts_no_server_and_names_one_package_or_all() {
        for package in [None, Some("goldseam-core")] {
            let plan = check_plan(package, true);
            assert!(!plan.iter().any(|step| {
                matches!(step.work, Work::Tests(_) | Work::Clients | Work::Python | Work::Dashboard)
            }));
            let what = if package.is_some() { "--package goldseam-core --all-features" } else { EVERYTHING };
            assert!(tests_of(plan).starts_with(&format!("nextest run {what}")));
        }
        assert_eq!((full_name("engine"), full_name("xtask")), ("goldseam-engine".into(), "xtask".into()));
    }

    #[test]
    fn a_failing_step_fails_the_command() {
        let root = tree::root().unwrap();
        assert!(work(&root, &Work::Cargo(words("--version"))).is_ok());
        assert!(work(&root, &Work::Cargo(words("no-such-subcommand"))).is_err());
        assert!(!is_installed(&root, "no-such-subcommand"));
    }

    #[test]
    fn the_same_tests_run_without_nextest() {
        assert!(tests_of(plan(Scope::Full, true)).starts_with("nextest "));
        assert!(tests_of(plan(Scope::Full, false)).starts_with("test "));
    }
}
