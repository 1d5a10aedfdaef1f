//! `goldseam version` and `goldseam exit-codes`.

use serde_json::json;

use crate::app::App;
use crate::error::Exit;
use crate::out;
use crate::table::TextTable;

const CODES: &[(Exit, &str)] = &[
    (Exit::Ok, "success, also for an empty list"),
    (Exit::Error, "failure; doctor, drill, store check and store move: something is wrong"),
    (Exit::Usage, "invalid option, id, JSON or URL"),
    (Exit::NotFound, "the run, step, question, branch, task or code does not exist"),
    (Exit::NotAuthorised, "not authenticated, or not allowed"),
    (Exit::Ended, "the run that the command waited for failed or was cancelled"),
    (Exit::Conflict, "conflict: ended run, different input, lost task or lock, store in use"),
    (Exit::Unreachable, "the store or server is not reachable or not usable, or a copy closed the store"),
    (Exit::TimedOut, "the wait timed out; the run is still active"),
    (Exit::NeedsHelp, "the run needs an operator: recover or resume could not heal it, or it parked again"),
    (
        Exit::Damaged,
        "the log of the run is damaged; show, history, branches and diff showed the readable part",
    ),
    (
        Exit::Unchanged,
        "recover: nothing is wrong with the run, or it moved on meanwhile; nothing was changed",
    ),
    (Exit::WouldPark, "preflight, migrate: a run would park or fail"),
    (Exit::Untried, "preflight: no run would park or fail, but some could not be tried"),
    (Exit::Interrupted, "Ctrl-C"),
    (Exit::Terminated, "SIGTERM"),
];

pub(crate) fn version(app: &App) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    match app.wants_json() {
        true => out::json(&json!({ "name": "goldseam", "version": version })),
        false => out::line(format!("goldseam {version}")),
    }
    Exit::Ok
}

pub(crate) fn exit_codes(app: &App) -> Exit {
    if app.wants_json() {
        let item = |(exit, meaning): &(Exit, &str)| json!({ "code": *exit as u8, "meaning": meaning });
        out::json(&json!({ "items": CODES.iter().map(item).collect::<Vec<_>>() }));
        return Exit::Ok;
    }
    let mut table = TextTable::new(&["CODE", "MEANING"]);
    for (exit, meaning) in CODES {
        table.row(vec![(*exit as u8).to_string(), (*meaning).to_owned()]);
    }
    app.table(&table);
    Exit::Ok
}
