//! Recovering, sweeping and examining over HTTP.

use async_trait::async_trait;
use goldseam::RunId;

use super::http::run_path;
use super::{EXAMINATION_MAX, RemoteApi};
use crate::api::{ApiResult, HealingApi, OnProgress};
use crate::caller::Caller;
use crate::doc::change::{BranchedDoc, NewNote, NewRecovery, RecoveryDoc};
use crate::doc::heal::{
    CheckupDoc, HealingDoc, HealingStatsDoc, HealingStatsQuery, NewCheckup, NewSweep, RecoveriesQuery,
    SweepDoc,
};
use crate::doc::{ItemsDoc, PageDoc};

#[async_trait]
impl HealingApi for RemoteApi {
    async fn recover(&self, caller: &Caller, run: &RunId, new: NewRecovery) -> ApiResult<RecoveryDoc> {
        let new = NewRecovery { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "recover"), &new).await
    }

    async fn undo_recovery(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<BranchedDoc> {
        self.post_reason(caller, run, "undo-recovery", reason).await
    }

    async fn recoveries(&self, query: RecoveriesQuery) -> ApiResult<PageDoc<HealingDoc>> {
        self.get("/v1/recoveries", &query).await
    }

    async fn recovery_stats(&self, query: HealingStatsQuery) -> ApiResult<ItemsDoc<HealingStatsDoc>> {
        self.get("/v1/recoveries/stats", &query).await
    }

    async fn sweep(&self, caller: &Caller, new: NewSweep) -> ApiResult<SweepDoc> {
        self.send(self.change(caller, "/v1/sweep", &new)?.waiting(EXAMINATION_MAX)).await
    }

    async fn doctor(&self, caller: &Caller, new: NewCheckup, _: OnProgress<'_>) -> ApiResult<CheckupDoc> {
        self.send(self.change(caller, "/v1/doctor", &new)?.waiting(EXAMINATION_MAX)).await
    }
}
