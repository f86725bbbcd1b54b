-- The tables that grow with every exchange are divided by time, so that what is over goes as a whole (benches/README.md, Partitions). Ids begin
-- with the time, so the id alone stays the primary key, and a part is a range of ids.
--
-- `…_before` is all before the first part: what there was already, and what is copied here. `…_beyond` takes what no other part does, so
-- that no row is ever refused. The parts between them are made ahead and dropped by the gateway.
--
-- A table that has rows already is not written again, but read once, to see that all of them belong where they are: about a second for
-- a million rows. Others wait for that long to write to it.
DO $$
DECLARE
    millis bigint;
    digits text := '';
    bound  text;
    one    record;
BEGIN
    -- A whole hour from one to two hours ahead, so that gateways whose clocks differ have nothing behind it yet; as the first id of
    -- its moment: 10 digits of Crockford's base 32 for the milliseconds since 1970, then zeros.
    millis := (floor(extract(epoch FROM clock_timestamp()) / 3600)::bigint + 2) * 3600000;
    FOR place IN REVERSE 9..0 LOOP
        digits := digits || substr('0123456789abcdefghjkmnpqrstvwxyz', ((millis >> (5 * place)) & 31)::int + 1, 1);
    END LOOP;
    bound := 'ex_' || digits || repeat('0', 16);
    FOR one IN SELECT * FROM (VALUES ('usage', 'exchange'), ('exchanges', 'id')) tables (name, id) LOOP
        EXECUTE format('ALTER TABLE %I RENAME TO %I', one.name, one.name || '_before');
        EXECUTE format('ALTER INDEX %I RENAME TO %I', one.name || '_pkey', one.name || '_before_pkey');
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS, PRIMARY KEY (%I)) PARTITION BY RANGE (%3$I)',
            one.name, one.name || '_before', one.id);
        EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', one.name || '_beyond', one.name);
        EXECUTE format('WITH ahead AS (DELETE FROM %I WHERE %I >= %L RETURNING *) INSERT INTO %I SELECT * FROM ahead',
            one.name || '_before', one.id, bound, one.name || '_beyond');
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)',
            one.name, one.name || '_before', bound);
    END LOOP;
END $$;

-- An erasure finds the rows of one person by these.
ALTER INDEX usage_by_subject RENAME TO usage_before_by_subject;
CREATE INDEX usage_by_subject ON usage (tenant, namespace, subject) WHERE subject IS NOT NULL;
ALTER INDEX exchanges_by_scope RENAME TO exchanges_before_by_scope;
CREATE INDEX exchanges_by_scope ON exchanges (scope);
-- Only here is anything looked for by its age: a part goes as a whole.
ALTER INDEX exchanges_by_age RENAME TO exchanges_before_by_age;
CREATE INDEX exchanges_beyond_by_age ON exchanges_beyond (at);
