//! Published values and requests.

use async_trait::async_trait;
use goldseam::client::{REQUEST_TIMEOUT, ReplyOptions, RequestOptions};
use goldseam::unstable::core::reserved::Named;
use goldseam::unstable::engine::ledger::dialogue::RequestError;
use goldseam::{EngineError, RunId};

use super::{LocalApi, limit};
use crate::api::{ApiResult, DialogueApi};
use crate::caller::Caller;
use crate::doc::ItemsDoc;
use crate::doc::dialogue::{NewRequest, PublishedDoc, ReplyQuery, RequestedDoc};
use crate::problem::Problem;

#[async_trait]
impl DialogueApi for LocalApi {
    async fn published_all(&self, run: &RunId) -> ApiResult<ItemsDoc<PublishedDoc>> {
        let published = self.client.published_all(run).await?;
        let items = published.into_iter().map(|published| PublishedDoc::new(run, published));
        Ok(items.collect::<Vec<_>>().into())
    }

    async fn published(&self, run: &RunId, name: &str) -> ApiResult<PublishedDoc> {
        Ok(PublishedDoc::new(run, self.client.published(run, name).await?))
    }

    async fn request(
        &self,
        caller: &Caller,
        run: &RunId,
        name: &str,
        new: NewRequest,
    ) -> ApiResult<RequestedDoc> {
        let payload = self.payload(&new.payload)?;
        let default = u64::try_from(REQUEST_TIMEOUT.as_millis()).unwrap_or_default();
        let timeout = limit::wait(Some(new.wait_ms.unwrap_or(default)))?;
        self.check_id(new.id.as_deref())?;
        limit::open(Named::Command, new.id.as_deref().unwrap_or_default())?;
        let derived = caller.command_id("request", run.as_str()).filter(|_| new.id.is_none());
        let has_key = derived.is_some();
        let options = RequestOptions { id: new.id.or(derived), timeout };
        match self.client.request(run, name, payload, options).await {
            Err(EngineError::Request(RequestError::OtherUse { .. })) if has_key => {
                Err(Problem::key_reused(run))
            }
            requested => Ok(RequestedDoc::new(run, name, requested?)),
        }
    }

    async fn reply(&self, run: &RunId, name: &str, query: ReplyQuery) -> ApiResult<RequestedDoc> {
        let timeout = limit::wait(query.wait_ms)?;
        self.check_id(Some(&query.id))?;
        let options = ReplyOptions { id: query.id, seq: query.event, timeout };
        let requested = self.client.reply(run, name, options).await?;
        Ok(RequestedDoc::new(run, name, requested))
    }
}
