//! Generated clients start, signal and finish a run, as caller and as worker.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::Order;
use super::report::Report;
use super::server::{Ground, Served, Store};
use super::tools::{run as tool, with_modules_of};

pub(super) fn run(ground: &Ground, _: &Order, report: &mut Report) -> Result<(), String> {
    let served = ground.serve(Store::Sqlite, "clients", &[])?;
    let folder = ground.folder("generated")?;
    let with_path = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::write(folder.join("openapi.json"), served.get("/v1/openapi.json")?).map_err(with_path)?;
    let finished = "generated, and a run started, signalled and finished";
    report.outcome_of("openapi-python-client", finished, python(ground, &served, &folder));
    symlink(ground.tools.node_modules(), folder.join("node_modules")).map_err(with_path)?;
    for file in ["tsconfig.json", "sdk.ts", "typed.ts"] {
        fs::copy(ground.scripts.join(file), folder.join(file)).map_err(with_path)?;
    }
    let compiled = compiled(ground, &folder);
    for (tool, script) in [("openapi-typescript", "typed"), ("@hey-api/openapi-ts", "sdk")] {
        let outcome = compiled.clone().and_then(|_| node(&served, &folder, script));
        report.outcome_of(tool, finished, outcome);
    }
    Ok(())
}

fn python(ground: &Ground, served: &Served, folder: &Path) -> Result<String, String> {
    let mut generator = ground.tools.python_program("openapi-python-client");
    generator.args([
        "generate",
        "--meta",
        "none",
        "--path",
        "openapi.json",
        "--output-path",
        "goldseam_client",
    ]);
    let said = tool(generator.current_dir(folder))?;
    if said.to_lowercase().contains("warning") {
        return Err(said);
    }
    let mut script = ground.tools.script(&ground.scripts.join("client.py"));
    tool(with_modules_of(&mut script, folder).envs(served.variables()))
}

/// Generates the types and the SDK, and compiles both with the scripts that use them.
fn compiled(ground: &Ground, folder: &Path) -> Result<String, String> {
    let mut types = ground.tools.node_program("openapi-typescript");
    tool(types.args(["openapi.json", "-o", "types.d.ts"]).current_dir(folder))?;
    let mut sdk = ground.tools.node_program("openapi-ts");
    sdk.args(["-i", "openapi.json", "-o", "sdk", "-c", "@hey-api/client-fetch", "--no-log-file"]);
    tool(sdk.current_dir(folder))?;
    tool(ground.tools.node_program("tsc").args(["-p", "tsconfig.json"]).current_dir(folder))
}

fn node(served: &Served, folder: &Path, script: &str) -> Result<String, String> {
    let script = folder.join("built").join(format!("{script}.js"));
    tool(Command::new("node").arg(script).envs(served.variables()))
}
