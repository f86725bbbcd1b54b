-- Summaries of beginnings of conversations, and for each cut which of them its digest uses.
-- kind is 'summary' (body: the summary) or 'cut' (body: the summary that was chosen, or null for none).
CREATE TABLE digests (
    scope      INTEGER NOT NULL REFERENCES scopes (id),
    kind       TEXT NOT NULL,
    prefix     BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    body       TEXT NOT NULL,
    PRIMARY KEY (scope, kind, prefix)
) STRICT, WITHOUT ROWID;
CREATE INDEX digests_by_age ON digests (expires_at);
