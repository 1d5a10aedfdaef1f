//! Lists that are longer than a page.

use goldseam_api::Answer;
use goldseam_api::doc::run::ChangesQuery;
use goldseam_api::doc::{PAGE_MAX, Page};

use crate::app::App;
use crate::fail::Fail;

/// How long a list that is watched waits for news before it is looked at again: times go on.
const WAIT_MS: u64 = 500;

/// Up to `limit` items, page by page. `next` tells whether there are more.
pub(crate) async fn gather<T, F>(
    limit: u32,
    after: Option<String>,
    mut page: impl FnMut(Option<String>, u32) -> F,
) -> Result<Page<T>, Fail>
where
    F: Future<Output = Answer<Page<T>>>,
{
    let mut whole = Page::new(Vec::new(), after);
    let mut left = limit;
    while left > 0 {
        let Page { items, next, unreadable } = page(whole.next.take(), left.min(PAGE_MAX)).await?;
        left = left.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
        whole.items.extend(items);
        whole.unreadable.extend(unreadable);
        whole.next = next;
        if whole.next.is_none() {
            break;
        }
    }
    Ok(whole)
}

/// Tells a program on stderr that there is more than was shown. A page as JSON has `next`, and a person has a footer.
pub(crate) fn tell_cut<T>(app: &App, page: &Page<T>) {
    let has_footer = app.terminal && !app.wants_json() && !app.quiet;
    if page.next.is_some() && !app.json && !has_footer {
        let shown = page.items.len();
        app.warn(&format!(
            "only the first {shown} are shown, there are more; --limit COUNT shows more of them"
        ));
    }
}

/// What a list that is watched waits for.
pub(crate) fn changes(mark: u64) -> ChangesQuery {
    ChangesQuery { after: Some(mark), wait_ms: Some(WAIT_MS) }
}
