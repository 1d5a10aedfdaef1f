//! Backups and restores by the binary.

use serde_json::json;

use crate::disk::full::Mounted;
use crate::support::{Place, Ran, prepared};

const FILE: &str = "orders.backup";
const THERE: &str = "sqlite:there.db";

fn rest_of(place: &Place) -> Vec<String> {
    place.files().into_iter().filter(|name| name.contains("partial")).collect()
}

#[test]
fn a_backup_is_made_verified_and_restored() {
    let place = prepared();
    let before = place.run(&["ls", "--json"]).json();
    let made = place.run(&["store", "backup", FILE, "--json"]).json();
    assert_eq!((&made["manifest"]["runs"], &made["manifest"]["method"]), (&json!(4), &json!("snapshot")));
    place.run(&["store", "backup", FILE]).fails(6, "GS0233");
    // The original stays open.
    place.run(&["signal", "waits", "paid"]).ok();
    assert!(
        place.run(&["store", "restore", FILE, "--verify-only"]).ok().contains("✔ complete and unchanged")
    );
    let err = place.run(&["store", "restore", FILE, "--to", THERE]).fails(2, "GS0230");
    assert!(err.contains("if sqlite:goldseam.db is still in use, both execute them"), "{err}");
    assert!(!place.path("there.db").exists());
    let restored = place.run(&["store", "restore", FILE, "--to", THERE, "--yes"]).ok();
    assert!(restored.contains("✔ restored and verified"), "{restored}");
    assert_eq!(place.run(&["ls", "--json", "--store", THERE]).json(), before);
    assert!(place.run(&["doctor", "--store", THERE]).ok().contains("healthy"));
    place.run(&["signal", "waits", "paid", "--store", THERE]).ok();
    place.run(&["store", "restore", FILE, "--to", THERE, "--yes"]).fails(6, "GS0402");
    let copy = place.run(&["store", "check", THERE, "--json"]).json();
    assert_eq!(copy["copy"]["role"], "filled-from");
    assert_eq!(rest_of(&place), [""; 0]);
}

#[test]
fn a_backup_can_be_read_and_not_changed() {
    let place = prepared();
    place.run(&["store", "backup", FILE]).ok();
    let url = format!("sqlite:{FILE}");
    assert!(place.run(&["ls", "--store", &url]).ok().contains("waits"));
    let err = place.run(&["signal", "waits", "paid", "--store", &url]).fails(7, "GS0404");
    assert!(err.contains("is a backup of sqlite:goldseam.db") && err.contains("store restore"), "{err}");
    place.run(&["store", "restore", FILE, "--verify-only"]).ok();
}

#[test]
fn a_backup_is_not_made_through_a_server() {
    let place = prepared();
    let mut command = place.command(&["store", "backup", FILE, "--server", "http://127.0.0.1:1"]);
    assert_eq!(Ran::of(&command.output().unwrap()).code, 2);
    place.run(&["store", "restore", "goldseam.db", "--verify-only"]).fails(1, "GS0232");
    assert_eq!(place.run(&["store", "restore", FILE]).code, 2, "--to is missing");
}

#[test]
fn a_full_disk_leaves_no_backup() {
    let place = prepared();
    let small = place.path("small");
    let Some(_mounted) = Mounted::at(&small) else { return };
    std::fs::write(small.join("ballast"), vec![1; 2_000 * 1_024]).unwrap();
    let to = small.join(FILE);
    let err = place.run(&["store", "backup", &to.display().to_string()]).fails(1, "GS0231");
    assert!(err.contains("full"), "{err}");
    let left: Vec<_> = std::fs::read_dir(&small).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["ballast"]);
    place.run(&["signal", "waits", "paid"]).ok();
}

#[cfg(feature = "crash-points")]
#[test]
fn a_killed_backup_leaves_no_incomplete_file_that_verifies() {
    for (point, is_complete) in [("backup-copied", false), ("backup-marked", false), ("backup-sealed", true)]
    {
        let place = prepared();
        let mut command = place.command(&["store", "backup", FILE]);
        let killed = command.env("GOLDSEAM_CRASH_POINT", format!("{point}:before")).output().unwrap();
        assert_eq!(killed.status.code(), None, "{point} is reached");
        assert!(!place.path(FILE).exists(), "{point}");
        for name in rest_of(&place).iter().filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm")) {
            let ran = place.run(&["store", "restore", name, "--verify-only"]);
            assert_eq!(ran.code == 0, is_complete, "{point}: {name}: {}", ran.err);
        }
        place.run(&["store", "backup", FILE]).ok();
        place.run(&["store", "restore", FILE, "--verify-only"]).ok();
    }
}

#[cfg(feature = "crash-points")]
#[test]
fn a_killed_restore_can_be_finished() {
    for point in ["put_lock:after:1", "append:before:1", "append:after:2", "put_lock:before:2"] {
        let place = prepared();
        place.run(&["store", "backup", FILE]).ok();
        let restore = ["store", "restore", FILE, "--to", THERE, "--yes"];
        let killed = place.command(&restore).env("GOLDSEAM_CRASH_POINT", point).output().unwrap();
        assert_eq!(killed.status.code(), None, "{point} is reached");
        place.run(&["start", "order", "--store", THERE]).fails(7, "GS0404");
        place.run(&restore).ok();
        assert_eq!(
            place.run(&["ls", "--json", "--store", THERE]).json(),
            place.run(&["ls", "--json"]).json()
        );
    }
}
