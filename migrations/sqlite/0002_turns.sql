-- A user turn is one row, be it for what was fixed when it was first seen, for when it was last learned from, or both: they
-- have the same name, so `seen` was a second pair of indexes over the same random hashes. A row without a body only says when.
DROP TABLE seen;
ALTER TABLE turn_states ADD COLUMN learned_at INTEGER;
