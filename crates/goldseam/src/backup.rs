//! Backups of stores in use: one file for every kind of store, and back.
//!
//! A backup is a SQLite file with the logs, tasks and locks of a store, and a manifest. It is written under another name
//! and renamed at its end, and the manifest is its last write: a backup that was interrupted is not a backup.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use goldseam_admin::copy::{
    Copier, CopyFinding, CopyOptions, CopyProgress, CopyReport, StoreContents, contents_of,
};
use goldseam_core::Millis;
use goldseam_core::next_step::Hint;
use goldseam_core::recovery::Code;
use goldseam_engine::client::doctor::DoctorOptions;
use goldseam_engine::{Client, EngineError};
use goldseam_store::crash_points::reach;
use goldseam_store::{Store, StoreError, shown_url};
use goldseam_store_sqlite::url::{Durability, SqliteOptions};
use goldseam_store_sqlite::{SqliteStore, backup as file};
use serde::{Deserialize, Serialize};

#[cfg(any(feature = "postgres", feature = "object"))]
use crate::open::open_existing;
use crate::open::{StoreUrl, open_or_create};

/// The format of manifests that this build writes, and the newest that it reads.
const FORMAT: u32 = 2;
/// Time between the beginning of a backup by reading logs and its cut. Clocks of nodes may differ by less.
#[cfg(any(feature = "postgres", feature = "object"))]
const CLOCKS_DIFFER_MAX: std::time::Duration = std::time::Duration::from_secs(2);
/// Rules whose remedies a restore applies: they only create tasks, which a cut between two writes may lack.
const TASK_RULES: [Code; 2] = [Code::O1, Code::W1];

/// How a backup was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackupMethod {
    /// One transaction of SQLite: everything is as of one moment.
    Snapshot,
    /// By reading logs: every run is as of the cut; tasks and locks are as they were read.
    Logs,
}

/// The manifest of a backup: what is in it, so that a damaged or incomplete file is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupManifest {
    /// The version of this document.
    pub format: u32,
    /// The id of the backup.
    pub id: String,
    /// The release that made it.
    pub goldseam: String,
    /// The original store, without credentials.
    pub source: String,
    /// How it was made.
    pub method: BackupMethod,
    /// When it began, by the clock of the original store. Everything acknowledged before is in it.
    pub began_at: Millis,
    /// The cut: nothing that a run did later is in it.
    pub cut_at: Millis,
    /// Number of runs.
    pub runs: u64,
    /// Number of events.
    pub events: u64,
    /// Number of tasks.
    pub tasks: u64,
    /// Number of locks; keys and secrets of a server are locks.
    pub locks: u64,
    /// Number of active runs, which continue when the backup is restored.
    pub active: u64,
    /// Hash of the ends of all chains: of every event of every log.
    pub logs_hash: String,
    /// Hash of all tasks and locks; in format 1, without some of their fields.
    pub records_hash: String,
    /// Hash of the manifest itself, without this field.
    pub hash: String,
}

impl BackupManifest {
    /// The hash of all other fields.
    fn own_hash(&self) -> String {
        let rest = Self { hash: String::new(), ..self.clone() };
        let text = serde_json::to_string(&rest).unwrap_or_default();
        goldseam_core::Hash::of(text.as_bytes()).to_string()
    }

    /// Returns the first difference between the manifest and the content of its file.
    fn difference(&self, found: &StoreContents) -> Option<String> {
        let counts = [
            ("runs", self.runs, found.logs.runs),
            ("events", self.events, found.logs.events),
            ("tasks", self.tasks, found.tasks),
            ("locks", self.locks, found.locks),
        ];
        let differs = counts.iter().find(|(_, stated, found)| stated != found);
        if let Some((what, stated, found)) = differs {
            return Some(format!("it should have {stated} {what}, and has {found}"));
        }
        let records = if self.format == 1 { found.records_in_part } else { found.records };
        let hashes = [
            ("a log", &self.logs_hash, found.logs.to_string()),
            ("a task or a lock", &self.records_hash, hex(records)),
        ];
        let differs = hashes.iter().find(|(_, stated, found)| *stated != found);
        differs.map(|(what, ..)| format!("{what} was changed after the backup was made"))
    }
}

