//! The allow-lists: which files may make a call, which crates and modules may use which. Extend them here.
//!
//! A place is a file, or a directory if it ends in `/`. Test code is not checked.

/// Calls that only some files may make.
pub(super) struct Home {
    /// As written in code.
    pub(super) calls: &'static [&'static str],
    /// The files that may make them.
    pub(super) places: &'static [&'static str],
    /// The advice for other files.
    pub(super) fix: &'static str,
}

/// Every restricted call.
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

/// The layers, lowest first. A crate uses crates of lower layers only, so crates of one layer do not use each other:
/// `engine` names no backend. A name that ends in `*` is a prefix.
pub(super) const LAYERS: &[&[&str]] = &[
    &["goldseam-core"],
    &["goldseam-store"],
    &["goldseam-conformance"],
    &["goldseam-engine", "goldseam-store-*"],
    &["goldseam-admin"],
    &["goldseam-suite"],
    &["goldseam"],
    &["goldseam-api"],
    &["goldseam-server"],
    &["goldseam-cli", "goldseam-embed", "goldseam-sim", "goldseam-bench", "goldseam-mistakes"],
    &["goldseam-python"],
    &["goldseam-fuzz"],
    &["goldseam-fuzz-run"],
];

/// The layers inside a crate, lowest first, as top-level modules. A module imports modules of its own and lower layers;
/// modules without a layer are not checked. The check begins once all modules of the table exist.
pub(super) struct LayersInside {
    /// The folder of the crate.
    pub(super) folder: &'static str,
    /// The modules of each layer.
    pub(super) layers: &'static [&'static [&'static str]],
}

/// Every crate with layers inside.
pub(super) const LAYERS_INSIDE: &[LayersInside] = &[LayersInside {
    folder: "crates/engine",
    layers: &[
        &["ledger"],
        &["run"],
        &["heal"],
        &["node"],
        &["client"],
        &["preflight", "remote"],
        &["engine"],
    ],
}];

/// Crates whose types `goldseam` re-exports. Examples in their documentation use `goldseam`.
pub(super) const DOCUMENTED: &[&str] = &["goldseam-core", "goldseam-engine"];

/// Crates with servers to test against, real and fake. They use no crate of the workspace.
pub(super) const TESTBEDS: &[&str] = &["goldseam-testbed", "goldseam-fake-s3"];

/// Developer programs, which may use a testbed outside tests.
pub(super) const DEVELOPERS: &[&str] = &["goldseam-bench", "goldseam-sim", "xtask"];

/// Dependencies that `goldseam-core` must not have, not even in its tests: async, I/O, clocks, randomness.
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
