//! Schemathesis sends requests that the served description allows and requests that it forbids, on each store. No
//! response is a server error or missing from the description.

use super::Order;
use super::report::Report;
use super::server::{Ground, Store};
use super::tools;

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,negative_data_rejection";
/// The responses of the first two do not end; the last would revoke the key of all requests.
const LEFT_OUT: [&str; 3] = ["follow_everything", "follow_run", "revoke_key"];

pub(super) fn run(ground: &Ground, order: &Order, report: &mut Report) -> Result<(), String> {
    for store in [Store::Sqlite, Store::Postgres] {
        on(ground, order, report, store)?;
    }
    Ok(())
}

fn on(ground: &Ground, order: &Order, report: &mut Report, store: Store) -> Result<(), String> {
    let folder = format!("schemas-{}", store.name());
    let served = ground.serve(store, &folder, &[])?;
    let mut command = ground.tools.python_program("schemathesis");
    let seed = order.seed.to_string();
    let examples = order.examples.to_string();
    command.arg("--config-file").arg(ground.scripts.join("schemathesis.toml"));
    command.args(["run", &format!("{}/v1/openapi.json", served.url), "--checks", CHECKS]);
    command.args(["--header", &format!("authorization: Bearer {}", served.key)]);
    command.args(["--phases", "examples,coverage,fuzzing", "--max-examples", &examples, "--seed", &seed]);
    command.args(["--generation-database", "none", "--no-shrink", "--continue-on-failure"]);
    command.args(["--warnings", "off", "--no-color", "--max-failures", "50"]);
    command.args(LEFT_OUT.iter().flat_map(|name| ["--exclude-operation-id", name]));
    command.env("SCHEMATHESIS_HOOKS", "hooks").current_dir(ground.scratch.join(&folder));
    let outcome = tools::run(tools::with_modules_of(&mut command, &ground.scripts));
    let said = outcome.as_ref().unwrap_or_else(|said| said);
    let requests = requests(said);
    report.figure(format!("requests_{}", store.name()), requests);
    let figure = format!("{requests} requests, no server error, none undescribed");
    // If a request had revoked the key, all later responses would be 401 and prove nothing.
    served.get("/v1/runs").map_err(|problem| format!("the key no longer works: {problem}"))?;
    report.outcome_of(&format!("schemathesis on {}", store.name()), &figure, outcome);
    Ok(())
}

/// The number of requests in the summary: `5136 generated, …`.
fn requests(said: &str) -> u64 {
    let line = said.lines().find(|line| line.contains(" generated"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_number_of_requests_from_the_summary() {
        assert_eq!(requests("Test cases:\n  5136 generated, 6 found\n"), 5136);
        assert_eq!(requests("nothing"), 0);
    }
}