/// A finished or verified backup.
#[derive(Debug, Clone, Serialize)]
pub struct BackupReport {
    /// The file.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its manifest.
    pub manifest: BackupManifest,
    /// Damage that was in the original store and is in the backup: damaged logs (K1) and unreadable records (U1).
    pub findings: Vec<CopyFinding>,
}

/// A finished restore.
#[derive(Debug, Clone, Serialize)]
pub struct RestoreReport {
    /// The backup.
    pub backup: BackupReport,
    /// What was copied and verified.
    pub copy: CopyReport,
    /// Runs that got a task because the backup had none for them.
    pub tasks_created: u64,
}

/// A callback for progress.
pub type OnBackupProgress = Arc<dyn Fn(CopyProgress) + Send + Sync>;

/// Makes a backup of the store at `from`, which stays open and in use, in the new file `to`.
///
/// Everything that was acknowledged before the backup began is in it. On SQLite the backup is one moment of the store;
/// on Postgres and object storage every run is as of one moment by the clock of the store, two seconds after the
/// beginning, and tasks and locks are as they were read. Keys and secrets of a server are in the backup, so only its
/// owner may read the file.
///
/// ```
/// use goldseam::admin::{backup, restore, verify_backup};
/// use goldseam::prelude::*;
///
/// async fn wait(ctx: Context, _: ()) -> goldseam::Result<u32> { ctx.signal("go").await }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let at = |name: &str| dir.path().join(name);
/// let orders = format!("sqlite:{}", at("orders.db").display());
/// let engine = Engine::open(&orders).await?.workflow("wait", wait).start().await?;
/// engine.start(wait, "w-1", &()).await?;
/// // The engine continues to work.
/// let made = backup(&orders, &at("orders.backup"), None).await?;
/// assert_eq!(made.manifest.runs, 1);
/// engine.shutdown().await;
///
/// verify_backup(&at("orders.backup"), None).await?;
/// let restored = format!("sqlite:{}", at("restored.db").display());
/// restore(&at("orders.backup"), &restored, None).await?;
/// let engine = Engine::open(&restored).await?.workflow("wait", wait).start().await?;
/// let run = engine.start(wait, "w-1", &()).await?;
/// run.signal("go", &7).await?;
/// assert_eq!(run.result().await?, 7);
/// # Ok(()) }
/// ```
pub async fn backup(
    from: &str,
    to: &Path,
    progress: Option<OnBackupProgress>,
) -> Result<BackupReport, EngineError> {
    if to.exists() {
        return Err(refused(
            "GS0233",
            format!("{} exists already", to.display()),
            "name another file, or remove this one".into(),
        ));
    }
    let partial = Partial::beside(to);
    let progress = progress.unwrap_or_else(|| Arc::new(|_| {}));
    let made = make(from, &partial.0, progress).await.map_err(|error| clear(to, error))?;
    reach("backup-sealed");
    name(&partial.0, to)
        .and_then(|()| sync_folder(to))
        .map_err(|error| file::cannot_write(to, &error.to_string()))?;
    let (manifest, findings) = made;
    let bytes = std::fs::metadata(to).map_or(0, |about| about.len());
    Ok(BackupReport { file: to.to_owned(), bytes, manifest, findings })
}

