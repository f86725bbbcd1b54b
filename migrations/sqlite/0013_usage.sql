-- What each exchange used and cost. Ids begin with the time, so rows come in order and a span of time is a range of ids.
-- An erasure takes subject and conversation out and leaves the rest. What has a default is left out of most inserts. Money is in billionths of a US dollar, times are in microseconds.
CREATE TABLE usage (
    exchange     TEXT NOT NULL PRIMARY KEY,
    at           INTEGER NOT NULL,             -- when the request arrived, in milliseconds since 1970
    tenant       TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    key          TEXT NOT NULL,                -- what people call it, never the key
    subject      TEXT,
    conversation TEXT,
    operation    TEXT NOT NULL,                -- chat, embeddings
    model        TEXT NOT NULL,                -- what the client asked for
    target       TEXT,                         -- provider/model that answered, or was asked last; none: nobody was asked
    attempts     INTEGER NOT NULL DEFAULT 1,
    stream       INTEGER NOT NULL,
    status       INTEGER NOT NULL DEFAULT 200, -- of the reply; 499: the client left before there was one
    outcome      TEXT NOT NULL DEFAULT 'complete', -- complete, cut, aborted, failed, refused
    estimated    INTEGER NOT NULL DEFAULT 0,   -- upstream did not say what it counted: these are our own figures
    input        INTEGER NOT NULL,
    cached       INTEGER NOT NULL DEFAULT 0,
    cache_write  INTEGER NOT NULL DEFAULT 0,
    reasoning    INTEGER NOT NULL DEFAULT 0,
    output       INTEGER NOT NULL,
    memory       INTEGER NOT NULL DEFAULT 0,   -- tokens of memory in the input
    cut          INTEGER NOT NULL DEFAULT 0,   -- tokens that were cut from the input
    cost         INTEGER,                      -- none: the price is not known
    memory_cost  INTEGER DEFAULT 0,            -- what the tokens of memory cost, as input that no cache has
    saved        INTEGER DEFAULT 0,            -- what the tokens that were cut would have cost
    total_us     INTEGER NOT NULL,
    first_us     INTEGER,                      -- until the first byte of the reply's body
    overhead_us  INTEGER NOT NULL              -- until the request was sent on for the first time
) WITHOUT ROWID;
-- An erasure finds the rows of one person by it.
CREATE INDEX usage_by_subject ON usage (tenant, namespace, subject) WHERE subject IS NOT NULL;
