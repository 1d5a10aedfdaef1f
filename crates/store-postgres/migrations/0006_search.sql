-- Searching runs by attributes and by workflow. Never edited once released.

-- Runs of a workflow in the order of lists.
CREATE INDEX runs_workflow ON goldseam.runs (workflow, created_at, id);

-- Attributes of runs, which `summary` says: one entry per value, and per text of a list.
-- `kind`: t text, n number, d time in milliseconds, b boolean, e an empty list.
CREATE TABLE goldseam.run_attributes (
    name       text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    text       text COLLATE "C" NOT NULL,
    number     double precision NOT NULL,
    created_at bigint NOT NULL,
    rid        bigint NOT NULL,
    PRIMARY KEY (name, kind, text, number, created_at, rid)
);
CREATE INDEX run_attributes_run ON goldseam.run_attributes (rid, name);

-- Writes the entries of a run from its summary. Called by triggers, so that programs of every release keep the entries
-- true. A run without attributes costs the search for a word in its summary. A program that does not know attributes
-- leaves them out of the summary, and the entries as they are.
CREATE FUNCTION goldseam.index_attributes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_update constant boolean := TG_OP = 'UPDATE';
    now_has jsonb := coalesce(goldseam.read_json(NEW.summary)->'attributes', '{}');
BEGIN
    IF is_update THEN
        IF OLD.created_at IS NOT DISTINCT FROM NEW.created_at
            AND coalesce(goldseam.read_json(OLD.summary)->'attributes', '{}') = now_has
        THEN
            RETURN NULL;
        END IF;
        DELETE FROM goldseam.run_attributes AS a WHERE a.rid = NEW.rid;
    END IF;
    IF NEW.created_at IS NULL OR jsonb_typeof(now_has) <> 'object' THEN
        RETURN NULL;
    END IF;
    INSERT INTO goldseam.run_attributes (name, kind, text, number, created_at, rid)
    SELECT a.key,
        CASE jsonb_typeof(a.value) WHEN 'string' THEN 't' WHEN 'number' THEN 'n' WHEN 'boolean' THEN 'b'
            WHEN 'object' THEN 'd' ELSE 'e' END,
        CASE jsonb_typeof(a.value) WHEN 'string' THEN a.value #>> '{}' ELSE '' END,
        CASE jsonb_typeof(a.value) WHEN 'number' THEN (a.value #>> '{}')::double precision
            WHEN 'boolean' THEN (a.value #>> '{}')::boolean::int::double precision
            WHEN 'object' THEN coalesce((a.value ->> 'time')::double precision, 0) ELSE 0 END,
        NEW.created_at, NEW.rid
    FROM jsonb_each(now_has) AS a
    WHERE jsonb_typeof(a.value) <> 'array' OR a.value = '[]'
    UNION
    SELECT a.key, 't', e.value #>> '{}', 0, NEW.created_at, NEW.rid
    FROM jsonb_each(now_has) AS a
        CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(a.value) WHEN 'array' THEN a.value ELSE '[]' END) AS e
    WHERE jsonb_typeof(e.value) = 'string'
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER run_attributes_insert AFTER INSERT ON goldseam.runs FOR EACH ROW
    WHEN (NEW.summary IS NOT NULL AND strpos(NEW.summary, '"attributes"') > 0)
    EXECUTE FUNCTION goldseam.index_attributes();
CREATE TRIGGER run_attributes_update AFTER UPDATE OF summary ON goldseam.runs FOR EACH ROW
    WHEN (NEW.summary IS NOT NULL AND strpos(NEW.summary, '"attributes') > 0)
    EXECUTE FUNCTION goldseam.index_attributes();
