//! The project's own tooling: `cargo xtask help` lists it. Depends on `std` and
//! on the servers for tests only.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`tidy`] | the checks that no compiler makes |
//! | [`steps`] | `test`: every check of the project, in order, as one command |
//! | [`servers`] | the servers that tests work with |
//! | [`crash`] | every point at which the binary could die, on every store |
//! | [`disk`] | the long search for what a failing disk could cost |
//! | [`kill`] | the shipped binary, and the server under it, killed again and again |
//! | [`fuzz`] | every target of `fuzz/`, for a while each |
//! | [`hostile`] | the served binary under tools and clients of others |
//! | [`mutants`] | how often the tests notice a change of the code |
//! | [`generate`] | the files that are made from other files |
//! | [`record`] | what long searches counted, kept |
//! | [`ratchet`] | exceptions that may only shrink |
//! | [`tree`], [`source`] | the repository's files; Rust code without its comments and strings |

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a terminal tool")]

mod crash;
mod disk;
mod fuzz;
mod generate;
mod hostile;
mod kill;
mod mutants;
mod nth;
mod ratchet;
mod record;
mod servers;
mod source;
mod steps;
mod tidy;
mod tree;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask tidy               check what no compiler checks
cargo xtask test [--quick]     everything that must pass; --quick leaves out deny, doc and clients
cargo xtask generate [--check] write the generated files, or fail if one is stale
cargo xtask sim [ARGS]         simulate: --seeds N, --seed S [--trace], --minutes M
cargo xtask record KIND -- COMMAND  run a long search and keep what it counted in docs/record.md
cargo xtask crash              let the binary die at every point of the catalogue, on every store
cargo xtask disk [ARGS]        fail every call to the disk, cut the power everywhere: --seeds N, --from S, --step N
cargo xtask kill ARGS          kill -9 the binary: --store sqlite|postgres|s3 --kills N [--seed S] [--workers W]
                               [--server-kills N]
cargo xtask models             search the models' large scopes: minutes, and gigabytes of memory
cargo xtask nth [TESTS]        let every call of every story fail once in every way: nth_real::sqlite, nth_requests::saga
cargo xtask mutants PACKAGE    change the code in one place at a time: the tests must notice: --file GLOB, --shard K/N,
                               --tests PACKAGES, --filter EXPRESSION
cargo xtask fuzz [ARGS]        feed everything that reads with anything at all: --seconds N each (30), --core
cargo xtask hostile [ARGS]     lint, generated clients, schemathesis, idle and slow clients, memory: [PARTS] --seed S,
                               --examples N of schemathesis for each operation (40)
cargo xtask servers            private servers of all kinds for tests by hand, until Enter or Ctrl-C
cargo xtask postgres           a private Postgres and a pooler only
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["test"] => steps::run(steps::Scope::Full),
        ["test", "--quick"] => steps::run(steps::Scope::Quick),
        ["generate"] => generate::run(generate::Mode::Write),
        ["generate", "--check"] => generate::run(generate::Mode::Check),
        ["sim", rest @ ..] => steps::sim(rest),
        ["record", kind, "--", command @ ..] => record::run(kind, command),
        ["crash"] => crash::run(),
        ["disk", rest @ ..] => disk::run(rest),
        ["kill", rest @ ..] => kill::run(rest),
        ["models"] => steps::models(),
        ["nth"] => nth::run("nth"),
        ["nth", tests] => nth::run(tests),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["hostile", rest @ ..] => hostile::run(rest),
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
