-- What was used of limits of the day and the month, by a key, a person, a tenant or a model. The account is a salted
-- hash, the period a day or a month in UTC, as in '2026-11-30' and '2026-11'.
CREATE TABLE budgets (
    account TEXT COLLATE "C" NOT NULL,
    period  TEXT COLLATE "C" NOT NULL,
    tokens  BIGINT NOT NULL,
    -- Money, in billionths of a US dollar.
    nanos   BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (account, period)
);
CREATE INDEX budgets_by_end ON budgets (ends_at);
CREATE INDEX budgets_by_writing ON budgets (at);
