//! `goldseam version` and `goldseam exit-codes`.

use serde_json::json;

use crate::app::App;
use crate::fail::Exit;
use crate::out;
use crate::table::Table;

/// What each exit code means.
const CODES: &[(Exit, &str)] = &[
    (Exit::Ok, "done; an empty list is done too"),
    (Exit::Error, "it did not work; doctor, drill, store check and store copy: something is wrong"),
    (Exit::Usage, "it was asked for in a way that makes no sense: option, id, JSON or URL"),
    (Exit::NotFound, "there is no such run, step, question, branch, task or code"),
    (Exit::NotAuthorised, "you may not do that"),
    (Exit::Ended, "the run that was waited for failed or was cancelled"),
    (
        Exit::Conflict,
        "somebody was faster, or it is over: finished run, other input, lost task or lock, store in use",
    ),
    (Exit::Unreachable, "the store cannot be reached or used, or is closed by a copy"),
    (Exit::TimedOut, "the wait timed out; the run goes on"),
    (Exit::NeedsHelp, "the run needs a person: recover or resume could not heal it, or it is parked again"),
    (
        Exit::Damaged,
        "the log of the run is damaged; show, history, branches and diff showed what can be read",
    ),
    (
        Exit::Unchanged,
        "recover: nothing is wrong with the run, or it moved on meanwhile; nothing was changed",
    ),
    (Exit::WouldPark, "preflight, migrate: a run would park or fail"),
    (Exit::Untried, "preflight: no run would park or fail, but some could not be tried"),
    (Exit::Interrupted, "Ctrl-C"),
    (Exit::Terminated, "it was asked to end (SIGTERM)"),
];

/// Shows the version.
pub(crate) fn version(app: &App) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    match app.wants_json() {
        true => out::json(&json!({ "name": "goldseam", "version": version })),
        false => out::line(format!("goldseam {version}")),
    }
    Exit::Ok
}

/// Shows the exit codes.
pub(crate) fn exit_codes(app: &App) -> Exit {
    if app.wants_json() {
        let item = |(exit, meaning): &(Exit, &str)| json!({ "code": *exit as u8, "meaning": meaning });
        out::json(&json!({ "items": CODES.iter().map(item).collect::<Vec<_>>() }));
        return Exit::Ok;
    }
    let mut table = Table::new(&["CODE", "MEANING"]);
    for (exit, meaning) in CODES {
        table.row(vec![(*exit as u8).to_string(), (*meaning).to_owned()]);
    }
    app.table(&table);
    Exit::Ok
}
