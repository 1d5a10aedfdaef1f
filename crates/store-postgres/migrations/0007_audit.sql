-- The audit of the whole store: every heal of a task or a lock. Never edited once released.

-- A place begins with the time in milliseconds, counted backwards, so that the newest sort first; it names the rule,
-- the record and the version that the heal made.
CREATE TABLE goldseam.audit (
    place text COLLATE "C" PRIMARY KEY,
    rule  text NOT NULL,
    entry text NOT NULL
);
CREATE INDEX audit_rule ON goldseam.audit (rule, place);

-- An entry of a record that names the version being written is new: it is copied in the same transaction. The
-- arguments are the kind of the record and the column of its name.
CREATE FUNCTION goldseam.record_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO goldseam.audit (place, rule, entry)
    SELECT lpad((9999999999999 - (e.it->>'at')::bigint)::text, 13, '0') || '.' || (e.it#>>'{heal,rule}') || '.'
               || TG_ARGV[0] || '.' || (to_jsonb(NEW)->>TG_ARGV[1]) || '.' || lpad(NEW.version::text, 10, '0'),
           e.it#>>'{heal,rule}', e.it::text
    FROM jsonb_array_elements(NEW.audit::jsonb) AS e (it)
    WHERE (e.it#>>'{heal,version}')::bigint = NEW.version
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER audit_insert AFTER INSERT ON goldseam.tasks FOR EACH ROW
    WHEN (strpos(NEW.audit, '"heal"') > 0) EXECUTE FUNCTION goldseam.record_audit('task', 'id');
CREATE TRIGGER audit_update AFTER UPDATE OF audit ON goldseam.tasks FOR EACH ROW
    WHEN (NEW.audit IS DISTINCT FROM OLD.audit AND strpos(NEW.audit, '"heal"') > 0)
    EXECUTE FUNCTION goldseam.record_audit('task', 'id');
CREATE TRIGGER audit_insert AFTER INSERT ON goldseam.locks FOR EACH ROW
    WHEN (strpos(NEW.audit, '"heal"') > 0) EXECUTE FUNCTION goldseam.record_audit('lock', 'name');
CREATE TRIGGER audit_update AFTER UPDATE OF audit ON goldseam.locks FOR EACH ROW
    WHEN (NEW.audit IS DISTINCT FROM OLD.audit AND strpos(NEW.audit, '"heal"') > 0)
    EXECUTE FUNCTION goldseam.record_audit('lock', 'name');
