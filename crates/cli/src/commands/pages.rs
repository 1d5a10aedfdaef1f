//! Lists that span several pages.

use goldseam_api::ApiResult;
use goldseam_api::doc::run::ChangesQuery;
use goldseam_api::doc::{PAGE_MAX, PageDoc};

use crate::app::App;
use crate::error::CliError;

/// How long a watched list waits for a change before it is redrawn, because it shows ages.
const WAIT_MS: u64 = 500;

/// Reads up to `limit` items, page by page. `next` says whether there are more.
pub(crate) async fn gather<T, F>(
    limit: u32,
    after: Option<String>,
    mut page: impl FnMut(Option<String>, u32) -> F,
) -> Result<PageDoc<T>, CliError>
where
    F: Future<Output = ApiResult<PageDoc<T>>>,
{
    let mut whole = PageDoc::new(Vec::new(), after);
    let mut left = limit;
    while left > 0 {
        let PageDoc { items, next, unreadable, note } = page(whole.next.take(), left.min(PAGE_MAX)).await?;
        left = left.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
        whole.items.extend(items);
        whole.unreadable.extend(unreadable);
        whole.note = whole.note.or(note);
        whole.next = next;
        if whole.next.is_none() {
            break;
        }
    }
    Ok(whole)
}

/// Warns on stderr that the list is cut, unless the output shows it: JSON has `next`, and a terminal has a footer.
pub(crate) fn warn_if_cut<T>(app: &App, page: &PageDoc<T>) {
    let has_footer = app.terminal && !app.wants_json() && !app.quiet;
    if page.next.is_some() && !app.json && !has_footer {
        let shown = page.items.len();
        app.warn(&format!("only the first {shown} are shown; use --limit COUNT for more"));
    }
}

/// The query with which a watched list waits for a change.
pub(crate) fn changes(mark: u64) -> ChangesQuery {
    ChangesQuery { after: Some(mark), wait_ms: Some(WAIT_MS) }
}
