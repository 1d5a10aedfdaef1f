//! The credential of a worker's requests, and what it may use.

use std::collections::BTreeSet;

use goldseam_core::QueueName;
use goldseam_core::reserved::{self, Named};

use super::RemoteRefusal;

/// The credential of a request of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// Its name; none if the server requires no credentials.
    pub key: Option<String>,
    /// The queues that it may use; none: all except the engine's own.
    pub queues: Option<BTreeSet<QueueName>>,
    /// Whether it may use tokens of other credentials.
    pub operates: bool,
}

impl Holder {
    /// Whether it may use a token that was given to `key`.
    pub(super) fn may_use(&self, key: Option<&str>) -> bool {
        self.operates || self.key.as_deref() == key
    }

    /// Refuses queues of the engine, and queues that the credential may not use.
    pub(super) fn check_queue(&self, queue: &QueueName) -> Result<(), RemoteRefusal> {
        if let Some(prefix) = reserved::prefix(Named::Queue, queue.as_str()) {
            let why =
                format!("queue {queue} is reserved: names that begin with {prefix} belong to the engine");
            return Err(RemoteRefusal::Forbidden(why));
        }
        match &self.queues {
            Some(own) if !own.contains(queue) => {
                Err(RemoteRefusal::Forbidden(format!("this key may not use queue {queue}")))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses task kinds that are reserved for the engine.
pub(super) fn check_kind(kind: &str) -> Result<(), RemoteRefusal> {
    match reserved::prefix(Named::Kind, kind) {
        Some(prefix) => {
            let why = format!("kind {kind} is reserved: names that begin with {prefix} belong to the engine");
            Err(RemoteRefusal::Forbidden(why))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    #[test]
    fn holder_may_use_its_queues_but_never_those_of_the_engine() {
        let wide = Holder::default();
        let narrow = Holder { queues: Some([queue("images")].into()), ..Holder::default() };
        let all = Holder { queues: Some([queue("goldseam-mail")].into()), ..Holder::default() };
        for (holder, name, allowed) in [
            (&wide, "images", true),
            (&wide, "goldseam-mail", false),
            (&wide, "goldseam-heartbeat", false),
            (&wide, "goldseam.x", false),
            (&narrow, "images", true),
            (&narrow, "default", false),
            (&all, "goldseam-mail", false),
        ] {
            assert_eq!(holder.check_queue(&queue(name)).is_ok(), allowed, "{name}");
        }
        assert!(check_kind("resize").is_ok() && check_kind("goldseam.x").is_err());
    }

    #[test]
    fn token_is_usable_by_its_key_or_an_operator() {
        let key = |key: &str| Holder { key: Some(key.to_owned()), ..Holder::default() };
        assert!(key("a").may_use(Some("a")) && Holder::default().may_use(None));
        assert!(
            !key("a").may_use(Some("b")) && !key("a").may_use(None) && !Holder::default().may_use(Some("a"))
        );
        assert!(Holder { operates: true, ..key("a") }.may_use(Some("b")));
    }
}
