-- Searching runs by attributes and by workflow. Never edited once released.

-- Runs of a workflow in the order of lists.
CREATE INDEX runs_workflow ON runs (workflow, created_at);

-- Attributes of runs, which `summary` says: one entry per value, and per text of a list.
-- `kind`: t text, n number, d time in milliseconds, b boolean, e an empty list.
CREATE TABLE run_attributes (
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    text       TEXT NOT NULL,
    number     REAL NOT NULL,
    created_at INTEGER NOT NULL,
    rid        INTEGER NOT NULL,
    PRIMARY KEY (name, kind, text, number, created_at, rid)
) WITHOUT ROWID;
CREATE INDEX run_attributes_run ON run_attributes (rid, name);

-- Triggers, so that programs of every release keep the entries true. A run without attributes costs the search for a
-- word in its summary. A program that does not know attributes leaves them out of the summary, and the entries as they
-- are.
CREATE TRIGGER run_attributes_insert AFTER INSERT ON runs
WHEN NEW.summary IS NOT NULL AND instr(NEW.summary, '"attributes"') > 0 AND json_valid(NEW.summary)
BEGIN
    INSERT OR IGNORE INTO run_attributes (name, kind, text, number, created_at, rid)
    SELECT a.key,
        CASE a.type WHEN 'text' THEN 't' WHEN 'integer' THEN 'n' WHEN 'real' THEN 'n' WHEN 'true' THEN 'b'
            WHEN 'false' THEN 'b' WHEN 'object' THEN 'd' ELSE 'e' END,
        CASE a.type WHEN 'text' THEN a.value ELSE '' END,
        CASE a.type WHEN 'integer' THEN a.value WHEN 'real' THEN a.value WHEN 'true' THEN 1
            WHEN 'object' THEN coalesce(json_extract(a.value, '$.time'), 0) ELSE 0 END,
        NEW.created_at, NEW.rid
    FROM json_each(NEW.summary, '$.attributes') AS a WHERE a.type <> 'array' OR json_array_length(a.value) = 0;
    INSERT OR IGNORE INTO run_attributes (name, kind, text, number, created_at, rid)
    SELECT a.key, 't', e.value, 0, NEW.created_at, NEW.rid
    FROM json_each(NEW.summary, '$.attributes') AS a, json_each(a.value) AS e
    WHERE a.type = 'array' AND e.type = 'text';
END;
CREATE TRIGGER run_attributes_update AFTER UPDATE OF summary ON runs
WHEN NEW.summary IS NOT NULL AND instr(NEW.summary, '"attributes') > 0 AND json_valid(NEW.summary)
    AND (NOT coalesce(json_valid(OLD.summary), 0) OR OLD.created_at IS NOT NEW.created_at
        OR json_extract(OLD.summary, '$.attributes') IS NOT json_extract(NEW.summary, '$.attributes'))
BEGIN
    DELETE FROM run_attributes WHERE rid = NEW.rid;
    INSERT OR IGNORE INTO run_attributes (name, kind, text, number, created_at, rid)
    SELECT a.key,
        CASE a.type WHEN 'text' THEN 't' WHEN 'integer' THEN 'n' WHEN 'real' THEN 'n' WHEN 'true' THEN 'b'
            WHEN 'false' THEN 'b' WHEN 'object' THEN 'd' ELSE 'e' END,
        CASE a.type WHEN 'text' THEN a.value ELSE '' END,
        CASE a.type WHEN 'integer' THEN a.value WHEN 'real' THEN a.value WHEN 'true' THEN 1
            WHEN 'object' THEN coalesce(json_extract(a.value, '$.time'), 0) ELSE 0 END,
        NEW.created_at, NEW.rid
    FROM json_each(NEW.summary, '$.attributes') AS a WHERE a.type <> 'array' OR json_array_length(a.value) = 0;
    INSERT OR IGNORE INTO run_attributes (name, kind, text, number, created_at, rid)
    SELECT a.key, 't', e.value, 0, NEW.created_at, NEW.rid
    FROM json_each(NEW.summary, '$.attributes') AS a, json_each(a.value) AS e
    WHERE a.type = 'array' AND e.type = 'text';
END;
