-- What healing looks for. Never edited once released.

-- Runs whose cached row is lost.
CREATE INDEX runs_rowless ON runs (id) WHERE summary IS NULL;

-- Runs by when they were last recovered, which `summary` says.
ALTER TABLE runs ADD COLUMN recovered_at INTEGER;
UPDATE runs SET recovered_at = json_extract(summary, '$.recovered_at') WHERE json_valid(summary);
CREATE INDEX runs_recovered ON runs (recovered_at, id) WHERE recovered_at IS NOT NULL;
