//! Fuzz targets for all parsers of external input.
//!
//! A target takes bytes and panics if it finds a bug. `fuzz/` runs the targets with libFuzzer (`cargo xtask fuzz`); a test
//! of this crate runs them in every build with the stored corpus and random bytes.
//!
//! Workflows are defined in code, so no definition format exists. The targets `ids`, `paths` and `policy` cover the parts
//! of definitions that are stored.

mod core;
#[cfg(feature = "outside")]
mod outside;

/// A function that panics if these bytes reveal a bug.
pub type FuzzTarget = fn(&[u8]);

/// All targets by name. The corpus of a target is in `fuzz/corpus/NAME`.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("ids", core::ids),
    ("paths", core::paths),
    ("traces", core::traces),
    ("event", core::event),
    ("history", core::history),
    ("answers", core::answers),
    ("policy", core::policy),
    ("tokens", core::tokens),
    ("secrets", core::secrets),
    ("foreign", core::foreign),
    ("conditions", core::conditions),
    #[cfg(feature = "outside")]
    ("urls", outside::urls),
    #[cfg(feature = "outside")]
    ("arguments", outside::arguments),
    #[cfg(feature = "outside")]
    ("wire", outside::wire),
    #[cfg(feature = "outside")]
    ("config", outside::config),
];

/// Returns the target of this name.
pub fn target(name: &str) -> Option<FuzzTarget> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// Runs the target of this name, if it exists.
pub fn feed(name: &str, data: &[u8]) {
    if let Some(target) = target(name) {
        target(data);
    }
}
