-- Summaries of beginnings of conversations, and for each cut which of them its digest uses.
-- kind is 'summary' (body: the summary) or 'cut' (body: the summary that was chosen, or null for none).
CREATE TABLE digests (
    scope      BIGINT NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    prefix     BYTEA NOT NULL,
    expires_at BIGINT NOT NULL,
    body       TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, kind, prefix)
);
CREATE INDEX digests_by_age ON digests (expires_at);
