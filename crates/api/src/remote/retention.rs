//! Pruning through a server.

use async_trait::async_trait;

use super::http::Request;
use super::{EXAMINATION_MAX, Remote};
use crate::api::{Answer, RetentionApi};
use crate::caller::Caller;
use crate::doc::retention::{NewPrune, PrunePlan, PruneQuery, Pruned};

#[async_trait]
impl RetentionApi for Remote {
    async fn plan_prune(&self, query: PruneQuery) -> Answer<PrunePlan> {
        self.send(Request::get("/v1/prune", &query)?.waiting(EXAMINATION_MAX)).await
    }
}

impl Remote {
    /// Archives runs that ended long ago into the server's archive and replaces each log by a tombstone. A repeat after
    /// a lost response is harmless: pruned runs are not pruned again, but the response does not list them.
    pub async fn prune(&self, caller: &Caller, new: &NewPrune) -> Answer<Pruned> {
        let new = NewPrune { by: new.by.clone().or_else(|| caller.who.clone()), ..new.clone() };
        self.send(self.change(caller, "/v1/prune", &new)?.waiting(EXAMINATION_MAX)).await
    }
}
