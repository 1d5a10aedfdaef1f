//! The audit: triggers copy the entries of tasks and locks into it, in the transaction that writes the record.

use async_trait::async_trait;
use goldseam_core::Millis;
use goldseam_core::audit::Audit;
use goldseam_store::audit::place_bound;
use goldseam_store::{AuditEntry, AuditFilter, AuditLog, Page, StoreError};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::fault::PgFault;
use crate::sql::{column, json};

const LIST: &str = "SELECT place, entry FROM goldseam.audit WHERE place > $1 AND place < $2 \
    AND ($4::text IS NULL OR rule = $4) ORDER BY place LIMIT $3";
const TRIM: &str = "WITH old AS (DELETE FROM goldseam.audit WHERE place IN (\
        SELECT place FROM goldseam.audit WHERE place >= $1 ORDER BY place DESC LIMIT $2) RETURNING 1) \
    SELECT count(*) FROM old";

#[async_trait]
impl AuditLog for PostgresStore {
    async fn audit_entries(&self, filter: AuditFilter) -> Result<Page<AuditEntry>, StoreError> {
        let (after, until) = filter.bounds();
        let limit = i64::from(filter.limit) + 1;
        let values = [
            (&after as _, Type::TEXT),
            (&until as _, Type::TEXT),
            (&limit as _, Type::INT8),
            (&filter.rule as _, Type::TEXT),
        ];
        let rows = self.reader().read(LIST, &values).await?;
        let entry = |row: &tokio_postgres::Row| {
            let (place, entry): (String, String) = (column(row, 0)?, column(row, 1)?);
            let read = json::<Audit>(Some(&entry)).ok().flatten();
            let entry = read.and_then(|audit| AuditEntry::at_place(&place, &audit));
            Ok((place, entry))
        };
        let found: Result<Vec<_>, PgFault> = rows.iter().map(entry).collect();
        Ok(filter.page(found.map_err(|fault| fault.to_read_error())?))
    }

    async fn trim_audit(&self, before: Millis, limit: u32) -> Result<u64, StoreError> {
        let before = place_bound(before);
        let limit = i64::from(limit);
        let values = [(&before as _, Type::TEXT), (&limit as _, Type::INT8)];
        let trim = async {
            let rows = self.write.query(TRIM, &values).await?;
            let removed: i64 = rows.first().map_or(Ok(0), |row| column(row, 0))?;
            Ok(removed.unsigned_abs())
        };
        trim.await.map_err(|fault: PgFault| fault.to_error("trimming the audit"))
    }
}
