//! The optional parts of a store, for wrappers that forward to them.

use crate::api::Store;
use crate::audit::{AuditLog, NoAudit};
use crate::foreign::{ForeignStates, NoForeignStates};

/// Returns the audit of a store.
pub(crate) fn audit_of(store: &dyn Store) -> &dyn AuditLog {
    store.audit().unwrap_or(&NoAudit)
}

/// Returns the foreign states of a store.
pub(crate) fn foreign_of(store: &dyn Store) -> &dyn ForeignStates {
    store.foreign().unwrap_or(&NoForeignStates)
}
