//! Opaque list cursors, each valid for one list in one namespace.

use goldseam_api::Problem;
use goldseam_api::credentials::token::TokenSigner;
use goldseam_api::doc::PageDoc;

use crate::app::ServerState;
use crate::extract::Access;

/// The cursors of one list in one namespace.
#[derive(Debug)]
pub(crate) struct ListCursors<'a> {
    tokens: &'a TokenSigner,
    list: &'static str,
    namespace: &'a str,
}

impl ServerState {
    /// Returns the cursors of a list.
    pub(crate) fn cursors<'a>(&'a self, list: &'static str, access: &'a Access) -> ListCursors<'a> {
        ListCursors { tokens: &self.tokens, list, namespace: &access.namespace.name }
    }
}

impl ListCursors<'_> {
    /// Replaces the caller's cursor by the store's cursor.
    pub(crate) fn open(&self, after: &mut Option<String>) -> Result<(), Problem> {
        if let Some(cursor) = after {
            let opened = self.tokens.open(self.list, self.namespace, cursor);
            *cursor = opened.ok_or_else(|| {
                Problem::bad_request("invalid cursor")
                    .code("GS0608")
                    .hint("pass the previous page's `next` unchanged, or omit it")
            })?;
        }
        Ok(())
    }

    /// Replaces the store's cursor in a page by an opaque one.
    pub(crate) fn seal<T>(&self, mut page: PageDoc<T>) -> Result<PageDoc<T>, Problem> {
        if let Some(next) = &mut page.next {
            *next = self.tokens.seal(self.list, self.namespace, next)?;
        }
        Ok(page)
    }
}
