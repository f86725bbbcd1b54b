-- Turns that wait to be shown to the extraction model, gathered in windows: one window is one question. A window takes
-- turns of its conversation until it is closed; it is closed when it is full, or when it is asked about for the first time.
CREATE TABLE windows (
    id          INTEGER PRIMARY KEY,
    scope       INTEGER NOT NULL REFERENCES scopes (id),
    session     TEXT NOT NULL,
    opened_at   INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    turns       INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    closed      INTEGER NOT NULL DEFAULT 0,
    attempts    INTEGER NOT NULL DEFAULT 0,
    owner       TEXT,
    lease_until INTEGER
) STRICT;
CREATE UNIQUE INDEX windows_open ON windows (scope, session) WHERE closed = 0;
CREATE INDEX windows_by_scope ON windows (scope, lease_until);
CREATE INDEX windows_by_time ON windows (due_at);

CREATE TABLE window_turns (
    seq       INTEGER PRIMARY KEY,
    exchange  TEXT NOT NULL UNIQUE,
    scope     INTEGER NOT NULL REFERENCES scopes (id),
    window_id INTEGER NOT NULL REFERENCES windows (id),
    turn_key  TEXT NOT NULL,
    turn      TEXT NOT NULL,
    UNIQUE (scope, turn_key)
) STRICT;
CREATE INDEX window_turns_by_window ON window_turns (window_id);

-- Tokens that models of ours used for a tenant, by day since 1970, UTC.
CREATE TABLE model_spending (
    tenant TEXT NOT NULL,
    day    INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;
