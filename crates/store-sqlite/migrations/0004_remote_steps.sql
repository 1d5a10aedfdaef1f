-- The remote step that a task does: its path, its attempt and its idempotency key, as JSON.
ALTER TABLE tasks ADD COLUMN step TEXT;
