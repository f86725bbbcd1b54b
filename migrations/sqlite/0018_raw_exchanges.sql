-- What was said in exchanges that were learned from, for as long as the operator wants to keep it.
CREATE TABLE raw_exchanges (
    id    TEXT PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scopes (id),
    at    INTEGER NOT NULL,
    turn  TEXT NOT NULL
) STRICT;
CREATE INDEX raw_exchanges_by_scope ON raw_exchanges (scope);
CREATE INDEX raw_exchanges_by_age ON raw_exchanges (at);
