//! Where programs are, how a missing one is installed, and as whom servers run.

use std::cmp::Reverse;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

const INSTALL: &str = include_str!("install.sh");
/// Where Debian keeps the programs of each version of the server, which are not on the path.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Folders of daemons, which are not on everybody's path.
const SBIN: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// Who servers run as if we are root, which they refuse: the first that exists.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// How names of variables begin that would turn a program to other servers or other keys.
const TURNING: [&str; 6] = ["PG", "AWS_", "S3_", "WEED_", "RCLONE_", "MOTO_"];

/// The folder with `initdb`, `postgres` and `psql`; installs them if they are missing and we may.
pub(crate) fn postgres() -> Result<PathBuf, Error> {
    found_or_installed(postgres_if_installed, ("Postgres", "postgresql"))
}

/// The pooler's program; installs it if it is missing and we may.
pub(crate) fn pgbouncer() -> Result<PathBuf, Error> {
    found_or_installed(pgbouncer_if_installed, ("PgBouncer", "pgbouncer"))
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

/// The folders that programs are looked for in.
pub(crate) fn path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

/// Where the `initdb` of `folder` really is: it may be a link to one among its siblings.
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

/// What `find` finds, after Debian's package is installed if it finds nothing and we may install it.
pub(crate) fn found_or_installed(
    find: fn() -> Option<PathBuf>,
    (program, package): (&'static str, &str),
) -> Result<PathBuf, Error> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let missing = |hint: String| Error::Missing { program, hint };
    if !is_root() || !path().any(|folder| folder.join("apt-get").is_file()) {
        return Err(missing(format!("install the Debian package `{package}` or your system's equivalent")));
    }
    install(package).map_err(|error| missing(error.to_string()))?;
    find().ok_or_else(|| {
        missing(format!("package `{package}` is installed, but its programs are not in an expected folder"))
    })
}

fn install(package: &str) -> Result<(), Error> {
    let what = format!("`apt-get install {package}`");
    let output = Command::new("sh")
        .args(["-c", INSTALL, "install", package])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::failed(&what, error))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(Error::failed(what, last_lines(&said))) }
}

/// The end of a long text.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// A command that nothing in our environment turns to another server or another language.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let turns =
        |name: &OsStr| TURNING.iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()));
    for (name, _) in env::vars_os().filter(|(name, _)| turns(name)) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C");
    command
}

/// Lets `command` run as somebody that servers accept.
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

/// Whether we may do everything, and servers refuse to run as we do.
pub(crate) fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_some_and(|id| id == "0")
}

/// What a command says, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
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
    fn a_long_text_is_cut_to_its_end() {
        let text: String = (1..=20).map(|line| format!("{line}\n")).collect();
        assert!(last_lines(&text).starts_with("9\n") && last_lines(&text).ends_with("\n20"));
        assert_eq!(last_lines("one"), "one");
    }
}
