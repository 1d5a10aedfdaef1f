//! Unreadable records and damaged logs.

use rusqlite::Connection;
use serde_json::Value;

use crate::support::{Place, Ran, prepared};

fn harm(place: &Place, sql: &str) {
    let conn = Connection::open(place.path("goldseam.db")).unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
    assert!(conn.execute(sql, []).unwrap() > 0, "{sql}");
}

fn document(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {} {}", ran.out, ran.err))
}

fn codes(checkup: &Value) -> Vec<(String, String)> {
    let items = checkup["findings"].as_array().unwrap();
    let name = |finding: &Value| {
        let subject =
            ["run", "task", "lock", "node", "record"].iter().find_map(|kind| finding[*kind].as_str());
        (finding["code"].as_str().unwrap().to_owned(), subject.unwrap_or_default().to_owned())
    };
    items.iter().map(name).collect()
}

#[test]
fn ls_shows_runs_with_lost_or_unreadable_rows() {
    let place = prepared();
    harm(&place, "UPDATE runs SET summary = '{bad' WHERE id = 'asks'");
    harm(&place, "UPDATE runs SET summary = NULL WHERE id = 'done'");
    let list = place.run(&["ls"]).ok();
    for run in ["asks", "done"] {
        let line = list.lines().find(|line| line.starts_with(run)).unwrap();
        assert!(line.contains("unreadable"), "{line}");
    }
    assert!(list.lines().any(|line| line.starts_with("waits") && line.contains("waiting")), "{list}");
    let page = place.run(&["ls", "--json"]).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let unreadable = page["unreadable"].as_array().unwrap();
    assert!(unreadable.iter().all(|item| item["status"] == "unreadable"), "{page}");
    assert_eq!(unreadable.len(), 2);
}

#[test]
fn doctor_reports_then_rebuilds_unreadable_rows() {
    let place = prepared();
    harm(&place, "UPDATE runs SET summary = '{bad' WHERE id = 'asks'");
    harm(&place, "UPDATE runs SET summary = NULL WHERE id = 'done'");
    let reported = place.run(&["doctor", "--json"]);
    assert_eq!(reported.code, 1);
    let found = codes(&document(&reported));
    for run in ["asks", "done"] {
        assert!(found.contains(&("C1".to_owned(), run.to_owned())), "{found:?}");
    }
    let fixed = document(&place.run(&["doctor", "--fix", "--json"]));
    assert_eq!(fixed["rows_rewritten"], 2, "{fixed}");
    let list = place.run(&["ls"]).ok();
    assert!(!list.contains("unreadable"), "{list}");
}

#[test]
fn doctor_corrects_a_wrong_status_column() {
    let place = prepared();
    harm(&place, "UPDATE runs SET status = 'completed' WHERE id = 'waits'");
    let reported = place.run(&["doctor", "--deep", "--json"]);
    assert!(codes(&document(&reported)).contains(&("C1".to_owned(), "waits".to_owned())), "{}", reported.out);
    place.run(&["doctor", "--deep", "--fix"]);
    let waiting = place.run(&["ls", "-q", "--status", "waiting"]).ok();
    assert!(waiting.lines().any(|run| run == "waits"), "{waiting}");
    let completed = place.run(&["ls", "-q", "--status", "completed"]).ok();
    assert!(!completed.lines().any(|run| run == "waits"), "{completed}");
}

#[test]
fn commands_work_despite_unreadable_tasks_and_locks() {
    let place = prepared();
    for task in ["t1", "t2"] {
        place.run(&["queue", "submit", "mail", "--id", task]).ok();
    }
    place.run(&["lock", "acquire", "deploy", "--holder", "me", "--ttl", "1h"]).ok();
    harm(&place, "UPDATE tasks SET payload = '{' WHERE id = 't1'");
    harm(&place, "UPDATE locks SET audit = '{' WHERE name = 'deploy'");
    let listed = place.run(&["queue", "ls"]).ok();
    assert!(listed.contains("t2") && !listed.contains("t1"), "{listed}");
    for args in [&["queue", "stats"][..], &["queue", "reclaim"], &["lock", "ls"]] {
        place.run(args).ok();
    }
    let refused = place.run(&["lock", "acquire", "deploy", "--holder", "you", "--ttl", "1h"]);
    assert_eq!(refused.code, 6, "an unreadable lock may be held: {} {}", refused.out, refused.err);
    let found = codes(&document(&place.run(&["doctor", "--json"])));
    for name in ["t1", "deploy"] {
        assert!(found.contains(&("U1".to_owned(), name.to_owned())), "{found:?}");
    }
    let claimed = place.run(&["queue", "claim", "--owner", "w", "--limit", "5"]).ok();
    assert!(claimed.contains("t2") && !claimed.contains("t1"), "{claimed}");
}