async fn make(
    from: &str,
    partial: &Path,
    progress: OnBackupProgress,
) -> Result<(BackupManifest, Vec<CopyFinding>), EngineError> {
    let options = SqliteOptions { durability: Durability::Process, ..SqliteOptions::default() };
    let (store, method, began_at, cut_at) = match StoreUrl::parse(from)? {
        StoreUrl::Sqlite(path, source) => {
            let target = partial.to_owned();
            let copied =
                goldseam_engine::ledger::spawn::blocking(move || file::snapshot(&path, &source, &target))
                    .await;
            copied.map_err(|error| EngineError::Config(error.to_string()))??;
            let store = SqliteStore::open(partial, options)?;
            let now = store.now().await?;
            (store, BackupMethod::Snapshot, now, now)
        }
        #[cfg(any(feature = "postgres", feature = "object"))]
        _ => {
            let source = Client::new(open_existing(from).await?);
            let began_at = source.store().now().await?;
            let cut_at =
                Millis(began_at.0 + i64::try_from(CLOCKS_DIFFER_MAX.as_millis()).unwrap_or_default());
            tokio::time::sleep(CLOCKS_DIFFER_MAX).await;
            let store = SqliteStore::open(partial, options.clone())?;
            let name = shown_url(from);
            let target = Client::new(Arc::new(store));
            let copier = Copier::new((&source, &name), (&target, "the backup"), CopyOptions::default());
            let watcher = Arc::clone(&progress);
            copier.watched_by(move |progress| watcher(progress)).back_up(cut_at).await?;
            drop(target);
            (SqliteStore::open(partial, options)?, BackupMethod::Logs, began_at, cut_at)
        }
    };
    reach("backup-copied");
    let client = Client::new(Arc::new(store));
    let found = contents_of(&client, move |one| progress(one)).await?;
    let mut manifest = BackupManifest {
        format: FORMAT,
        id: new_id(&client),
        goldseam: env!("CARGO_PKG_VERSION").to_owned(),
        source: shown_url(from),
        method,
        began_at,
        cut_at,
        runs: found.logs.runs,
        events: found.logs.events,
        tasks: found.tasks,
        locks: found.locks,
        active: found.active,
        logs_hash: found.logs.to_string(),
        records_hash: hex(found.records),
        hash: String::new(),
    };
    manifest.hash = manifest.own_hash();
    let same = || (&client, "the backup");
    Copier::new(same(), same(), CopyOptions::default()).mark_backup(&manifest.id, &manifest.source).await?;
    // The last connection is closed here.
    drop(client);
    reach("backup-marked");
    file::seal(partial, &serde_json::to_string(&manifest).unwrap_or_default())?;
    Ok((manifest, found.findings))
}

/// Reads a backup completely: the pages of the file, every event and its hash, counts and hashes of everything. Fails
/// if anything differs from the manifest.
pub async fn verify_backup(
    path: &Path,
    progress: Option<OnBackupProgress>,
) -> Result<BackupReport, EngineError> {
    let manifest = read_manifest(path)?;
    let broken = |what: String| {
        let what = format!("{} is damaged: {what}", path.display());
        refused("GS0234", what, "use another backup; a damaged one is not restored".into())
    };
    if let Some(complaint) = file::integrity(path)?.into_iter().next() {
        return Err(broken(complaint));
    }
    let client = Client::new(Arc::new(SqliteStore::open_backup(path)?));
    let progress = progress.unwrap_or_else(|| Arc::new(|_| {}));
    let found = contents_of(&client, move |one| progress(one)).await?;
    if let Some(difference) = manifest.difference(&found) {
        return Err(broken(difference));
    }
    let bytes = std::fs::metadata(path).map_or(0, |about| about.len());
    Ok(BackupReport { file: path.to_owned(), bytes, manifest, findings: found.findings })
}

