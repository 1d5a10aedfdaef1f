//! Suggestions for mistyped run ids, store URLs and workflows. A suggestion is added to the help of an error.

use std::path::Path;
use std::time::Duration;

use goldseam::unstable::core::argument::nearest;
use goldseam::unstable::store::shown_url;
use goldseam_api::Api;
use goldseam_api::doc::PAGE_MAX;
use goldseam_api::doc::run::RunsQuery;

use crate::app::App;
use crate::error::CliError;

/// How long a search for similar run ids may take.
const SEARCH_MAX: Duration = Duration::from_secs(2);
/// Maximum number of suggestions.
const SUGGESTIONS_MAX: usize = 3;
/// Maximum number of files in a folder that are compared.
const FILES_MAX: usize = 1_000;
/// Schemes of store URLs.
const SCHEMES: [&str; 4] = ["sqlite", "postgres", "postgresql", "s3"];

/// Adds a suggestion to the help of an error, if there is a similar name.
pub(crate) async fn improve(app: &App, error: CliError) -> CliError {
    let meant = match error.code.as_deref() {
        Some("GS0104") => match unknown_run(&error.message) {
            Some(run) => runs(app, run).await,
            None => Vec::new(),
        },
        Some("GS0206") if !app.has_server() => {
            store_url(&app.url).map(|url| shown_url(&url)).into_iter().collect()
        }
        Some("GS0205") if !app.has_server() => database(&app.url),
        _ => Vec::new(),
    };
    if meant.is_empty() {
        return error;
    }
    let meant = format!("did you mean {}?", meant.join(", "));
    let help = match error.help {
        Some(help) => format!("{meant} {help}"),
        None => meant,
    };
    CliError { help: Some(help), ..error }
}

/// The id in the message about an unknown run: `run ID: …`.
fn unknown_run(message: &str) -> Option<&str> {
    message.strip_prefix("run ")?.split_once(": ").map(|(run, _)| run)
}

/// Similar ids among the newest runs. Reads one page, and finds nothing if the read fails.
async fn runs(app: &App, wanted: &str) -> Vec<String> {
    let search = async {
        let api = app.api().await.ok()?;
        newest_ids(&*api).await
    };
    let known = tokio::time::timeout(SEARCH_MAX, search).await.ok().flatten().unwrap_or_default();
    similar(wanted, &known)
}

/// The ids of the newest runs.
pub(crate) async fn newest_ids(api: &dyn Api) -> Option<Vec<String>> {
    let page = api.runs(RunsQuery { limit: Some(PAGE_MAX), ..RunsQuery::default() }).await.ok()?;
    Some(page.items.into_iter().map(|summary| summary.run.to_string()).collect())
}

/// Ids that differ by case, by a few characters, or that continue `wanted`.
fn similar(wanted: &str, known: &[String]) -> Vec<String> {
    let mut found: Vec<&str> =
        known.iter().map(String::as_str).filter(|id| id.eq_ignore_ascii_case(wanted)).collect();
    found.extend(nearest(wanted, known.iter().map(String::as_str)));
    found.extend(known.iter().map(String::as_str).filter(|id| wanted.len() > 1 && id.starts_with(wanted)));
    let mut ids: Vec<String> = Vec::new();
    for id in found {
        if ids.len() < SUGGESTIONS_MAX && !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids
}

/// The store URL that a mistyped one may stand for.
fn store_url(url: &str) -> Option<String> {
    let Some((scheme, rest)) = url.split_once(':') else {
        // A bare path. Other texts without a scheme are database names or typos.
        let is_file = Path::new(url).extension().is_some() || url.contains('/') || Path::new(url).exists();
        return is_file.then(|| format!("sqlite:{url}"));
    };
    let lower = scheme.to_lowercase();
    let known = match lower.as_str() {
        "file" | "sqlite3" => "sqlite",
        "pg" | "psql" => "postgres",
        lower => SCHEMES
            .iter()
            .find(|known| **known == lower)
            .copied()
            .or_else(|| nearest(lower, SCHEMES).first().copied())?,
    };
    match known {
        "sqlite" => Some(format!("sqlite:{}", rest.trim_start_matches("//"))),
        known => Some(format!("{known}://{}", rest.trim_start_matches('/'))),
    }
}

/// Similar files beside a SQLite database that does not exist, as store URLs.
fn database(url: &str) -> Vec<String> {
    let Some(path) = url.strip_prefix("sqlite:") else { return Vec::new() };
    let path = Path::new(path.split('?').next().unwrap_or(path));
    let Some(wanted) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else { return Vec::new() };
    let is_side_file = |name: &str| name.ends_with("-wal") || name.ends_with("-shm");
    let files: Vec<String> = entries
        .take(FILES_MAX)
        .filter_map(|entry| entry.ok().filter(|entry| entry.path().is_file()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !is_side_file(name))
        .collect();
    let url = |name: &str| format!("sqlite:{}", path.with_file_name(name).display());
    nearest(wanted, files.iter().map(String::as_str)).into_iter().map(url).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_store_urls_are_recognised() {
        for (typed, meant) in [
            ("sqllite:orders.db", Some("sqlite:orders.db")),
            ("SQLite:orders.db", Some("sqlite:orders.db")),
            ("sqlite3:orders.db", Some("sqlite:orders.db")),
            ("file:orders.db", Some("sqlite:orders.db")),
            ("postgre://ada@h/d", Some("postgres://ada@h/d")),
            ("postgress:ada@h/d", Some("postgres://ada@h/d")),
            ("pg://h/d", Some("postgres://h/d")),
            ("s4://bucket/a", Some("s3://bucket/a")),
            ("orders.db", Some("sqlite:orders.db")),
            ("data/orders", Some("sqlite:data/orders")),
            ("nonsense", None),
            ("mysql://h/d", None),
            ("", None),
        ] {
            assert_eq!(store_url(typed).as_deref(), meant, "{typed}");
        }
    }

    #[test]
    fn similar_run_ids_are_suggested_nearest_first() {
        let known: Vec<String> = ["ord-7", "ord-71", "ORD-9", "other", "ord-8"].map(str::to_owned).to_vec();
        assert_eq!(similar("ord-9", &known)[0], "ORD-9");
        assert_eq!(similar("ordd-7", &known)[0], "ord-7");
        assert_eq!(similar("oth", &known), ["other"]);
        assert!(similar("zzzzzzzz", &known).is_empty());
        assert_eq!(unknown_run("run x-1: the run does not exist"), Some("x-1"));
    }
}
