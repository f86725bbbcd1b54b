-- Documents of an operator, by namespace. They are about no subject: an erasure does not touch them.
CREATE TABLE shelves (
    id        INTEGER PRIMARY KEY,
    -- Hash of tenant and namespace.
    key       BLOB NOT NULL UNIQUE,
    tenant    TEXT NOT NULL,
    namespace TEXT NOT NULL,
    -- Grows with every change of a document.
    revision  INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE documents (
    shelf   INTEGER NOT NULL REFERENCES shelves (id),
    id      TEXT NOT NULL,
    -- Characters of `text`, and how many passages there are: what the bounds of a namespace are reckoned by.
    characters INTEGER NOT NULL,
    passages   INTEGER NOT NULL,
    -- JSON: what is known of it.
    body    TEXT NOT NULL,
    text    TEXT NOT NULL,
    PRIMARY KEY (shelf, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE passages (
    shelf    INTEGER NOT NULL,
    document TEXT NOT NULL,
    number   INTEGER NOT NULL,
    -- JSON.
    body     TEXT NOT NULL,
    PRIMARY KEY (shelf, document, number)
) STRICT, WITHOUT ROWID;
