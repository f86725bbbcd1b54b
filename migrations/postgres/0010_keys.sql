-- Virtual keys that were made at run time. A key has one secret, or two while an old one is being replaced; of a
-- secret only the hash is kept.
CREATE TABLE keys (
    id           TEXT COLLATE "C" PRIMARY KEY,
    name         TEXT COLLATE "C" NOT NULL,
    tenant       TEXT COLLATE "C" NOT NULL,
    -- JSON; the settings of a [[keys]] table.
    settings     TEXT COLLATE "C" NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT
);

CREATE TABLE key_secrets (
    sha256     BYTEA PRIMARY KEY,
    key        TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT
);
CREATE INDEX key_secrets_by_key ON key_secrets (key);
