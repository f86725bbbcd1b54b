//! The tables, as a copy reads and writes them.

use Kind::{Bool, Bytes, Int, Text};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Bool,
    Text,
    Bytes,
}

/// A table: its name, the columns of its key in order, and all columns.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) key: &'static [&'static str],
    pub(super) columns: &'static [(&'static str, Kind)],
}

impl Table {
    const fn new(name: &'static str, key: &'static [&'static str], columns: &'static [(&'static str, Kind)]) -> Self {
        Self { name, key, columns }
    }

    /// Where the columns of the key stand among all.
    pub(super) fn key_places(&self) -> impl Iterator<Item = usize> {
        self.key.iter().filter_map(|key| self.columns.iter().position(|(name, _)| name == key))
    }

    /// The names of all columns.
    pub(super) fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// The column whose numbers the database makes, if there is one.
    pub(super) fn numbered(&self) -> Option<&'static str> {
        NUMBERED.iter().find(|(table, _)| *table == self.name).map(|(_, column)| *column)
    }
}

/// Tables whose rows are numbered by the database, and the column with the number.
pub(super) const NUMBERED: [(&str, &str); 8] = [
    ("audit", "seq"),
    ("changes", "seq"),
    ("generations", "number"),
    ("outbox", "seq"),
    ("scopes", "id"),
    ("shelves", "id"),
    ("window_turns", "seq"),
    ("windows", "id"),
];

/// All tables.
pub(super) const TABLES: &[Table] = &[
    Table::new("audit", &["seq"], &[("seq", Int), ("scope", Int), ("at", Int), ("body", Text)]),
    Table::new(
        "budgets",
        &["account", "period"],
        &[("account", Text), ("period", Text), ("tokens", Int), ("nanos", Int), ("ends_at", Int), ("at", Int)],
    ),
    Table::new(
        "changes",
        &["seq"],
        &[
            ("seq", Int),
            ("scope", Int),
            ("at", Int),
            ("kind", Text),
            ("object", Text),
            ("version", Int),
            ("gone", Bool),
        ],
    ),
    Table::new(
        "dead_letters",
        &["exchange"],
        &[("exchange", Text), ("scope", Int), ("turn", Text), ("attempts", Int), ("error", Text), ("dead_at", Int)],
    ),
    Table::new(
        "digests",
        &["scope", "kind", "prefix"],
        &[("scope", Int), ("kind", Text), ("prefix", Bytes), ("expires_at", Int), ("body", Text)],
    ),
    Table::new(
        "documents",
        &["shelf", "id"],
        &[("shelf", Int), ("id", Text), ("characters", Int), ("passages", Int), ("body", Text), ("text", Text)],
    ),
    Table::new(
        "episodes",
        &["id"],
        &[
            ("id", Text),
            ("scope", Int),
            ("session", Text),
            ("status", Text),
            ("body", Text),
            ("uses", Int),
            ("last_used_at", Int),
            ("retired_facts", Text),
            ("changed", Int),
            ("archived_at", Int),
        ],
    ),
    Table::new("exchanges", &["id"], &[("id", Text), ("scope", Int), ("at", Int), ("body", Text)]),
    Table::new(
        "facts",
        &["id"],
        &[("id", Text), ("scope", Int), ("key", Text), ("status", Text), ("version", Int), ("body", Text)],
    ),
    Table::new(
        "generations",
        &["number"],
        &[
            ("number", Int),
            ("id", Text),
            ("model", Text),
            ("dimension", Int),
            ("query_prefix", Text),
            ("document_prefix", Text),
            ("state", Text),
            ("cursor", Int),
            ("background", Bytes),
            ("started_at", Int),
            ("ready_at", Int),
            ("used_at", Int),
            ("owner", Text),
            ("lease_until", Int),
        ],
    ),
    Table::new("history", &["fact", "version"], &[("fact", Text), ("version", Int), ("scope", Int), ("body", Text)]),
    Table::new("key_secrets", &["sha256"], &[("sha256", Bytes), ("key", Text), ("expires_at", Int)]),
    Table::new(
        "keys",
        &["id"],
        &[
            ("id", Text),
            ("name", Text),
            ("tenant", Text),
            ("settings", Text),
            ("created_at", Int),
            ("expires_at", Int),
            ("revoked_at", Int),
            ("last_used_at", Int),
        ],
    ),
    Table::new("marks", &["name"], &[("name", Text), ("value", Text)]),
    Table::new("model_spending", &["tenant", "day"], &[("tenant", Text), ("day", Int), ("tokens", Int)]),
    Table::new(
        "outbox",
        &["seq"],
        &[
            ("seq", Int),
            ("exchange", Text),
            ("scope", Int),
            ("turn", Text),
            ("appended_at", Int),
            ("due_at", Int),
            ("attempts", Int),
            ("owner", Text),
            ("lease_until", Int),
        ],
    ),
    Table::new(
        "passages",
        &["shelf", "document", "number"],
        &[("shelf", Int), ("document", Text), ("number", Int), ("body", Text)],
    ),
    Table::new(
        "proposals",
        &["id"],
        &[("id", Text), ("scope", Int), ("status", Text), ("fact", Text), ("at", Int), ("body", Text)],
    ),
    Table::new("raw_exchanges", &["id"], &[("id", Text), ("scope", Int), ("at", Int), ("turn", Text)]),
    Table::new(
        "scopes",
        &["id"],
        &[
            ("id", Int),
            ("key", Bytes),
            ("tenant", Text),
            ("namespace", Text),
            ("subject", Text),
            ("revision", Int),
            ("epoch", Int),
            ("erased_at", Int),
            ("erased_revision", Int),
        ],
    ),
    Table::new("secrets", &["name"], &[("name", Text), ("value", Bytes)]),
    Table::new(
        "shelves",
        &["id"],
        &[("id", Int), ("key", Bytes), ("tenant", Text), ("namespace", Text), ("revision", Int)],
    ),
    Table::new(
        "subject_use",
        &["tenant", "namespace", "source", "subject"],
        &[("tenant", Text), ("namespace", Text), ("source", Text), ("subject", Bytes), ("begun", Int), ("at", Int)],
    ),
    Table::new("targets", &["target"], &[("target", Text), ("revision", Int), ("at", Int), ("body", Text)]),
    Table::new("tombstones", &["scope", "hash"], &[("scope", Int), ("hash", Bytes), ("at", Int)]),
    Table::new(
        "turn_states",
        &["scope", "prefix"],
        &[
            ("scope", Int),
            ("prefix", Bytes),
            ("revision", Int),
            ("expires_at", Int),
            ("body", Text),
            ("learned_at", Int),
        ],
    ),
    Table::new(
        "usage",
        &["exchange"],
        &[
            ("exchange", Text),
            ("at", Int),
            ("tenant", Text),
            ("namespace", Text),
            ("key", Text),
            ("subject", Text),
            ("conversation", Text),
            ("operation", Text),
            ("model", Text),
            ("target", Text),
            ("attempts", Int),
            ("stream", Bool),
            ("status", Int),
            ("outcome", Text),
            ("estimated", Bool),
            ("input", Int),
            ("cached", Int),
            ("cache_write", Int),
            ("reasoning", Int),
            ("output", Int),
            ("memory", Int),
            ("cut", Int),
            ("cost", Int),
            ("memory_cost", Int),
            ("saved", Int),
            ("total_us", Int),
            ("first_us", Int),
            ("overhead_us", Int),
        ],
    ),
    Table::new(
        "vectors",
        &["scope", "episode", "generation"],
        &[("scope", Int), ("episode", Text), ("generation", Int), ("body", Bytes)],
    ),
    Table::new(
        "window_turns",
        &["seq"],
        &[("seq", Int), ("exchange", Text), ("scope", Int), ("window_id", Int), ("turn_key", Text), ("turn", Text)],
    ),
    Table::new(
        "windows",
        &["id"],
        &[
            ("id", Int),
            ("scope", Int),
            ("session", Text),
            ("opened_at", Int),
            ("due_at", Int),
            ("turns", Int),
            ("tokens", Int),
            ("closed", Bool),
            ("attempts", Int),
            ("owner", Text),
            ("lease_until", Int),
        ],
    ),
];
