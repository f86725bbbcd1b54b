-- What was said in exchanges that were learned from, for as long as the operator wants to keep it. Divided by time as the tables of the
-- step before; before all parts is what is from before 2026.
CREATE TABLE raw_exchanges (
    id    TEXT COLLATE "C" PRIMARY KEY,
    scope BIGINT NOT NULL,
    at    BIGINT NOT NULL,
    turn  TEXT COLLATE "C" NOT NULL
) PARTITION BY RANGE (id);
CREATE INDEX raw_exchanges_by_scope ON raw_exchanges (scope);
CREATE TABLE raw_exchanges_before PARTITION OF raw_exchanges FOR VALUES FROM (MINVALUE) TO ('ex_01kdvdna000000000000000000');
CREATE TABLE raw_exchanges_beyond PARTITION OF raw_exchanges DEFAULT;
CREATE INDEX raw_exchanges_before_by_age ON raw_exchanges_before (at);
CREATE INDEX raw_exchanges_beyond_by_age ON raw_exchanges_beyond (at);
