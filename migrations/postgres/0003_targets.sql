-- What was learned about each upstream target from its answers: how it counts, and how large its window is. It belongs to
-- no scope: nothing of a request is in it but numbers.
CREATE TABLE targets (
    target   TEXT COLLATE "C" PRIMARY KEY,
    revision BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    body     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX targets_by_age ON targets (at);
