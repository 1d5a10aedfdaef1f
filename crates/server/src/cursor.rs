//! Opaque list cursors, each valid for one list in one namespace.

use goldseam_api::Problem;
use goldseam_api::credentials::token::TokenSigner;
use goldseam_api::doc::Page;

use crate::app::App;
use crate::extract::Access;

/// The cursors of one list in one namespace.
#[derive(Debug)]
pub(crate) struct Cursors<'a> {
    tokens: &'a TokenSigner,
    list: &'static str,
    namespace: &'a str,
}

impl App {
    /// Returns the cursors of a list.
    pub(crate) fn cursors<'a>(&'a self, list: &'static str, access: &'a Access) -> Cursors<'a> {
        Cursors { tokens: &self.tokens, list, namespace: &access.namespace.name }
    }
}

impl Cursors<'_> {
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
    pub(crate) fn seal<T>(&self, mut page: Page<T>) -> Result<Page<T>, Problem> {
        if let Some(next) = &mut page.next {
            *next = self.tokens.seal(self.list, self.namespace, next)?;
        }
        Ok(page)
    }
}
