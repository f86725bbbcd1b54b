-- Whoever goes on from the last change of a scope that it knows finds the next ones without reading those before. SQLite has the row's
-- number behind every entry of an index; here it has to be said.
CREATE INDEX changes_of_scope ON changes (scope, seq);
DROP INDEX changes_by_scope;
