-- What healing looks for. Never edited once released.

-- Runs whose cached row is lost.
CREATE INDEX runs_rowless ON runs (id) WHERE summary IS NULL;
