//! Collects the pages of `docs/codes` into the binary.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let manifest = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let pages = Path::new(&manifest).join("../../docs/codes").canonicalize()?;
    println!("cargo::rerun-if-changed={}", pages.display());
    let mut codes = Vec::new();
    for entry in fs::read_dir(&pages)? {
        let path = entry?.path();
        let code = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if path.extension().is_some_and(|kind| kind == "md") && code != "README" {
            codes.push((code, path));
        }
    }
    codes.sort();
    let mut text = String::from("&[\n");
    for (code, path) in codes {
        println!("cargo::rerun-if-changed={}", path.display());
        let _ = writeln!(text, "    ({code:?}, include_str!({:?})),", path.display().to_string());
    }
    text.push_str("]\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("pages.rs"), text)
}
