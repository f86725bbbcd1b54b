//! The changes of a scope in the order of their commits. They are counted by triggers (`0006_changes.sql`).

use async_trait::async_trait;
use tracing::instrument;

use super::SqlStore;
use super::episodes::episode;
use super::error::driver;
use super::query::{Row, query, query_as, query_scalar};
use super::row::parse;
use super::scope::key;
use super::text::Sql;
use super::write::fact_id;
use crate::base::Time;
use crate::memory::{HistoryEntry, Scope};
use crate::store::{Change, ChangeStore, Changed, Page, StoreError};

/// A change of what is gone since is passed over, and one of an episode that was changed again: their ends stand further on.
static CHANGES: Sql = Sql::new("
    SELECT c.seq, c.at, c.kind, c.object, c.gone, h.body AS fact, e.body AS episode, e.uses, e.last_used_at, e.retired_facts
    FROM scopes s
    CROSS JOIN changes c ON c.scope = s.id
    LEFT JOIN history h ON c.kind = 'fact' AND h.fact = c.object AND h.version = c.version
    LEFT JOIN episodes e ON c.kind = 'episode' AND NOT c.gone AND e.id = c.object
        AND (e.changed IS NULL OR e.changed = c.seq)
    WHERE s.key = ?1 AND c.seq > ?2 AND (c.gone OR h.fact IS NOT NULL OR e.id IS NOT NULL)
    ORDER BY c.seq LIMIT ?3");

static LAST: Sql = Sql::new(
    "
    SELECT coalesce(max(c.seq), 0) FROM scopes s JOIN changes c ON c.scope = s.id WHERE s.key = ?1",
);

static HISTORIES: Sql = Sql::new("
    SELECT h.fact, h.body FROM scopes s
    CROSS JOIN (SELECT id FROM facts WHERE scope = (SELECT id FROM scopes WHERE key = ?1) AND id > ?2 ORDER BY id LIMIT ?3) f ON true
    JOIN history h ON h.fact = f.id AND h.scope = s.id
    WHERE s.key = ?1 ORDER BY h.fact, h.version");

#[async_trait]
impl ChangeStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "changes"))]
    async fn changes(&self, scope: &Scope, after: i64, limit: u32) -> Result<Vec<Change>, StoreError> {
        let found = query(&CHANGES)
            .bind(&key(scope)[..])
            .bind(after)
            .bind(limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list changes"))?;
        found.iter().map(change).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "last_change_of"))]
    async fn last_change_of(&self, scope: &Scope) -> Result<i64, StoreError> {
        query_scalar(&LAST).bind(&key(scope)[..]).fetch_one(&self.read).await.map_err(driver("read the last change"))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "histories"))]
    async fn histories(&self, scope: &Scope, page: &Page) -> Result<Vec<Vec<HistoryEntry>>, StoreError> {
        let found: Vec<(String, String)> = query_as(&HISTORIES)
            .bind(&key(scope)[..])
            .bind(page.after.as_deref().unwrap_or_default())
            .bind(page.limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("read histories"))?;
        let mut all: Vec<Vec<HistoryEntry>> = Vec::new();
        for (id, body) in found {
            let entry: HistoryEntry = parse("history", &id, &body)?;
            match all.last_mut() {
                Some(of_fact) if of_fact.first().is_some_and(|first| first.fact_id == entry.fact_id) => {
                    of_fact.push(entry);
                }
                _ => all.push(vec![entry]),
            }
        }
        Ok(all)
    }
}

fn change(row: &Row) -> Result<Change, StoreError> {
    let read = driver("read a change");
    let (kind, object): (String, String) = (row.get(2).map_err(&read)?, row.get(3).map_err(&read)?);
    let gone: bool = row.get(4).map_err(&read)?;
    let what = match (kind.as_str(), gone) {
        ("fact", true) => Changed::FactGone(fact_id("changes", &object)?),
        ("fact", false) => {
            let body: String = row.get(5).map_err(&read)?;
            Changed::Fact(Box::new(parse("history", &object, &body)?))
        }
        ("episode", true) => Changed::EpisodeGone(object.parse().map_err(|_| StoreError::Inconsistent {
            table: "changes",
            column: "object",
            id: object.clone(),
            problem: "not the id of an episode".to_owned(),
        })?),
        ("episode", false) => Changed::Episode(Box::new(episode((
            object,
            row.get(6).map_err(&read)?,
            row.get(7).map_err(&read)?,
            row.get(8).map_err(&read)?,
            row.get(9).map_err(&read)?,
        ))?)),
        _ => Changed::Erased,
    };
    Ok(Change { seq: row.get(0).map_err(&read)?, at: Time(row.get(1).map_err(&read)?), what })
}
