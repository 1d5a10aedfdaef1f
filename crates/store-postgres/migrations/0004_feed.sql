-- The order of everything that is appended, for those who follow all of it. Never edited once released.

-- The transaction that appended it. What was there before this column counts as appended by this migration.
ALTER TABLE goldseam.events
    ADD COLUMN xid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint);
CREATE INDEX events_feed ON goldseam.events (xid);
