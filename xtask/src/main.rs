//! Developer commands: `cargo xtask help` lists them. Depends on `std`, and on the servers for tests.
//!
//! # Layout
//!
//! | module | content |
//! |---|---|
//! | [`tidy`] | checks that no compiler makes |
//! | [`steps`] | `test` and `check`: all checks in order, with their times |
//! | [`deny`] | licences, bans and sources of dependencies |
//! | [`servers`] | the servers for tests |
//! | [`crash`] | kills the binary at every crash point, on every store |
//! | [`disk`] | the long search with failing disks and power loss |
//! | [`kill`] | kills the shipped binary, and the server under it, repeatedly |
//! | [`fuzz`] | runs every target of `fuzz/` |
//! | [`hostile`] | third-party tools and clients against the served binary |
//! | [`python`] | builds the Python package and runs its checks |
//! | [`planted`] | bugs that the simulation must find, planted in a copy of the tree |
//! | [`mutants`] | the share of code changes that the tests notice |
//! | [`generate`] | generated files |
//! | [`ui`] | the dashboard: build, check, browser tests, screenshots |
//! | [`record`] | the recorded counts of long searches |
//! | [`ratchet`] | exceptions that only shrink |
//! | [`cargo`] | runs cargo |
//! | [`finding`], [`tree`], [`source`], [`test_names`] | parts of the checks |

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a terminal tool")]

mod cargo;
mod crash;
mod deny;
mod disk;
mod finding;
mod fuzz;
mod generate;
mod hostile;
mod kill;
mod mutants;
mod nth;
mod planted;
mod python;
mod ratchet;
mod record;
mod servers;
mod source;
mod steps;
mod test_names;
mod tidy;
mod tree;
mod ui;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask check [-p CRATE]   the fast loop, without servers: fmt, tidy, clippy, unit tests, memory and SQLite suites
cargo xtask test [SCOPE]       everything that must pass; --quick skips deny, doc, clients and ui, --all adds
cargo xtask tidy               checks that no compiler makes; prints findings with their fix
cargo xtask tidy --words [PATHS]  list banned words; --homonyms lists type names with several types, --modules cycles
cargo xtask tidy --ratchet     measure the exceptions again, refuse to raise one; --ratchet --raise raises them
cargo xtask deny               check licences, bans and sources of dependencies against deny.toml
cargo xtask generate [--check] write the generated files, or fail if one is stale
cargo xtask sim [ARGS]         simulate: --seeds N, --seed S [--trace], --minutes M
cargo xtask record KIND -- COMMAND  run a long search and add its counts to docs/record.md
cargo xtask crash              kill the binary at every crash point, on every store
cargo xtask disk [ARGS]        fail every disk call, cut the power at every point: --seeds N, --from S, --step N
cargo xtask kill ARGS          kill -9 the binary: --store sqlite|postgres|s3 --kills N [--seed S] [--workers W]
                               [--server-kills N]
cargo xtask models             search the models' large scopes: minutes, and gigabytes of memory
cargo xtask nth [TESTS]        fail every store call of every story once in every way: nth_real::sqlite, nth_requests::saga
cargo xtask planted [--bug NAME] [--search]  plant bugs in a copy of the tree: the simulation must find each
cargo xtask planted --edit PATHS  plant other bugs: write planted files to edit; --refresh makes the patches from them
cargo xtask mutants PACKAGE    change the code in one place at a time and run the tests: --file GLOB, --shard K/N,
                               --tests PACKAGES, --filter EXPRESSION
cargo xtask fuzz [ARGS]        fuzz every parser: --seconds N each (30), --core
cargo xtask hostile [ARGS]     lint, generated clients, schemathesis, idle and slow clients, memory: [PARTS] --seed S,
                               --examples N of schemathesis for each operation (40); --quick: the part of `test`
cargo xtask python [ARGS]      build the Python package and run its checks; --long kills 200 workers, --wheel makes the
                               optimised wheel that carries the command
cargo xtask ui [PART]          build the dashboard; --check compares the built files with their sources, --test tests
                               every page in a browser, --figures measures it with the release build
cargo xtask shots              screenshots of every page of the dashboard, in both themes
cargo xtask servers            private servers of all kinds for manual tests, until Enter or Ctrl-C
cargo xtask postgres           a private Postgres and a pooler only
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy", rest @ ..] => tidy::run(rest),
        ["check", rest @ ..] => steps::check(rest),
        ["test", "--all"] => steps::run(steps::Scope::All),
        ["test"] => steps::run(steps::Scope::Full),
        ["test", "--quick"] => steps::run(steps::Scope::Quick),
        ["deny"] => tree::root().and_then(|root| deny::run(&root)),
        ["generate"] => generate::run(generate::Mode::Write),
        ["generate", "--check"] => generate::run(generate::Mode::Check),
        ["sim", rest @ ..] => steps::sim(rest),
        ["record", kind, "--", command @ ..] => {
            record::run(kind, command).and_then(|()| generate::run(generate::Mode::Write))
        }
        ["crash"] => crash::run(),
        ["disk", rest @ ..] => disk::run(rest),
        ["kill", rest @ ..] => kill::run(rest),
        ["models"] => steps::models(),
        ["nth"] => nth::run("nth"),
        ["nth", tests] => nth::run(tests),
        ["planted", rest @ ..] => planted::run(rest),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["hostile", "--quick"] => hostile::quick(),
        ["hostile", rest @ ..] => hostile::run(rest),
        ["python", rest @ ..] => python::run(rest),
        ["ui"] => ui::run(ui::DashboardTask::Build),
        ["ui", "--check"] => ui::run(ui::DashboardTask::Check),
        ["ui", "--test"] => ui::run(ui::DashboardTask::Test),
        ["ui", "--figures"] => ui::run(ui::DashboardTask::Figures),
        ["shots"] => ui::run(ui::DashboardTask::Shots),
        ["servers"] => servers::run(servers::Which::All),
        ["postgres"] => servers::run(servers::Which::Databases),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
