//! Retention policies from the environment of the process, for engines inside a program.

use std::pin::Pin;
use std::sync::Arc;

use goldseam_admin::retention::{PolicyError, Retainer, RetentionPolicies};
use goldseam_engine::{Client, EngineError, EnvironmentWork};
use goldseam_store::{Archive, StoreError};

use crate::archive::open_archive;

/// The policies, as `completed=7d, order:failed=90d`.
const RETENTION: &str = "GOLDSEAM_RETENTION";
/// The archive of pruned logs.
const ARCHIVE: &str = "GOLDSEAM_ARCHIVE";

/// Prunes by policies while an engine runs.
struct EnvironmentRetainer {
    policies: RetentionPolicies,
    place: String,
    archive: Option<Arc<dyn Archive>>,
}

impl EnvironmentWork for EnvironmentRetainer {
    fn prepare(&mut self) -> Result<(), EngineError> {
        self.archive = Some(Arc::from(open_archive(&self.place)?));
        Ok(())
    }

    fn work(self: Box<Self>, client: Client) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        tracing::info!(policies = %self.policies, archive = self.place, "the engine prunes by the environment");
        let archive = self.archive?;
        Some(Box::pin(Retainer::new(client, archive, self.policies).run()))
    }
}

/// Returns the work that the environment of this process asks for, if it has policies.
pub(crate) fn from_process() -> Result<Option<Box<dyn EnvironmentWork>>, EngineError> {
    of(text_of(RETENTION).as_deref(), text_of(ARCHIVE).as_deref())
}

fn text_of(name: &str) -> Option<String> {
    let text = std::env::var_os(name)?.to_string_lossy().into_owned();
    Some(text).filter(|text| !text.trim().is_empty())
}

fn of(
    retention: Option<&str>,
    archive: Option<&str>,
) -> Result<Option<Box<dyn EnvironmentWork>>, EngineError> {
    let policies: RetentionPolicies =
        retention.unwrap_or_default().parse().map_err(|error: PolicyError| {
            refused(error.code(), format!("invalid {RETENTION}: {error}"), PolicyError::HINT)
        })?;
    match archive {
        _ if policies.is_empty() => Ok(None),
        None => {
            let hint =
                "set GOLDSEAM_ARCHIVE to a directory or s3://BUCKET/PREFIX, or remove GOLDSEAM_RETENTION";
            Err(refused("GS0152", format!("{RETENTION} is set, but {ARCHIVE} is not"), hint))
        }
        Some(place) => {
            Ok(Some(Box::new(EnvironmentRetainer { policies, place: place.to_owned(), archive: None })))
        }
    }
}

fn refused(code: &'static str, what: String, hint: &str) -> EngineError {
    StoreError::Refused { code, what, hint: hint.to_owned().into() }.into()
}

#[cfg(test)]
mod tests {
    use goldseam_engine::Engine;
    use goldseam_store::MemoryStore;

    use super::*;

    fn code(retention: &str, archive: Option<&str>) -> &'static str {
        match of(Some(retention), archive) {
            Ok(work) => work.map_or("none", |_| "work"),
            Err(error) => error.code(),
        }
    }

    #[test]
    fn policies_need_an_archive_and_valid_times() {
        assert_eq!(code("completed=7d", Some("/tmp/a")), "work");
        assert_eq!(code("", Some("/tmp/a")), "none");
        assert_eq!(code("completed=7d", None), "GS0152");
        assert_eq!(code("completed=5m", Some("/tmp/a")), "GS0151");
        assert_eq!(code("done=7d", Some("/tmp/a")), "GS0151");
    }

    #[tokio::test]
    async fn an_engine_prunes_by_the_environment_while_it_runs() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("archive");
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let builder = |place: &std::path::Path| {
            let work = of(Some("completed=1h"), place.to_str());
            Engine::builder(Arc::new(MemoryStore::default())).environment_work(work)
        };
        let engine = builder(&place).start().await.unwrap();
        assert!(place.is_dir(), "the archive was opened");
        engine.shutdown().await;
        assert_eq!(builder(&file).start().await.unwrap_err().code(), "GS0133", "nothing starts");
        builder(&file).without_environment().start().await.unwrap().shutdown().await;
    }
}
