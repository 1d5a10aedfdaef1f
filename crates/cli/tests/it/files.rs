//! Permissions of store files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::Place;

#[test]
fn warns_about_store_files_that_other_users_can_read() {
    let place = Place::new();
    place.run(&["start", "order", "--id", "a"]).ok();
    let mode = |name: &str| std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("goldseam.db"), 0o600);
    assert!(!place.run(&["ls"]).err.contains("warning"), "a new store is private");
    std::fs::set_permissions(place.path("goldseam.db"), Permissions::from_mode(0o644)).unwrap();
    for args in [&["ls"][..], &["show", "a"], &["start", "order"], &["key", "list"], &["store", "check"]] {
        let ran = place.run(args);
        assert!(
            ran.err.contains("warning: other users may read or write goldseam.db"),
            "{args:?}: {}",
            ran.err
        );
        assert!(ran.err.contains("run chmod 600 goldseam.db"), "{args:?}: {}", ran.err);
    }
    let ran = place.run(&["ls", "--json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&ran.out).is_ok(), "{}", ran.out);
    assert_eq!(place.run(&["explain", "K1"]).err, "", "a command that needs no store does not warn");
}
