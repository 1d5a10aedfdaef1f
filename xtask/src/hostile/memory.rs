//! The server's memory before, during and after floods of bodies and of followers that do not read.

use super::Order;
use super::report::Report;
use super::server::{Ground, Store};
use super::tools::{self, Figures};

/// The most memory that the server may keep after a flood.
const KEPT_MIB_MAX: f64 = 64.0;

const FLOODS: [(&str, &str); 3] = [
    ("probe_bodies", "1,500 bodies of 2 MiB to /healthz"),
    ("bodies", "1,500 bodies of 2 MiB with a key"),
    ("followers", "2,000 followers of a log of 5 MB that do not read"),
];

pub(super) fn run(ground: &Ground, _: &Order, report: &mut Report) -> Result<(), String> {
    let served = ground.serve(Store::Sqlite, "memory", &[])?;
    let mut script = ground.tools.script(&ground.scripts.join("memory.py"));
    let figures = Figures::of(&tools::run(script.envs(served.variables()))?);
    let before = figures.get("before_mib")?;
    for (name, what) in FLOODS {
        let peak = figures.get(&format!("{name}_peak_mib"))?;
        let after = figures.get(&format!("{name}_after_mib"))?;
        let figure =
            format!("before {before} MiB, under {peak} MiB, after {after} MiB (+{KEPT_MIB_MAX} at most)");
        report.row(what, figure, after <= before + KEPT_MIB_MAX);
        report.figure(format!("{name}_peak_mib"), peak.round() as u64);
        report.figure(format!("{name}_kept_mib"), (after - before).max(0.0).round() as u64);
    }
    Ok(())
}
