-- Everything that one subject told us hangs below a row of `scopes`. The body of a record is JSON; what a statement
-- selects or orders by is a column of its own.

CREATE TABLE secrets (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Known by the hash of its three names, so that the name of an erased subject need not stay.
CREATE TABLE scopes (
    id              INTEGER PRIMARY KEY,
    key             BLOB NOT NULL UNIQUE,
    tenant          TEXT NOT NULL,
    namespace       TEXT NOT NULL,
    subject         TEXT,
    revision        INTEGER NOT NULL DEFAULT 0,
    epoch           INTEGER NOT NULL DEFAULT 0,
    -- The last erasure: what was shown before it, or rests on an earlier revision, is not stored any more.
    erased_at       INTEGER,
    erased_revision INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX scopes_by_subject ON scopes (tenant, subject) WHERE subject IS NOT NULL;

CREATE TABLE outbox (
    seq         INTEGER PRIMARY KEY,
    exchange    TEXT NOT NULL UNIQUE,
    scope       INTEGER NOT NULL REFERENCES scopes (id),
    turn        TEXT NOT NULL,
    appended_at INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    owner       TEXT,
    lease_until INTEGER
) STRICT;
-- Small: only rows that are being worked on.
CREATE INDEX outbox_leases ON outbox (scope, lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX outbox_by_scope ON outbox (scope);

CREATE TABLE dead_letters (
    exchange TEXT PRIMARY KEY,
    scope    INTEGER NOT NULL REFERENCES scopes (id),
    turn     TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    error    TEXT NOT NULL,
    dead_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX dead_letters_by_scope ON dead_letters (scope);
CREATE INDEX dead_letters_by_age ON dead_letters (dead_at);

CREATE TABLE seen (
    scope    INTEGER NOT NULL REFERENCES scopes (id),
    turn_key TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (scope, turn_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_by_age ON seen (at);

CREATE TABLE facts (
    id      TEXT PRIMARY KEY,
    scope   INTEGER NOT NULL REFERENCES scopes (id),
    key     TEXT NOT NULL,
    status  TEXT NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT NOT NULL
) STRICT;
CREATE INDEX facts_by_scope ON facts (scope, id);

CREATE TABLE history (
    fact    TEXT NOT NULL,
    version INTEGER NOT NULL,
    scope   INTEGER NOT NULL REFERENCES scopes (id),
    body    TEXT NOT NULL,
    PRIMARY KEY (fact, version)
) STRICT;
CREATE INDEX history_by_scope ON history (scope);

CREATE TABLE episodes (
    id            TEXT PRIMARY KEY,
    scope         INTEGER NOT NULL REFERENCES scopes (id),
    session       TEXT NOT NULL,
    status        TEXT NOT NULL,
    body          TEXT NOT NULL,
    -- What changes after the episode is written, so that its body need not be written again.
    uses          INTEGER NOT NULL,
    last_used_at  INTEGER,
    retired_facts TEXT NOT NULL
) STRICT;
CREATE INDEX episodes_by_scope ON episodes (scope, id);

CREATE TABLE proposals (
    id     TEXT PRIMARY KEY,
    scope  INTEGER NOT NULL REFERENCES scopes (id),
    status TEXT NOT NULL,
    fact   TEXT,
    at     INTEGER NOT NULL,
    body   TEXT NOT NULL
) STRICT;
CREATE INDEX proposals_by_scope ON proposals (scope, id);
CREATE INDEX proposals_by_fact ON proposals (fact) WHERE fact IS NOT NULL;
CREATE INDEX proposals_by_age ON proposals (at);

CREATE TABLE tombstones (
    scope INTEGER NOT NULL REFERENCES scopes (id),
    hash  BLOB NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (scope, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE turn_states (
    scope      INTEGER NOT NULL REFERENCES scopes (id),
    prefix     BLOB NOT NULL,
    revision   INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    body       TEXT NOT NULL,
    PRIMARY KEY (scope, prefix)
) STRICT;
CREATE INDEX turn_states_by_age ON turn_states (expires_at);

CREATE TABLE exchanges (
    id    TEXT PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    at    INTEGER NOT NULL,
    body  TEXT NOT NULL
) STRICT;
CREATE INDEX exchanges_by_scope ON exchanges (scope);
CREATE INDEX exchanges_by_age ON exchanges (at);