#[test]
fn store_check_finds_every_damage() {
    let place = prepared();
    place.run(&["queue", "submit", "mail", "--id", "t1"]).ok();
    assert!(place.run(&["store", "check"]).ok().contains("sound"));
    let rid = |run: &str| format!("(SELECT rid FROM runs WHERE id = '{run}')");
    let harms = [
        (format!("UPDATE events SET body = 'garbage' WHERE seq = 3 AND rid = {}", rid("done")), "done"),
        (format!("DELETE FROM events WHERE seq = 3 AND rid = {}", rid("failed")), "failed"),
        (
            format!(
                "UPDATE events SET body = replace(body, 'reserve', 'reverse') WHERE seq = 2 AND rid = {}",
                rid("asks")
            ),
            "asks",
        ),
        ("UPDATE runs SET summary = '{bad' WHERE id = 'waits'".to_owned(), "waits"),
        ("UPDATE tasks SET state = 'foo' WHERE id = 't1'".to_owned(), "t1"),
    ];
    for (sql, _) in &harms {
        let conn = Connection::open(place.path("goldseam.db")).unwrap();
        conn.execute(sql, []).unwrap();
    }
    let check = place.run(&["store", "check", "--json"]);
    assert_eq!(check.code, 1);
    let complaints = document(&check)["complaints"].to_string();
    for name in ["done", "failed", "waits", "t1"] {
        assert!(complaints.contains(name), "{name}: {complaints}");
    }
}

#[test]
fn the_readable_part_of_a_damaged_log_is_shown() {
    let place = prepared();
    harm(
        &place,
        "UPDATE events SET body = 'garbage' WHERE seq = 4 AND rid = (SELECT rid FROM runs WHERE id = 'asks')",
    );
    let history = place.run(&["history", "asks"]);
    assert_eq!(history.code, 10, "{}", history.err);
    let lines: Vec<&str> = history.out.lines().collect();
    assert!(
        lines.iter().any(|line| line.starts_with("4\t") && line.contains("(damaged)")),
        "{}",
        history.out
    );
    assert!(lines.iter().any(|line| line.contains("input.requested")), "{}", history.out);
    let document_of = |args: &[&str]| {
        let ran = place.run(args);
        assert_eq!(ran.code, 10, "{args:?}: {} {}", ran.out, ran.err);
        document(&ran)
    };
    for args in
        [&["history", "asks", "--json"][..], &["show", "asks", "--json"], &["branches", "asks", "--json"]]
    {
        assert_eq!(document_of(args)["damage"][0]["seq"], 4, "{args:?}");
    }
    for args in [&["show", "asks"][..], &["branches", "asks"], &["show", "asks", "--width", "80"]] {
        let ran = place.run(args);
        assert_eq!(ran.code, 10, "{args:?}: {}", ran.err);
        assert!(ran.out.contains("event 4 is damaged"), "{args:?}: {}", ran.out);
    }
}

#[test]
fn commands_on_a_damaged_run_report_the_damage() {
    let place = prepared();
    harm(
        &place,
        "UPDATE events SET body = 'garbage' WHERE seq = 4 AND rid = (SELECT rid FROM runs WHERE id = 'asks')",
    );
    let why = place.run(&["why", "asks"]).ok();
    assert!(why.starts_with("asks (parked): needs you: its log is damaged: event 4"), "{why}");
    assert!(!why.contains("heals it automatically"), "{why}");
    for args in [&["doctor"][..], &["doctor", "--fix"], &["doctor"]] {
        let doctor = place.run(args);
        let line = doctor.out.lines().find(|line| line.contains("\tK1\t")).unwrap();
        assert!(line.starts_with("critical\tK1\t1\trun\tasks\t") && line.contains("needs you"), "{line}");
        assert!(!line.contains("healed"), "{line}");
    }
    for args in
        [&["pause", "asks"][..], &["resume", "asks"], &["signal", "asks", "paid"], &["cancel", "asks"]]
    {
        let error = place.run(args).fails(10, "GS0224");
        assert!(error.contains("damaged") && error.contains("goldseam history asks"), "{error}");
    }
    let doctor = place.run(&["doctor", "--json"]);
    assert!(codes(&document(&doctor)).contains(&("K1".to_owned(), "asks".to_owned())), "{}", doctor.out);
    let why = place.run(&["why", "asks"]).ok();
    assert!(!why.contains("heals it automatically"), "{why}");
}
