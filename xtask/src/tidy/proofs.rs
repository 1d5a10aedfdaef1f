//! Pages that map promises to tests: every row exists, and every test that a row names exists.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::test_names;
use crate::tree::Tree;

/// A page of tables whose rows begin with a key and end with tests.
struct Page {
    path: &'static str,
    /// The prefix of a row.
    begins: &'static str,
    keys: fn() -> Vec<String>,
}

const PAGES: [Page; 3] = [
    Page { path: "docs/mission.md", begins: "| S", keys: promises },
    Page { path: "docs/peers.md", begins: "| `", keys: peers },
    // Advisories, by project.
    Page { path: "docs/peers.md", begins: "| *", keys: Vec::new },
];

/// The number of rows of each part of the promises.
const PROMISES: [(char, u32); 5] = [('0', 8), ('1', 9), ('2', 5), ('3', 6), ('4', 5)];

/// The scenarios made from bugs of other engines.
const PEERS: [&str; 42] = [
    "sweep_stale_snapshot_never_rewrites",
    "sweep_pages_to_end",
    "sweep_ignores_foreign_types",
    "fenced_worker_is_refused",
    "term_not_time",
    "long_step_with_heartbeat_runs_once",
    "boot_id_unique_no_strand",
    "startup_recovery_same_instant",
    "stale_recovery_list_is_harmless",
    "dual_recovery_single_result",
    "empty_id_rejected_everywhere",
    "parallel_steps_once",
    "start_retry_same_run",
    "blocked_runtime_keeps_lease",
    "config_ttl_vs_timeout_rejected",
    "crash_between_output_and_end",
    "s3_zombie_writer_rejected",
    "renew_requires_token",
    "s3_lost_reply_is_own_write",
    "s3_409_is_retry",
    "s3_if_match_missing",
    "s3_non_412_is_error",
    "pg_lost_commit_ack",
    "accepting_implies_progress",
    "heal_then_progress",
    "idle_shard_detects_fence",
    "heartbeat_without_polls_is_unhealthy",
    "hostile_json_never_sticks",
    "oom_step_detected",
    "every_store_call_has_deadline",
    "log_read_pages_complete",
    "sigkill_counts_as_attempt",
    "nondeterminism_parks_run",
    "signal_check_then_wait_model",
    "signal_races_branch_switch",
    "terminal_is_final",
    "saga_matrix",
    "sse_exactly_once_over_reconnects",
    "ack_after_durable",
    "sqlite_version_gate",
    "db_file_preflight",
    "lease_uses_store_clock",
];

fn promises() -> Vec<String> {
    PROMISES.iter().flat_map(|(part, count)| (1..=*count).map(move |row| format!("S{part}.{row}"))).collect()
}

fn peers() -> Vec<String> {
    PEERS.map(str::to_owned).into()
}

/// Rows without a test and without `open:`, tests that do not exist, and missing rows.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let tests = test_names::of(tree);
    PAGES.iter().flat_map(|page| check_page(tree, page, &tests)).collect()
}

fn check_page(tree: &Tree, page: &Page, tests: &BTreeSet<String>) -> Vec<Finding> {
    let Some(file) = tree.get(page.path) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, line) in (1..).zip(file.text.lines()).filter(|(_, line)| line.starts_with(page.begins)) {
        let mut cells = line.trim_matches([' ', '|']).split('|').map(str::trim);
        let key = cells.next().unwrap_or_default().trim_matches('`');
        let proof = cells.next_back().unwrap_or_default();
        seen.insert(key.to_owned());
        let named: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if named.is_empty() && !proof.contains("open:") {
            let what = format!("row {key} has no test");
            findings.push(Finding::new(
                page.path,
                number,
                what,
                "name a test, or write `open:` and the reason",
            ));
        }
        for test in named.into_iter().filter(|test| !tests.contains(*test)) {
            let what = format!("row {key} names the test {test}, which does not exist");
            findings.push(Finding::new(page.path, number, what, "correct the name"));
        }
    }
    for key in (page.keys)().into_iter().filter(|key| !seen.contains(key)) {
        findings.push(Finding::new(page.path, 1, format!("row {key} is missing"), "add it"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "#[tokio::test(flavor = \"multi_thread\")]\n#[ignore = \"long\"]\nasync fn it_holds() {}\n\
                        async fn saga(ctx: Context) {}\n\
                        macro_rules! stories { ($($name:ident),+) => { $(#[test] fn $name() {})+ }; }\n\
                        stories!(signal, sleep);\nspawn!(child);";

    fn found(path: &str, page: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, page), ("a.rs", CODE)]);
        check(&tree)
            .iter()
            .map(ToString::to_string)
            .filter(|finding| !finding.contains("is missing"))
            .collect()
    }

    #[test]
    fn a_row_names_existing_tests_or_is_open() {
        for (path, key) in [("docs/mission.md", "S0.1"), ("docs/peers.md", "`a_bug`")] {
            let sound = format!("| {key} | it holds | `it_holds` |\n| {key} | not yet | open: later |");
            assert_eq!(found(path, &sound), Vec::<String>::new());
            assert_eq!(found(path, &format!("| {key} | it holds | `it_held` |")).len(), 1);
            assert_eq!(found(path, &format!("| {key} | it holds | surely |")).len(), 1);
        }
    }

    #[test]
    fn finds_a_missing_row() {
        for (path, rows) in [("docs/mission.md", 33), ("docs/peers.md", PEERS.len())] {
            assert_eq!(check(&Tree::of(&[(path, "# Nothing")])).len(), rows);
        }
    }
}
