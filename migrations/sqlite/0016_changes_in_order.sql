-- The index of changes by scope is in the order of the changes here, since each entry has the row's number behind it.
SELECT 1;
