//! Targets of the stores' URLs and of the command line.

/// URLs of every kind of store.
pub(crate) fn urls(data: &[u8]) {
    let Ok(url) = std::str::from_utf8(data) else { return };
    drop(goldseam_store_sqlite::url::parse(url));
    drop(goldseam_store_postgres::url::parse(url));
    drop(goldseam_store_object::url::parse(url));
}

/// What is typed, one word on each line: options, spans, cursors, filters, JSON.
pub(crate) fn arguments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    drop(goldseam_cli::understand(std::iter::once("goldseam").chain(text.lines())));
}
