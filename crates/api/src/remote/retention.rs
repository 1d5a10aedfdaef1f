//! Pruning through a server.

use super::{EXAMINATION_MAX, Remote};
use crate::api::Answer;
use crate::caller::Caller;
use crate::doc::retention::{NewPrune, Pruned};

impl Remote {
    /// Archives runs that ended long ago where the server archives, then leaves a tombstone in place of each log. Asked
    /// again if the answer is lost: what was pruned is not pruned again, and not told of either.
    pub async fn prune(&self, caller: &Caller, new: &NewPrune) -> Answer<Pruned> {
        let new = NewPrune { by: new.by.clone().or_else(|| caller.who.clone()), ..new.clone() };
        self.ask(self.change(caller, "/v1/prune", &new)?.waiting(EXAMINATION_MAX)).await
    }
}
