//! The authenticated caller of a request, and the address that the request came from.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use goldseam::unstable::core::QueueName;
use goldseam_api::Problem;
use goldseam_api::credentials::passes::OpenedPass;
use goldseam_api::doc::key::Scope;

use crate::reply::ProblemResponse;
use crate::route_table::Need;

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// A name for people and for the logs of runs.
    pub name: String,
    /// Id of the key; `None` if the server requires no key.
    pub key: Option<String>,
    /// The granted scopes.
    pub scopes: BTreeSet<Scope>,
    /// The queues that it may claim from; `None` allows all.
    pub queues: Option<BTreeSet<QueueName>>,
}

impl Principal {
    /// Returns the caller of a request without a key, on a server that requires none.
    pub(crate) fn local() -> Self {
        Self { name: "local".to_owned(), key: None, scopes: Scope::ALL.into_iter().collect(), queues: None }
    }

    /// Refuses a queue that this caller may not claim from.
    pub(crate) fn may_claim_from(&self, queues: &[QueueName]) -> Result<(), Problem> {
        let Some(own) = &self.queues else { return Ok(()) };
        let Some(other) = queues.iter().find(|queue| !own.contains(*queue)) else { return Ok(()) };
        let own: Vec<&str> = own.iter().map(QueueName::as_str).collect();
        Err(Problem::new(403, format!("key {:?} may not claim from queue {other}", self.name))
            .code("GS0602")
            .hint(format!(
                "it may claim from {}; create another key: goldseam key create NAME --scope worker --queue {other}",
                own.join(", ")
            )))
    }
}

/// The origin of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// Address of the client: the peer, or the address that a trusted proxy names.
    pub(crate) client: IpAddr,
    /// Whether the request came through a trusted proxy.
    pub(crate) is_behind_proxy: bool,
    /// Whether only this machine can reach the listener.
    pub(crate) is_loopback: bool,
}

/// The pass that a request presented.
#[derive(Debug, Clone)]
pub(crate) struct PresentedPass {
    pub(crate) opened: Arc<OpenedPass>,
    /// What the request proved: the whole pass, or only its ticket.
    pub(crate) proves: Need,
}

impl<S: Send + Sync> FromRequestParts<S> for PresentedPass {
    type Rejection = ProblemResponse;

    /// Fails closed: refuses a request without a pass.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| unauthenticated().into())
    }
}

/// The problem of a request without a valid key.
pub(crate) fn unauthenticated() -> Problem {
    Problem::new(401, "this request needs a valid API key")
        .code("GS0601")
        .hint("send `authorization: Bearer KEY`; create a key: goldseam key create NAME --scope read")
}
