//! Tests that only SQLite needs.
