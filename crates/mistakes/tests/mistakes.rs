//! Compiles programs with one mistake each, and compares what the compiler says.
//!
//! After a change of a bound or of its text, `TRYBUILD=overwrite cargo test -p goldseam-mistakes` writes the messages
//! again; read them before you commit them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The compiler that wrote the expected messages. Another one words its own part differently.
const COMPILER: &str = "rustc 1.95.";

/// What each message must say: the words of `engine/src/run/context/bounds.rs`, or the compiler's, which the guides
/// explain.
const SAID: &[(&str, &str)] = &[
    ("compensation_borrows", "closure may outlive the current function"),
    ("forgotten_await", "context::Step<'_, String>`"),
    ("input_without_derive", "`Order` cannot be read from the log of a run"),
    ("output_without_derive", "`Receipt` cannot be written to the log of a run"),
    ("question_mark_on_no_error", "`Declined` needs to implement `std::error::Error`"),
    ("signal_without_derive", "`Paid` cannot be read from the log of a run"),
    ("start_with_wrong_input", "expected `&String`, found `&u32`"),
    ("step_has_another_error", "let `?` convert it: `|| async { Ok(charge(&order).await?) }`"),
    ("step_is_not_async", "the body must return a future of a `goldseam::Result`"),
    ("step_moves_a_value", "a captured variable in an `FnMut` closure"),
    ("step_result_without_derive", "`Hold` cannot be the result of a step"),
    ("step_returns_no_result", "the body must return a future of a `goldseam::Result`"),
    ("step_without_closure", "wrap the `impl Future<Output = Result<String, goldseam::Error>>` in a closure"),
    ("unused_step", "a step does nothing until it is awaited: add `.await?`"),
    ("workflow_borrows_its_input", "is not general enough"),
    ("workflow_is_not_async", "a workflow function must return a future of a `Result`"),
    ("workflow_is_not_send", "future is not `Send` as this value is used across an await"),
    ("workflow_name_with_a_space", "only letters, digits, `.`, `_` and `-` are allowed"),
    ("workflow_without_context", "Fn(Context, Input) -> Fut"),
];

#[test]
fn every_mistake_is_explained_as_expected() {
    let compiler = Command::new("rustc").arg("--version").output().unwrap();
    let compiler = String::from_utf8_lossy(&compiler.stdout);
    if !compiler.starts_with(COMPILER) {
        return println!(
            "not compared: the expected messages are those of {COMPILER}, and this is {compiler}"
        );
    }
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}

#[test]
fn every_explanation_says_what_to_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut said: BTreeMap<&str, &str> = SAID.iter().copied().collect();
    for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            let wanted = said.remove(&*name).unwrap_or_else(|| panic!("{name} is missing in SAID"));
            let message = std::fs::read_to_string(file.with_extension("stderr")).unwrap();
            assert!(message.contains(wanted), "{name}: {wanted}\n{message}");
        }
    }
    assert!(said.is_empty(), "without a case: {said:?}");
}
