//! Thousands of idle connections, long polls and clients that send a byte per second do not slow down other clients.

use std::net::TcpListener;

use super::Order;
use super::report::Report;
use super::server::{Ground, Store};
use super::tools::{self, Figures};

/// The setting for this many clients: 4,000 idle ones and 2,000 long polls at once. The bounds per address and per key
/// keep their defaults, so the load comes from many addresses.
const SETTINGS: [&str; 1] = ["connections_max=8192"];

/// Measurement, unit, maximum, and description.
const BOUNDS: [(&str, &str, f64, &str); 5] = [
    ("healthz_max_ms", "ms", 100.0, "slowest /healthz"),
    ("listener_max_ms", "ms", 100.0, "slowest /healthz of health_listen"),
    ("reads_p99_ms", "ms", 50.0, "reads of another namespace, p99"),
    // The server allows ten seconds for headers and thirty for a body; the rest is slack for a busy machine.
    ("slow_headers_s", "s", 12.0, "slow headers end after"),
    ("slow_bodies_s", "s", 33.0, "slow bodies end after"),
];

pub(super) fn run(ground: &Ground, _: &Order, report: &mut Report) -> Result<(), String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.map_err(|error| format!("cannot bind a loopback port: {error}"))?.port();
    let health = format!("health_listen=127.0.0.1:{port}");
    println!("the server's settings: {} {health}", SETTINGS.join(" "));
    let served = ground.serve(Store::Sqlite, "crowd", &[SETTINGS[0], &health])?;
    let mut script = ground.tools.script(&ground.scripts.join("crowd.py"));
    script.envs(served.variables()).env("GOLDSEAM_HEALTH_PORT", port.to_string());
    let figures = Figures::of(&tools::run(&mut script)?);
    let polls = figures.get("polls")?;
    report.row("long polls of one key still waiting", format!("{polls} of 2000"), polls >= 2_000.0);
    for (name, unit, most, what) in BOUNDS {
        let value = figures.get(name)?;
        report.row(what, format!("{value} {unit}, at most {most} {unit}"), value <= most);
        report.figure(name, value.round() as u64);
    }
    Ok(())
}
