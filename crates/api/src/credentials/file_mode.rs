//! File permission checks.

use std::path::Path;

use crate::problem::Problem;

/// Refuses a file that other users may read or write.
#[cfg(unix)]
pub fn check(setting: &str, file: &Path) -> Result<(), Problem> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = file.display();
    match std::fs::metadata(file) {
        Ok(about) if about.permissions().mode() & 0o077 != 0 => {
            Err(Problem::new(500, format!("{setting} {shown} is readable or writable by other users"))
                .code("GS0610")
                .hint(format!("chmod 600 {shown}")))
        }
        // A missing file is reported when it is read.
        _ => Ok(()),
    }
}

/// Accepts every file.
#[cfg(not(unix))]
pub fn check(_: &str, _: &Path) -> Result<(), Problem> {
    Ok(())
}
