-- What changed, in the order in which it was committed: a reader that comes back with the last number it saw misses
-- nothing and sees nothing twice. Times cannot do that (a clock jumps, two writes share a millisecond, and a write may
-- commit after one that began later), so each scope counts its changes, inside the transaction that makes them; there is
-- one writer at a time. Triggers count, so that no way of writing can forget it.
--
-- A row names what changed and holds nothing of it. `at` is when the row was stored, by the database's clock.
ALTER TABLE scopes ADD COLUMN change_seq INTEGER NOT NULL DEFAULT 0;

CREATE TABLE changes (
    scope   INTEGER NOT NULL REFERENCES scopes (id),
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    object  TEXT NOT NULL,
    -- Of a fact: each of its versions is a change of its own.
    version INTEGER,
    gone    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX changes_of_episodes ON changes (object) WHERE kind = 'episode';

INSERT INTO changes (scope, seq, at, kind, object, version)
SELECT scope, row_number() OVER (PARTITION BY scope ORDER BY at, object, version), at, kind, object, version
FROM (
    SELECT scope, body ->> '$.at' AS at, 'fact' AS kind, fact AS object, version FROM history
    UNION ALL
    SELECT scope, body ->> '$.recorded_at', 'episode', id, NULL FROM episodes
);
UPDATE scopes SET change_seq = coalesce((SELECT max(c.seq) FROM changes c WHERE c.scope = scopes.id), 0);

CREATE TRIGGER fact_changed AFTER INSERT ON history BEGIN
    UPDATE scopes SET change_seq = change_seq + 1 WHERE id = new.scope;
    INSERT INTO changes (scope, seq, at, kind, object, version)
    SELECT id, change_seq, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'fact', new.fact, new.version
    FROM scopes WHERE id = new.scope;
END;

CREATE TRIGGER fact_gone AFTER DELETE ON facts BEGIN
    UPDATE scopes SET change_seq = change_seq + 1 WHERE id = old.scope;
    INSERT INTO changes (scope, seq, at, kind, object, gone)
    SELECT id, change_seq, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'fact', old.id, 1
    FROM scopes WHERE id = old.scope;
END;

CREATE TRIGGER episode_added AFTER INSERT ON episodes BEGIN
    UPDATE scopes SET change_seq = change_seq + 1 WHERE id = new.scope;
    INSERT INTO changes (scope, seq, at, kind, object)
    SELECT id, change_seq, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'episode', new.id
    FROM scopes WHERE id = new.scope;
END;

-- Of an episode only the present state is kept, so it has one place in the order: its newest. A use is no change.
CREATE TRIGGER episode_changed AFTER UPDATE OF body, status, retired_facts ON episodes
WHEN old.body IS NOT new.body OR old.status IS NOT new.status OR old.retired_facts IS NOT new.retired_facts
BEGIN
    DELETE FROM changes WHERE kind = 'episode' AND object = new.id;
    UPDATE scopes SET change_seq = change_seq + 1 WHERE id = new.scope;
    INSERT INTO changes (scope, seq, at, kind, object)
    SELECT id, change_seq, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'episode', new.id
    FROM scopes WHERE id = new.scope;
END;

CREATE TRIGGER episode_gone AFTER DELETE ON episodes BEGIN
    DELETE FROM changes WHERE kind = 'episode' AND object = old.id;
    UPDATE scopes SET change_seq = change_seq + 1 WHERE id = old.scope;
    INSERT INTO changes (scope, seq, at, kind, object, gone)
    SELECT id, change_seq, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'episode', old.id, 1
    FROM scopes WHERE id = old.scope;
END;

-- When an episode was put aside, so that it can be dropped some time later.
ALTER TABLE episodes ADD COLUMN archived_at INTEGER;
CREATE INDEX episodes_archived ON episodes (scope, archived_at) WHERE archived_at IS NOT NULL;

-- What was done to a whole scope by hand. Another scope is named by its hash only, so that its erasure is complete.
CREATE TABLE audit (
    seq   INTEGER PRIMARY KEY AUTOINCREMENT,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    at    INTEGER NOT NULL,
    body  TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_scope ON audit (scope, seq);

-- Where a job of ours stands; no one's data.
CREATE TABLE marks (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How many conversations a key's requests began for its most frequent subjects, by the place that named them; for `doctor`.
-- The subject is a hash, salted like the tombstones.
CREATE TABLE subject_use (
    tenant     TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    source     TEXT NOT NULL,
    subject    BLOB NOT NULL,
    begun      INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (tenant, namespace, source, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX subject_use_by_subject ON subject_use (subject);
