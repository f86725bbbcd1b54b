-- Virtual keys that were made at run time. A key has one secret, or two while an old one is being replaced; of a
-- secret only the hash is kept.
CREATE TABLE keys (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    tenant       TEXT NOT NULL,
    -- JSON; the settings of a [[keys]] table.
    settings     TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;

CREATE TABLE key_secrets (
    sha256     BLOB PRIMARY KEY,
    key        TEXT NOT NULL REFERENCES keys (id),
    expires_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX key_secrets_by_key ON key_secrets (key);
