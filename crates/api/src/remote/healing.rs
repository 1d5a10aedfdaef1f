//! Recovering, sweeping and examining over HTTP.

use async_trait::async_trait;
use goldseam::RunId;

use super::http::{NO_QUERY, run_path};
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

    async fn remedies(&self, run: &RunId) -> ApiResult<ItemsDoc<RecoveryDoc>> {
        self.get(run_path(run, "remedies"), NO_QUERY).await
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

    async fn doctor(
        &self,
        caller: &Caller,
        new: NewCheckup,
        progress: OnProgress<'_>,
    ) -> ApiResult<CheckupDoc> {
        if new.page || new.after.is_some() {
            return self.checkup(caller, &new).await;
        }
        let first = NewCheckup { page: true, limit: None, ..new.clone() };
        let mut all = match self.checkup_pass(caller, &first, progress).await {
            // Older servers know no pages.
            Err(problem) if problem.status == 400 || problem.status == 422 => {
                return self.checkup(caller, &new).await;
            }
            all => all?,
        };
        let mut healed = all.healed;
        for _ in 1..PASSES_MAX {
            if !new.fix || healed == 0 {
                break;
            }
            // A healed finding may have hidden others.
            let again = self.checkup_pass(caller, &first, progress).await?;
            healed = again.healed;
            let scanned = all.scanned.max(again.scanned);
            all.healthy = true;
            all.add(again);
            all.scanned = scanned;
        }
        let beyond = all.total.saturating_sub(all.findings.len() as u64);
        let mut all = all.counted(new.limit);
        all.total += beyond;
        Ok(all)
    }
}

/// Maximum passes over the store in one examination.
const PASSES_MAX: u32 = 3;

impl RemoteApi {
    /// Examines the whole store once, page by page.
    async fn checkup_pass(
        &self,
        caller: &Caller,
        first: &NewCheckup,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> ApiResult<CheckupDoc> {
        let mut all = self.checkup(caller, first).await?;
        while let Some(after) = all.next.take() {
            progress(all.scanned);
            all.add(self.checkup(caller, &NewCheckup { after: Some(after), ..first.clone() }).await?);
        }
        Ok(all)
    }

    async fn checkup(&self, caller: &Caller, new: &NewCheckup) -> ApiResult<CheckupDoc> {
        self.send(self.change(caller, "/v1/doctor", new)?.waiting(EXAMINATION_MAX)).await
    }
}
