//! Cursors of lists: opaque, good for one list in one namespace.

use goldseam_api::Problem;
use goldseam_api::doc::Page;

use crate::app::App;
use crate::extract::Access;
use crate::token::Tokens;

/// The cursors of one list in one namespace.
#[derive(Debug)]
pub(crate) struct Cursors<'a> {
    tokens: &'a Tokens,
    list: &'static str,
    namespace: &'a str,
}

impl App {
    /// The cursors of a list.
    pub(crate) fn cursors<'a>(&'a self, list: &'static str, access: &'a Access) -> Cursors<'a> {
        Cursors { tokens: &self.tokens, list, namespace: &access.namespace.name }
    }
}

impl Cursors<'_> {
    /// Turns what a caller sent into what the store gave out.
    pub(crate) fn open(&self, after: &mut Option<String>) -> Result<(), Problem> {
        if let Some(cursor) = after {
            let opened = self.tokens.open(self.list, self.namespace, cursor);
            *cursor = opened.ok_or_else(|| {
                Problem::bad_request("this is no cursor of this list")
                    .code("GS0608")
                    .hint("pass `next` of the page before, as it was, or nothing")
            })?;
        }
        Ok(())
    }

    /// The page as it goes out.
    pub(crate) fn seal<T>(&self, mut page: Page<T>) -> Result<Page<T>, Problem> {
        if let Some(next) = &mut page.next {
            *next = self.tokens.seal(self.list, self.namespace, next)?;
        }
        Ok(page)
    }
}