/// Verifies a backup and copies it to the store at `to`, which must be empty, then opens that store. An interrupted
/// restore is continued by the same call.
///
/// The restored store executes the runs of the backup. If the original store is still in use, both do, and every effect
/// after the backup happens twice: stop the original first, or keep it stopped. Nodes, claims of tasks and holds of
/// locks are not restored: every claimed task is ready again, and every lock is free, under a higher fence.
pub async fn restore(
    path: &Path,
    to: &str,
    progress: Option<OnBackupProgress>,
) -> Result<RestoreReport, EngineError> {
    let verified = verify_backup(path, progress.clone()).await?;
    let source = Client::new(Arc::new(SqliteStore::open_backup(path)?));
    let target = Client::new(open_or_create(to).await?);
    let name = format!("the backup {}", path.display());
    let shown = shown_url(to);
    let progress = progress.unwrap_or_else(|| Arc::new(|_| {}));
    let copier = Copier::new((&source, &name), (&target, &shown), CopyOptions::default());
    let copy = copier.watched_by(move |one| progress(one)).restore(&verified.manifest.id).await?;
    let mut tasks_created = 0;
    if copy.finished {
        for rule in TASK_RULES {
            let options = DoctorOptions { fix: true, rule: Some(rule), deep: false };
            tasks_created += target.doctor(options).await?.healed;
        }
    }
    Ok(RestoreReport { backup: verified, copy, tasks_created })
}

/// Returns the manifest of a backup. Reads only the manifest.
pub fn read_manifest(path: &Path) -> Result<BackupManifest, EngineError> {
    let wrong = |what: &str| {
        let what = format!("{} is not a complete backup: {what}", path.display());
        refused("GS0232", what, "pass a file that a backup wrote to its end".into())
    };
    let text = file::manifest(path)?.ok_or_else(|| wrong("it has no manifest"))?;
    let format = serde_json::from_str::<serde_json::Value>(&text).ok();
    let format = format.and_then(|document| document["format"].as_u64());
    if format.is_some_and(|format| format > u64::from(FORMAT)) {
        let what = format!("{} was made by a later release", path.display());
        return Err(refused("GS0235", what, "restore it with that release, or a later one".into()));
    }
    let manifest: BackupManifest =
        serde_json::from_str(&text).map_err(|_| wrong("its manifest cannot be read"))?;
    match manifest.own_hash() == manifest.hash {
        true => Ok(manifest),
        false => Err(wrong("its manifest was changed")),
    }
}

/// Number of unfinished files of this process so far.
static PARTIALS: AtomicU64 = AtomicU64::new(0);

/// The unfinished file. Removed when it is dropped; a finished backup has a second name.
struct Partial(PathBuf);

impl Partial {
    fn beside(to: &Path) -> Self {
        let mut name = to.as_os_str().to_owned();
        let number = PARTIALS.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".partial-{}-{number}", std::process::id()));
        let partial = Self(PathBuf::from(name));
        partial.remove();
        partial
    }

    fn remove(&self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut name = self.0.as_os_str().to_owned();
            name.push(suffix);
            let _ = std::fs::remove_file(PathBuf::from(name));
        }
        let mut nodes = self.0.as_os_str().to_owned();
        nodes.push("-nodes");
        let _ = std::fs::remove_dir_all(PathBuf::from(nodes));
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Gives a finished backup its name, without replacing another file.
fn name(partial: &Path, to: &Path) -> std::io::Result<()> {
    match std::fs::hard_link(partial, to) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(error),
        // A file system without hard links.
        Err(_) => std::fs::rename(partial, to),
        Ok(()) => Ok(()),
    }
}

/// The name of the file must survive a power cut, too.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Names the backup in an error of its disk.
fn clear(to: &Path, error: EngineError) -> EngineError {
    match error {
        EngineError::Store(StoreError::Full { .. }) => file::cannot_write(to, "the disk is full").into(),
        error => error,
    }
}

fn refused(code: &'static str, what: String, hint: Hint) -> EngineError {
    StoreError::Refused { code, what, hint }.into()
}

fn new_id(client: &Client) -> String {
    client.ledger().entropy.write_id().to_string()
}

fn hex(number: u128) -> String {
    format!("{number:032x}")
}
