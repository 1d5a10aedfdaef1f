//! Linters report no error and no warning for the served description.

use std::fs;

use super::Order;
use super::report::Report;
use super::server::{Ground, Store};
use super::tools;

pub(super) fn run(ground: &Ground, _: &Order, report: &mut Report) -> Result<(), String> {
    let served = ground.serve(Store::Sqlite, "lint", &[])?;
    let file = ground.scratch.join("openapi.json");
    fs::write(&file, served.get("/v1/openapi.json")?)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let mut redocly = ground.tools.node_program("redocly");
    redocly.args(["lint", "--format=json", "--extends=recommended"]).arg(&file);
    redocly.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
    let outcome = tools::run(&mut redocly).and_then(|said| {
        match said.contains("\"errors\": 0") && said.contains("\"warnings\": 0") {
            true => Ok(said),
            false => Err(said),
        }
    });
    report.outcome_of("redocly lint", "0 errors, 0 warnings", outcome);
    let mut spectral = ground.tools.node_program("spectral");
    spectral.args(["lint", "--fail-severity=hint", "--ruleset"]).arg(ground.scripts.join("spectral.yaml"));
    report.outcome_of("spectral lint", "0 findings", tools::run(spectral.arg(&file)));
    let mut validator = ground.tools.python_program("openapi-spec-validator");
    report.outcome_of("openapi-spec-validator", "valid", tools::run(validator.arg(&file)));
    Ok(())
}
