//! Finds programs, installs missing ones, and drops root for servers.

use std::cmp::Reverse;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::TestbedError;

const INSTALL: &str = include_str!("install.sh");
/// The folder of the Postgres versions of Debian, which are not on the path.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Folders of daemons, which may not be on the path.
const SBIN: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// The users of servers that refuse root; the first that exists is used.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// Prefixes of variables that would make a program use other servers or keys.
const MISLEADING: [&str; 6] = ["PG", "AWS_", "S3_", "WEED_", "RCLONE_", "MOTO_"];

/// The folder with `initdb`, `postgres` and `psql`. Installs them if they are missing and this process may.
pub(crate) fn postgres() -> Result<PathBuf, TestbedError> {
    found_or_installed(postgres_if_installed, "Postgres", "postgresql")
}

/// The path of `pgbouncer`. Installs it if it is missing and this process may.
pub(crate) fn pgbouncer() -> Result<PathBuf, TestbedError> {
    found_or_installed(pgbouncer_if_installed, "PgBouncer", "pgbouncer")
}

fn postgres_if_installed() -> Option<PathBuf> {
    let mut candidates: Vec<PathBuf> = path().filter_map(|folder| real_folder(&folder)).collect();
    candidates.extend(versions(Path::new(DEBIAN)));
    candidates.extend(output(Command::new("pg_config").arg("--bindir")).map(PathBuf::from));
    candidates.into_iter().find(|folder| is_complete(folder))
}

fn pgbouncer_if_installed() -> Option<PathBuf> {
    path().chain(SBIN.map(PathBuf::from)).map(|folder| folder.join("pgbouncer")).find(|file| file.is_file())
}

/// The folders of `PATH`.
pub(crate) fn path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

/// The folder of the real `initdb`, if the one in `folder` is a link.
fn real_folder(folder: &Path) -> Option<PathBuf> {
    let initdb = fs::canonicalize(folder.join("initdb")).ok()?;
    Some(initdb.parent()?.to_owned())
}

/// The `bin` of each version below `folder`, newest first.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |name: &OsStr| name.to_str()?.parse::<u32>().ok();
    let mut versions: Vec<_> =
        entries.filter_map(|entry| Some((number(&entry.file_name())?, entry))).collect();
    versions.sort_by_key(|(number, _)| Reverse(*number));
    versions.into_iter().map(|(_, entry)| entry.path().join("bin")).collect()
}

fn is_complete(folder: &Path) -> bool {
    ["initdb", "postgres", "psql"].iter().all(|program| folder.join(program).is_file())
}

/// Returns what `find` finds. If it finds nothing, installs the Debian package first, if this process may.
pub(crate) fn found_or_installed(
    find: fn() -> Option<PathBuf>,
    program: &'static str,
    package: &str,
) -> Result<PathBuf, TestbedError> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let missing = |hint: String| TestbedError::Missing { program, hint };
    if !is_root() || !path().any(|folder| folder.join("apt-get").is_file()) {
        return Err(missing(format!("install the Debian package `{package}` or your system's equivalent")));
    }
    install(package).map_err(|error| missing(error.to_string()))?;
    find().ok_or_else(|| {
        missing(format!("package `{package}` is installed, but its programs are not in an expected folder"))
    })
}

fn install(package: &str) -> Result<(), TestbedError> {
    let what = format!("`apt-get install {package}`");
    let output = Command::new("sh")
        .args(["-c", INSTALL, "install", package])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| TestbedError::failed(&what, error))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(TestbedError::failed(what, last_lines(&errors))) }
}

/// The last lines of a text.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// A command without variables that would make it use another server or another language.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let misleads =
        |name: &OsStr| MISLEADING.iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()));
    for (name, _) in env::vars_os().filter(|(name, _)| misleads(name)) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C");
    command
}

/// Runs `command` as a user that servers accept, if this process is root.
pub(crate) fn drop_root(command: &mut Command) {
    if !is_root() {
        return;
    }
    let id = |of: &str, name: &str| output(Command::new("id").args([of, name]))?.parse::<u32>().ok();
    let ids = |name: &&str| Some((id("-u", name)?, id("-g", name)?));
    if let Some((user, group)) = UNPRIVILEGED.iter().find_map(ids) {
        command.uid(user).gid(group);
    }
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_some_and(|id| id == "0")
}

/// The output of a command, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first() {
        let folder = env::temp_dir().join(format!("goldseam-versions-{}", std::process::id()));
        for version in ["9", "15", "17", "common"] {
            fs::create_dir_all(folder.join(version)).unwrap();
        }
        let found = versions(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ["17", "15", "9"].map(|version| folder.join(version).join("bin")));
        assert!(versions(&folder).is_empty());
    }

    #[test]
    fn keeps_the_last_lines_of_a_text() {
        let text: String = (1..=20).map(|line| format!("{line}\n")).collect();
        assert!(last_lines(&text).starts_with("9\n") && last_lines(&text).ends_with("\n20"));
        assert_eq!(last_lines("one"), "one");
    }
}
