//! The allow-lists: where a call may stand, which crate may use which. Extend them here.
//!
//! A place is a file, or a directory if it ends in `/`. Test code is free of all of them.

/// Calls that have one home.
pub(super) struct Home {
    /// As written in code.
    pub(super) calls: &'static [&'static str],
    /// Where they may stand.
    pub(super) places: &'static [&'static str],
    /// What to do elsewhere.
    pub(super) fix: &'static str,
}

/// Every call that has a home.
pub(super) const HOMES: &[Home] = &[
    Home {
        calls: &["println!", "eprintln!", "print!", "eprint!"],
        places: &[
            "crates/cli/src/out.rs",
            "crates/api/build.rs",
            "crates/store-sqlite/examples/",
            "examples/",
            "crates/bench/",
            "crates/sim/",
            "xtask/",
        ],
        fix: "show a value through the CLI's out.rs, or use `tracing`",
    },
    Home {
        calls: &["SystemTime::now", "Instant::now"],
        places: &[
            "crates/engine/src/ledger/clock.rs",
            "crates/engine/src/testing/clock.rs",
            "crates/store/src/clock.rs",
            "crates/store-object/src/clock.rs",
            "crates/store-sqlite/src/clock.rs",
            "crates/store-sqlite/examples/",
            "crates/cli/src/commands/demo.rs",
            "crates/cli/src/commands/demo/",
            "crates/fake-s3/src/clock.rs",
            "crates/bench/",
            "crates/sim/",
            "xtask/",
        ],
        fix: "time is an argument: ask the `Clock`",
    },
    Home {
        calls: &[
            "tokio::spawn",
            "task::spawn",
            "task::spawn_blocking",
            "task::spawn_local",
            "thread::Builder",
            "thread::spawn",
        ],
        places: &[
            "crates/engine/src/ledger/spawn.rs",
            "crates/fake-s3/src/fake.rs",
            "crates/fake-s3/src/serve.rs",
            "crates/goldseam/src/testing/stage.rs",
            "crates/server/src/spawn.rs",
            "crates/store/src/faulty/",
            "crates/store-object/src/http.rs",
            "crates/store-postgres/src/connection.rs",
            "crates/store-postgres/src/liveness.rs",
            "crates/store-postgres/src/testing.rs",
            "crates/store-sqlite/examples/",
            "crates/store-sqlite/src/notice.rs",
            "crates/store-sqlite/src/read.rs",
            "crates/store-sqlite/src/watch.rs",
            "crates/store-sqlite/src/writer.rs",
            "crates/bench/",
            "crates/sim/",
            "xtask/",
        ],
        fix: "tasks and threads are owned: use the engine's spawn.rs",
    },
    Home {
        calls: &["rand::"],
        places: &["crates/engine/src/ledger/entropy.rs", "crates/cli/", "crates/bench/", "crates/sim/"],
        fix: "randomness is an argument: ask `Entropy` (engine/src/ledger/entropy.rs)",
    },
];

/// The layers, lowest first. A crate may use crates of lower layers only, so crates of one layer
/// know nothing of one another: `engine` names no backend. A name that ends in `*` is a prefix.
pub(super) const LAYERS: &[&[&str]] = &[
    &["goldseam-core"],
    &["goldseam-store"],
    &["goldseam-engine", "goldseam-store-*"],
    &["goldseam-admin"],
    &["goldseam-suite"],
    &["goldseam"],
    &["goldseam-api"],
    &["goldseam-server"],
    &["goldseam-cli", "goldseam-sim", "goldseam-bench"],
    &["goldseam-fuzz"],
    &["goldseam-fuzz-run"],
];

/// Crates with servers to test against, real and fake. They use no crate of ours.
pub(super) const TESTBEDS: &[&str] = &["goldseam-testbed", "goldseam-fake-s3"];

/// Programs of developers, which may use a testbed for more than their tests.
pub(super) const DEVELOPERS: &[&str] = &["goldseam-bench", "goldseam-sim", "xtask"];

/// What the pure crate may not depend on, not even in its tests: async, I/O, clocks, randomness.
pub(super) const CORE_BANNED: &[&str] = &[
    "async-*",
    "chrono",
    "futures",
    "futures-*",
    "getrandom",
    "goldseam-fake-s3",
    "goldseam-testbed",
    "jiff",
    "rand",
    "rand_*",
    "reqwest",
    "rusqlite",
    "smol",
    "tokio",
    "tokio-*",
];

/// Whether `path` is one of `places`.
pub(super) fn is_home(places: &[&str], path: &str) -> bool {
    places.iter().any(|place| if place.ends_with('/') { path.starts_with(place) } else { path == *place })
}

/// Whether `name` is one of `patterns`; a pattern that ends in `*` is a prefix.
pub(super) fn matches(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *pattern,
    })
}
