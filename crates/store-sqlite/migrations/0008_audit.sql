-- The audit of the whole store: every heal of a task or a lock. Never edited once released.

-- A place begins with the time in milliseconds, counted backwards, so that the newest sort first; it names the rule,
-- the record and the version that the heal made.
CREATE TABLE audit (
    place TEXT PRIMARY KEY,
    rule  TEXT NOT NULL,
    entry TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX audit_rule ON audit (rule, place);

-- An entry of a record that names the version being written is new: it is copied in the same transaction.
CREATE TRIGGER tasks_audit_insert AFTER INSERT ON tasks
WHEN NEW.audit IS NOT NULL AND instr(NEW.audit, '"heal"')
BEGIN
    INSERT OR IGNORE INTO audit (place, rule, entry)
    SELECT printf('%013d.%s.task.%s.%010d', 9999999999999 - (e.value ->> '$.at'), e.value ->> '$.heal.rule', NEW.id, NEW.version),
           e.value ->> '$.heal.rule', e.value
    FROM json_each(NEW.audit) AS e WHERE e.value ->> '$.heal.version' = NEW.version;
END;

CREATE TRIGGER tasks_audit_update AFTER UPDATE OF audit ON tasks
WHEN NEW.audit IS NOT NULL AND NEW.audit IS NOT OLD.audit AND instr(NEW.audit, '"heal"')
BEGIN
    INSERT OR IGNORE INTO audit (place, rule, entry)
    SELECT printf('%013d.%s.task.%s.%010d', 9999999999999 - (e.value ->> '$.at'), e.value ->> '$.heal.rule', NEW.id, NEW.version),
           e.value ->> '$.heal.rule', e.value
    FROM json_each(NEW.audit) AS e WHERE e.value ->> '$.heal.version' = NEW.version;
END;

CREATE TRIGGER locks_audit_insert AFTER INSERT ON locks
WHEN NEW.audit IS NOT NULL AND instr(NEW.audit, '"heal"')
BEGIN
    INSERT OR IGNORE INTO audit (place, rule, entry)
    SELECT printf('%013d.%s.lock.%s.%010d', 9999999999999 - (e.value ->> '$.at'), e.value ->> '$.heal.rule', NEW.name, NEW.version),
           e.value ->> '$.heal.rule', e.value
    FROM json_each(NEW.audit) AS e WHERE e.value ->> '$.heal.version' = NEW.version;
END;

CREATE TRIGGER locks_audit_update AFTER UPDATE OF audit ON locks
WHEN NEW.audit IS NOT NULL AND NEW.audit IS NOT OLD.audit AND instr(NEW.audit, '"heal"')
BEGIN
    INSERT OR IGNORE INTO audit (place, rule, entry)
    SELECT printf('%013d.%s.lock.%s.%010d', 9999999999999 - (e.value ->> '$.at'), e.value ->> '$.heal.rule', NEW.name, NEW.version),
           e.value ->> '$.heal.rule', e.value
    FROM json_each(NEW.audit) AS e WHERE e.value ->> '$.heal.version' = NEW.version;
END;
