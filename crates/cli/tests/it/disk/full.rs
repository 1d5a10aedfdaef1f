//! A file system of two megabytes that is full for a while.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::store::Site;
use crate::support::eventually;

/// A small file system, unmounted on drop.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Mounts the file system; `None` without the permission.
    pub(crate) fn at(folder: &Path) -> Option<Self> {
        std::fs::create_dir_all(folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "goldseam-disk"]).arg(folder).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(folder.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Fills the disk of a worker, checks that commands report it and reads work, frees the disk, and waits until every run
/// ends. `None` if mounting is not allowed.
pub(crate) fn full_and_freed() -> Option<Result<(), String>> {
    let outer = Site::new("");
    let mounted = Mounted::at(&outer.path("small"))?;
    let site = Site::within(&outer.path("small"));
    let outcome = fill_and_free(&site);
    drop(site);
    drop(mounted);
    Some(outcome)
}

fn fill_and_free(site: &Site) -> Result<(), String> {
    site.order(None, "ord-0", 3);
    let worker = site.worker(None);
    eventually("the first order asks", || site.is_asking().then_some(()));
    let ballast = site.path("ballast");
    let filled = (1..=2_048).rev().find(|kilobytes| {
        let _ = std::fs::remove_file(&ballast);
        std::fs::write(&ballast, vec![1; kilobytes * 1_024]).is_ok()
    });
    filled.ok_or("the disk cannot be filled")?;
    // For a while, writes fit into existing pages.
    let input = serde_json::json!({"customer": "x".repeat(20_000), "lines": [], "cents": 7, "step_ms": 1});
    let input = input.to_string();
    let refused = (0..200).find_map(|number| {
        let id = format!("more-{number}");
        let ran = site.run(None, &["start", "order", "--id", &id, "--input", &input]);
        (ran.code != 0).then_some((id, ran))
    });
    let (refused, ran) = refused.ok_or("the disk is never full")?;
    if !ran.err.starts_with("error[GS0207]") {
        return Err(format!("a full disk is not called that: {}", ran.err));
    }
    if !site.run(None, &["ls"]).out.contains("ord-0") {
        return Err("a full disk cannot be read".to_owned());
    }
    std::fs::remove_file(&ballast).unwrap();
    site.run(None, &["start", "order", "--id", &refused, "--input", &input]).ok();
    site.finish(None);
    worker.stop();
    site.repeats_nothing()
}
