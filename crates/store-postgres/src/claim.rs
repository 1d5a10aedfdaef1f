//! Claims: due tasks, highest priority first, at most one claimed task per lane. An SQL function does all of it.

use goldseam_core::Millis;
use goldseam_store::{ClaimRequest, ClaimedTasks, StoreError};
use tokio_postgres::types::Type;

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::sql::column;
use crate::tasks::TaskRow;

const CLAIM: &str = "SELECT claimed, next_due FROM goldseam.claim_group($1, $2, $3, $4, $5)";

/// Claims due tasks.
pub(crate) async fn claim(
    connection: &PgConnection,
    claim: &ClaimRequest,
) -> Result<ClaimedTasks, StoreError> {
    take(connection, claim).await.map_err(|fault| fault.to_error("claiming"))
}

async fn take(connection: &PgConnection, claim: &ClaimRequest) -> Result<ClaimedTasks, PgFault> {
    let mut pools = claim.pools.clone();
    pools.sort_unstable();
    pools.dedup();
    let limit = i32::try_from(claim.limit).unwrap_or(i32::MAX);
    let values = [
        (&claim.owner as _, Type::TEXT),
        (&pools as _, Type::TEXT_ARRAY),
        (&claim.kind as _, Type::TEXT),
        (&limit as _, Type::INT4),
        (&claim.now.0 as _, Type::INT8),
    ];
    let answer = connection.query(CLAIM, &values).await?;
    let row = answer.first().ok_or_else(|| PgFault::Damaged("the claim returned no row".to_owned()))?;
    let texts: Vec<String> = column(row, 0)?;
    let mut tasks = Vec::with_capacity(texts.len());
    for text in texts {
        match TaskRow::parse(&text) {
            Ok(task) => tasks.push(task),
            // The task stays claimed for an operator to look at, and does not delay others.
            Err(fault) => tracing::error!(?fault, "skipped an unreadable task"),
        }
    }
    let next: Option<i64> = column(row, 1)?;
    Ok(ClaimedTasks { tasks, next_due: next.map(Millis).filter(|at| *at < Millis::NEVER) })
}
