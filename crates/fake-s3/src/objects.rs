//! Stored objects: conditions, lists.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use md5::{Digest, Md5};

use crate::fault::ErrorReply;
use crate::request::{PageQuery, Precondition};

/// Most changes that a list can be behind.
const CHANGES_MAX: usize = 4_096;
/// Default and largest number of keys of a page.
const KEYS_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FakeObject {
    pub(crate) bytes: Bytes,
    /// The MD5 of the content: equal content has an equal ETag.
    pub(crate) etag: String,
    /// In milliseconds, by the server's clock.
    pub(crate) modified: u64,
}

/// All objects of the bucket.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    current: BTreeMap<String, FakeObject>,
    /// The objects that the last changes replaced, newest last.
    replaced: VecDeque<(String, Option<FakeObject>)>,
}

/// One page of keys.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct KeyPage {
    pub(crate) objects: Vec<(String, FakeObject)>,
    pub(crate) prefixes: Vec<String>,
    /// The token of the next page, if there is one.
    pub(crate) next: Option<String>,
}

impl Objects {
    pub(crate) fn get(&self, key: &str) -> Option<&FakeObject> {
        self.current.get(key)
    }

    pub(crate) fn all(&self) -> &BTreeMap<String, FakeObject> {
        &self.current
    }

    /// Checks the condition of a write.
    pub(crate) fn check(&self, key: &str, condition: Option<&Precondition>) -> Result<(), ErrorReply> {
        match (condition, self.get(key)) {
            (None, _) | (Some(Precondition::Absent), None) => Ok(()),
            (Some(Precondition::Is(etag)), Some(object)) if object.etag == *etag => Ok(()),
            (Some(Precondition::Is(_)), None) => Err(ErrorReply::new(404, "NoSuchKey")),
            _ => Err(ErrorReply::new(412, "PreconditionFailed")),
        }
    }

    pub(crate) fn put(&mut self, key: &str, bytes: Bytes, now: u64) -> String {
        let etag: String = Md5::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let object = FakeObject { bytes, etag: etag.clone(), modified: now };
        let before = self.current.insert(key.to_owned(), object);
        self.remember(key, before);
        etag
    }

    pub(crate) fn delete(&mut self, key: &str) {
        if let Some(before) = self.current.remove(key) {
            self.remember(key, Some(before));
        }
    }

    fn remember(&mut self, key: &str, before: Option<FakeObject>) {
        self.replaced.push_back((key.to_owned(), before));
        if self.replaced.len() > CHANGES_MAX {
            self.replaced.pop_front();
        }
    }

    /// Lists a page of keys that begin with `prefix`, as of `behind` changes ago.
    pub(crate) fn list(&self, prefix: &str, page: &PageQuery, behind: usize, keys_max: usize) -> KeyPage {
        let view = self.before(behind);
        let max = page.keys_max.unwrap_or(KEYS_MAX).min(keys_max).min(KEYS_MAX);
        let starts_after = |key: &str| page.start_after.as_deref().is_none_or(|start| key > start);
        let mut listed = KeyPage::default();
        let mut last = page.token.clone();
        let from = view.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        for (key, object) in from.filter(|(key, _)| starts_after(key)) {
            let folded = page.delimiter.as_deref().and_then(|delimiter| folded(key, prefix, delimiter));
            let entry = folded.unwrap_or(key);
            if last.as_deref().is_some_and(|last| entry <= last) {
                continue;
            }
            if listed.objects.len() + listed.prefixes.len() == max {
                listed.next = last;
                break;
            }
            last = Some(entry.to_owned());
            match folded {
                Some(folded) => listed.prefixes.push(folded.to_owned()),
                None => listed.objects.push((key.clone(), object.clone())),
            }
        }
        listed
    }

    fn before(&self, changes: usize) -> Cow<'_, BTreeMap<String, FakeObject>> {
        if changes == 0 {
            return Cow::Borrowed(&self.current);
        }
        let mut view = self.current.clone();
        for (key, object) in self.replaced.iter().rev().take(changes) {
            match object {
                Some(object) => view.insert(key.clone(), object.clone()),
                None => view.remove(key),
            };
        }
        Cow::Owned(view)
    }
}

/// The common prefix of all keys that are equal up to the delimiter.
fn folded<'a>(key: &'a str, prefix: &str, delimiter: &str) -> Option<&'a str> {
    let at = key.get(prefix.len()..)?.find(delimiter)?;
    key.get(..prefix.len() + at + delimiter.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(keys: &[&str]) -> Objects {
        let mut objects = Objects::default();
        for key in keys {
            objects.put(key, Bytes::from_static(b"x"), 0);
        }
        objects
    }

    fn keys(listed: &KeyPage) -> Vec<&str> {
        listed.objects.iter().map(|(key, _)| key.as_str()).collect()
    }

    #[test]
    fn pages_are_sorted_and_continue_after_the_token() {
        let objects = objects(&["a/3", "a/1", "b/1", "a/2", "a/x/1", "a/x/2"]);
        let mut page =
            PageQuery { delimiter: Some("/".to_owned()), keys_max: Some(2), ..PageQuery::default() };
        let first = objects.list("a/", &page, 0, 1_000);
        assert_eq!((keys(&first), first.next.as_deref()), (vec!["a/1", "a/2"], Some("a/2")));
        page.token = first.next;
        let second = objects.list("a/", &page, 0, 1_000);
        assert_eq!((keys(&second), second.prefixes.as_slice()), (vec!["a/3"], &["a/x/".to_owned()][..]));
        assert_eq!(second.next, None);
    }

    #[test]
    fn a_list_starts_after_a_key_and_may_be_outdated() {
        let mut objects = objects(&["a/1", "a/2", "a/3"]);
        let page = PageQuery { start_after: Some("a/1".to_owned()), ..PageQuery::default() };
        assert_eq!(keys(&objects.list("a/", &page, 0, 1_000)), ["a/2", "a/3"]);
        objects.delete("a/2");
        objects.delete("missing");
        assert_eq!(keys(&objects.list("a/", &page, 0, 1_000)), ["a/3"]);
        assert_eq!(keys(&objects.list("a/", &page, 1, 1_000)), ["a/2", "a/3"]);
        assert_eq!(keys(&objects.list("a/", &page, 2, 1_000)), ["a/2"]);
    }
}
