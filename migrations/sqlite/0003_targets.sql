-- What was learned about each upstream target from its answers: how it counts, and how large its window is. It belongs to
-- no scope: nothing of a request is in it but numbers.
CREATE TABLE targets (
    target   TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    body     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX targets_by_age ON targets (at);
