-- What changed, in the order in which it was committed: a reader that comes back with the last number it saw misses
-- nothing and sees nothing twice. Times cannot do that (a clock jumps, two writes share a millisecond, and a write may
-- commit after one that began later), so changes are counted, inside the transaction that makes them; there is one writer at
-- a time. Triggers count, so that no way of writing can forget it.
--
-- A row names what changed and holds nothing of it. `at` is when the row was stored, by the database's clock.
CREATE TABLE changes (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    scope   INTEGER NOT NULL REFERENCES scopes (id),
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    object  TEXT NOT NULL,
    -- Of a fact: each of its versions is a change of its own.
    version INTEGER,
    gone    INTEGER NOT NULL DEFAULT 0
) STRICT;
-- With the row's number behind it.
CREATE INDEX changes_by_scope ON changes (scope);

-- Of an episode only the present state is kept, so it has one place in the order: its newest. The number of its last change; NULL
-- = none since it was added.
ALTER TABLE episodes ADD COLUMN changed INTEGER;

INSERT INTO changes (scope, at, kind, object, version)
SELECT scope, at, kind, object, version
FROM (
    SELECT scope, body ->> '$.at' AS at, 'fact' AS kind, fact AS object, version FROM history
    UNION ALL
    SELECT scope, body ->> '$.recorded_at', 'episode', id, NULL FROM episodes
)
ORDER BY at, object, version;

CREATE TRIGGER fact_changed AFTER INSERT ON history BEGIN
    INSERT INTO changes (scope, at, kind, object, version)
    VALUES (new.scope, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'fact', new.fact, new.version);
END;

CREATE TRIGGER fact_gone AFTER DELETE ON facts BEGIN
    INSERT INTO changes (scope, at, kind, object, gone)
    VALUES (old.scope, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'fact', old.id, 1);
END;

CREATE TRIGGER episode_added AFTER INSERT ON episodes BEGIN
    INSERT INTO changes (scope, at, kind, object)
    VALUES (new.scope, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'episode', new.id);
END;

-- A use is no change.
CREATE TRIGGER episode_changed AFTER UPDATE OF body, status, retired_facts ON episodes
WHEN old.body IS NOT new.body OR old.status IS NOT new.status OR old.retired_facts IS NOT new.retired_facts
BEGIN
    INSERT INTO changes (scope, at, kind, object)
    VALUES (new.scope, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'episode', new.id);
    UPDATE episodes SET changed = last_insert_rowid() WHERE id = new.id;
END;

CREATE TRIGGER episode_gone AFTER DELETE ON episodes BEGIN
    INSERT INTO changes (scope, at, kind, object, gone)
    VALUES (old.scope, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'episode', old.id, 1);
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
