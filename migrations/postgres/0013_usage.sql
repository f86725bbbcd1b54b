-- What each exchange used and cost. Ids begin with the time, so rows come in order and a span of time is a range of ids.
-- An erasure takes subject and conversation out and leaves the rest. What has a default is left out of most inserts. Money is in billionths of a US dollar, times are in microseconds.
CREATE TABLE usage (
    exchange     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at           BIGINT NOT NULL,             -- when the request arrived, in milliseconds since 1970
    tenant       TEXT COLLATE "C" NOT NULL,
    namespace    TEXT COLLATE "C" NOT NULL,
    key          TEXT COLLATE "C" NOT NULL,                -- what people call it, never the key
    subject      TEXT COLLATE "C",
    conversation TEXT COLLATE "C",
    operation    TEXT COLLATE "C" NOT NULL,                -- chat, embeddings
    model        TEXT COLLATE "C" NOT NULL,                -- what the client asked for
    target       TEXT COLLATE "C",                         -- provider/model that answered, or was asked last; none: nobody was asked
    attempts     BIGINT NOT NULL DEFAULT 1,
    stream       BOOLEAN NOT NULL,
    status       BIGINT NOT NULL DEFAULT 200, -- of the reply; 499: the client left before there was one
    outcome      TEXT COLLATE "C" NOT NULL DEFAULT 'complete', -- complete, cut, aborted, failed, refused
    estimated    BOOLEAN NOT NULL DEFAULT false,   -- upstream did not say what it counted: these are our own figures
    input        BIGINT NOT NULL,
    cached       BIGINT NOT NULL DEFAULT 0,
    cache_write  BIGINT NOT NULL DEFAULT 0,
    reasoning    BIGINT NOT NULL DEFAULT 0,
    output       BIGINT NOT NULL,
    memory       BIGINT NOT NULL DEFAULT 0,   -- tokens of memory in the input
    cut          BIGINT NOT NULL DEFAULT 0,   -- tokens that were cut from the input
    cost         BIGINT,                      -- none: the price is not known
    memory_cost  BIGINT DEFAULT 0,            -- what the tokens of memory cost, as input that no cache has
    saved        BIGINT DEFAULT 0,            -- what the tokens that were cut would have cost
    total_us     BIGINT NOT NULL,
    first_us     BIGINT,                      -- until the first byte of the reply's body
    overhead_us  BIGINT NOT NULL              -- until the request was sent on for the first time
);
-- An erasure finds the rows of one person by it.
CREATE INDEX usage_by_subject ON usage (tenant, namespace, subject) WHERE subject IS NOT NULL;
