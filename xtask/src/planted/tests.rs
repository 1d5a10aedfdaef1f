//! Tests on small texts, below the target directory.

use super::patch::{Merged, base_hash};
use super::*;

const LOCK: &str = "fn take() {\n    one();\n    two();\n    three();\n}\n\nfn give() {\n    four();\n}\n";

fn stage() -> Stage {
    Stage::new(&folder(&tree::root().unwrap()).unwrap()).unwrap()
}

#[test]
fn a_patch_restores_the_planted_text() {
    let planted = LOCK.replace("    two();\n", "    if planted { bug() }\n");
    let patch = stage().diff("crates/core/src/lock.rs", LOCK, &planted).unwrap();
    assert!(patch.contains("+++ b/crates/core/src/lock.rs\n"), "{patch}");
    assert_eq!(base_hash(&patch).map(str::len), Some(40));
    assert_eq!(stage().apply(LOCK, &patch), Ok(planted));
    assert!(stage().apply(&LOCK.replace("two", "2"), &patch).is_err());
}

#[test]
fn a_merge_keeps_both_changes_or_marks_the_conflict() {
    let planted = LOCK.replace("    two();\n", "    bug();\n");
    let moved = LOCK.replace("four", "4");
    let merged = stage().merge(&moved, LOCK, &planted);
    assert_eq!(merged, Ok(Merged::Clean(planted.replace("four", "4"))));
    let changed = LOCK.replace("two", "2");
    assert!(
        matches!(stage().merge(&changed, LOCK, &planted), Ok(Merged::Conflict(text)) if text.contains("2()"))
    );
}

#[test]
fn tidy_names_the_patch_the_file_and_the_command() {
    let root = tree::root().unwrap();
    let patch = stage().diff("crates/a/src/lib.rs", LOCK, &LOCK.replace("two", "2")).unwrap();
    let at = "crates/sim/planted/crates/a/src/lib.rs.patch";
    let tree = |text: &str| Tree::of(&[("crates/a/src/lib.rs", text), (at, &patch)]);
    assert_eq!(check(&root, &tree(LOCK)), Ok(Vec::new()));
    let findings = check(&root, &tree("fn other() {}\n")).unwrap();
    let text = findings[0].to_string();
    for part in [at, "does not apply to crates/a/src/lib.rs", REFRESH] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(check(&root, &Tree::of(&[(at, &patch)])).unwrap().len(), 1);
}

#[test]
fn an_unchanged_file_keeps_its_time() {
    let folder = folder(&tree::root().unwrap()).unwrap().join(format!("test-{}", std::process::id()));
    let write_both = |second: &str| {
        let files = [("a/one", "1"), ("two", second)];
        write_changed(&folder, &files.map(|(path, text)| (path.to_owned(), text.to_owned())).into()).unwrap();
    };
    let time = |path: &str| fs::metadata(folder.join(path)).unwrap().modified().unwrap();
    write_both("2");
    write(&folder.join("b/three"), "3").unwrap();
    let before = (time("a/one"), time("two"));
    write_both("zwei");
    assert_eq!(time("a/one"), before.0);
    assert!(time("two") > before.1);
    assert!(!folder.join("b/three").exists());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_copy_has_added_files_and_planted_bugs() {
    let root = tree::root().unwrap();
    let patch = stage().diff("a.rs", LOCK, &LOCK.replace("two", "2")).unwrap();
    let tree = Tree::of(&[
        ("a.rs", LOCK),
        ("crates/sim/planted/a.rs.patch", patch.as_str()),
        ("crates/sim/planted/b.rs", "added"),
    ]);
    let files = planted(&root, &tree).unwrap();
    assert_eq!(files["a.rs"], LOCK.replace("two", "2"));
    assert_eq!(files["b.rs"], "added");
}
