//! Runs every command of the guides and compares its output.

use goldseam_store_object::testing::fresh_prefix;
use goldseam_store_postgres::testing::Schema;

use crate::faulty::faulty_store_as;
use crate::support::{Place, prepared};

const DISK: &str = include_str!("../../../../docs/guides/when-the-disk-fails.md");

#[test]
fn guide_when_the_disk_fails_matches() {
    assert!(walk(&prepared(), DISK) >= 5);
}

const STALLS: &str = include_str!("../../../../docs/guides/when-something-stalls.md");

const MANY: &str = include_str!("../../../../docs/guides/from-one-machine-to-many.md");

#[test]
fn guide_from_one_machine_to_many_matches() {
    let schema = Schema::fresh();
    let place = Place::with_store(schema.url());
    assert!(walk(&place, MANY) >= 5);
}

const BUCKET: &str = include_str!("../../../../docs/guides/nothing-but-s3.md");

/// The store of the guide, replaced by a fresh prefix on the shared SeaweedFS.
const DEMO: &str = "s3://my-bucket/demo?endpoint=http://127.0.0.1:8333&region=us-east-1&requests=free";

#[test]
fn guide_nothing_but_s3_matches() {
    let bucket = goldseam_testbed::seaweedfs::shared().unwrap();
    let fresh = || format!("{}&requests=free", bucket.url(&fresh_prefix()));
    let place = Place::with_store(fresh());
    assert!(BUCKET.contains(DEMO));
    let policies: Vec<&str> =
        BUCKET.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(policies.len(), 2);
    for policy in policies {
        serde_json::from_str::<serde_json::Value>(policy).unwrap();
    }
    assert!(walk(&place, &BUCKET.replace(DEMO, &fresh())) >= 10);
}

const KEEPING: &str = include_str!("../../../../docs/guides/keeping-and-pruning.md");

#[test]
fn guide_keeping_and_pruning_matches() {
    assert!(walk(&prepared(), KEEPING) >= 6);
}

const MOVING: &str = include_str!("../../../../docs/guides/moving-to-another-store.md");

#[test]
fn guide_moving_to_another_store_matches() {
    assert!(walk(&prepared(), MOVING) >= 7);
}

const BACKING_UP: &str = include_str!("../../../../docs/guides/backing-up.md");

#[test]
fn guide_backing_up_matches() {
    assert_eq!(walk(&prepared(), BACKING_UP), 7);
}

const CONFIGURING: &str = include_str!("../../../../docs/guides/configuring.md");

#[test]
fn guide_configuring_matches() {
    assert_eq!(walk(&Place::new(), CONFIGURING), 3);
}

#[test]
fn guide_when_something_stalls_matches() {
    let place = faulty_store_as(["ord-12", "ord-15", "ord-19", "ord-23"]);
    assert!(walk(&place, STALLS) >= 20);
}

const MANY_RUNS: &str = include_str!("../../../../docs/guides/acting-on-many.md");

#[test]
fn guide_acting_on_many_matches() {
    assert_eq!(walk(&prepared(), MANY_RUNS), 6);
}

const SERVING: &str = include_str!("../../../../docs/guides/serving-a-store.md");

#[test]
fn guide_serving_a_store_matches() {
    assert_eq!(walk(&prepared(), SERVING), 3);
}

/// Runs the commands of all `console` blocks, in order; returns their number.
pub(crate) fn walk(place: &Place, guide: &str) -> usize {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut inside = false;
    for line in guide.lines() {
        match (line.trim_end(), line.strip_prefix("$ ")) {
            ("```console", _) => inside = true,
            ("```", _) => inside = false,
            (_, Some(command)) if inside => commands.push((command, Vec::new())),
            (shown, _) if inside => commands.last_mut().unwrap().1.push(shown),
            _ => {}
        }
    }
    for (command, shown) in &commands {
        run(place, command, shown);
    }
    commands.len()
}

fn run(place: &Place, command: &str, shown: &[&str]) {
    check(place, command, shown).unwrap_or_else(|difference| panic!("{difference}"));
}

/// Runs a command once, and returns how its exit code or its output differs from the guide.
pub(crate) fn check(place: &Place, command: &str, shown: &[&str]) -> Result<(), String> {
    let (command, wanted) = command.split_once("# exit code ").unwrap_or((command, "0"));
    let command = command.replace("$GOLDSEAM_STORE", place.store.as_deref().unwrap_or_default());
    let (command, file) =
        command.split_once(" > ").map_or((&*command, None), |(c, file)| (c, Some(file.trim())));
    let words = words(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(words[0], "goldseam", "{command}");
    let ran = place.run(&words[1..]);
    if let Some(file) = file {
        std::fs::write(place.path(file), &ran.out).unwrap();
    }
    let transcript = format!("$ {command}\n{}{}", ran.out, ran.err);
    if ran.code.to_string() != wanted.trim() {
        return Err(format!("exit code {}\n{transcript}", ran.code));
    }
    let mut lines = ran.out.lines();
    match shown.iter().find(|line| !lines.any(|actual| matches(actual, line))) {
        Some(line) => Err(format!("missing, or in another order: {line}\n{transcript}")),
        None => Ok(()),
    }
}

/// Whether a line has the words of another, in order. Tables on a terminal have other gaps than tab-separated ones.
pub(crate) fn matches(actual: &str, shown: &str) -> bool {
    let mut rest = actual;
    shown.split_whitespace().filter(|word| !["…", "→"].contains(word)).all(|word| {
        let found = rest.find(word);
        rest = found.map_or("", |at| &rest[at + word.len()..]);
        found.is_some()
    })
}

/// Splits a command into words, respecting quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut quoted = false;
    let mut open = String::new();
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.extend(Some(std::mem::take(&mut open)).filter(|word| !word.is_empty())),
            c => open.push(c),
        }
    }
    words.extend(Some(open).filter(|word| !word.is_empty()));
    words
}
