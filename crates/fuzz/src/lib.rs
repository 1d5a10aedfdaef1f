//! Everything that reads what somebody else wrote, fed with anything at all.
//!
//! A target takes bytes and panics if something is wrong. `fuzz/` feeds them by libFuzzer (`cargo xtask fuzz`), a test of
//! this crate feeds them the kept corpus and random bytes in every build.
//!
//! Workflows and their steps are defined in code, so there is no format of definitions to feed. What code declares is
//! stored, and read again, as `ids`, `paths`, and the retry policies of `policy`.

mod core;
#[cfg(feature = "outside")]
mod outside;

/// A function that panics if these bytes are not dealt with.
pub type Target = fn(&[u8]);

/// Every target by name; its corpus is in `fuzz/corpus/NAME`.
pub const TARGETS: &[(&str, Target)] = &[
    ("ids", core::ids),
    ("paths", core::paths),
    ("event", core::event),
    ("history", core::history),
    ("answers", core::answers),
    ("policy", core::policy),
    ("tokens", core::tokens),
    ("secrets", core::secrets),
    ("foreign", core::foreign),
    #[cfg(feature = "outside")]
    ("urls", outside::urls),
    #[cfg(feature = "outside")]
    ("arguments", outside::arguments),
    #[cfg(feature = "outside")]
    ("wire", outside::wire),
    #[cfg(feature = "outside")]
    ("config", outside::config),
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// Feeds the target of this name; one that there is not takes nothing.
pub fn feed(name: &str, data: &[u8]) {
    if let Some(target) = target(name) {
        target(data);
    }
}
