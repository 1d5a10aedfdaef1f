//! Recovering, sweeping and examining over HTTP.

use async_trait::async_trait;
use goldseam::RunId;

use super::http::run_path;
use super::{EXAMINATION_MAX, Remote};
use crate::api::{Answer, HealingApi, OnProgress};
use crate::caller::Caller;
use crate::doc::change::{Branched, NewRecovery, Reason, Recovery};
use crate::doc::heal::{
    Checkup, Healing, HealingStats, HealingStatsQuery, NewCheckup, NewSweep, RecoveriesQuery, Sweep,
};
use crate::doc::{Items, Page};

#[async_trait]
impl HealingApi for Remote {
    async fn recover(&self, caller: &Caller, run: &RunId, new: NewRecovery) -> Answer<Recovery> {
        let new = NewRecovery { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "recover"), &new).await
    }

    async fn undo_recovery(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Branched> {
        self.post_reason(caller, run, "undo-recovery", reason).await
    }

    async fn recoveries(&self, query: RecoveriesQuery) -> Answer<Page<Healing>> {
        self.get("/v1/recoveries", &query).await
    }

    async fn recovery_stats(&self, query: HealingStatsQuery) -> Answer<Items<HealingStats>> {
        self.get("/v1/recoveries/stats", &query).await
    }

    async fn sweep(&self, caller: &Caller, new: NewSweep) -> Answer<Sweep> {
        self.send(self.change(caller, "/v1/sweep", &new)?.waiting(EXAMINATION_MAX)).await
    }

    async fn doctor(&self, caller: &Caller, new: NewCheckup, _: OnProgress<'_>) -> Answer<Checkup> {
        self.send(self.change(caller, "/v1/doctor", &new)?.waiting(EXAMINATION_MAX)).await
    }
}
