-- A user turn is one row, be it for what was fixed when it was first seen, for when it was last learned from, or both. A row without a body
-- only says when.
ALTER TABLE turn_states ADD COLUMN learned_at BIGINT;
