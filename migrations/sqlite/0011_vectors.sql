-- Vectors of episodes. All of it is derived: it can be made again from the texts.
--
-- Vectors of two models cannot be compared, so each belongs to a generation. A new one is filled in the order of `changes`; where it stands
-- is its `cursor`, which also tells what came later.
CREATE TABLE generations (
    number          INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    model           TEXT NOT NULL,
    -- Of its vectors; 0 = not known yet.
    dimension       INTEGER NOT NULL DEFAULT 0,
    query_prefix    TEXT NOT NULL,
    document_prefix TEXT NOT NULL,
    state           TEXT NOT NULL,
    cursor          INTEGER NOT NULL DEFAULT 0,
    -- Vectors of texts of our own that the others are measured by.
    background      BLOB,
    started_at      INTEGER NOT NULL,
    ready_at        INTEGER,
    -- When a process last said that it uses it: one that nobody uses any more is dropped.
    used_at         INTEGER NOT NULL,
    -- Who makes its vectors now.
    owner           TEXT,
    lease_until     INTEGER
) STRICT;

-- In the order in which they are read: a scope at a time.
CREATE TABLE vectors (
    scope      INTEGER NOT NULL REFERENCES scopes (id),
    episode    TEXT NOT NULL,
    generation INTEGER NOT NULL REFERENCES generations (number),
    body       BLOB NOT NULL,
    PRIMARY KEY (scope, episode, generation)
) STRICT, WITHOUT ROWID;

-- Whatever takes an episode away takes its vectors along.
CREATE TRIGGER episode_gone_with_vectors AFTER DELETE ON episodes BEGIN
    DELETE FROM vectors WHERE scope = old.scope AND episode = old.id;
END;
