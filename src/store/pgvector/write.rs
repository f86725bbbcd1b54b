//! Puts, deletes, lists and counts points.

use std::collections::HashMap;

use sqlx::{AssertSqlSafe, Row};

use super::Pgvector;
use super::generations::{Generation, on_table};
use super::literal::{direction, folded, role, sensitivity, sparse};
use crate::base::EpisodeId;
use crate::store::sql::driver;
use crate::store::{IndexPoint, ScopeKey, StoreError};

/// Points of one statement: a few megabytes at most.
const BATCH: usize = 500;

impl Pgvector {
    /// Puts points, all or none.
    pub(super) async fn write(&self, generation: &Generation, points: &[IndexPoint]) -> Result<(), StoreError> {
        points.iter().filter(|point| !point.vector.is_empty()).try_for_each(|point| generation.check(&point.vector))?;
        let failed = on_table("put points");
        // A statement may not change a row twice; the last one holds.
        let mut last: HashMap<EpisodeId, &IndexPoint> = HashMap::with_capacity(points.len());
        last.extend(points.iter().map(|point| (point.episode, point)));
        let mut points: Vec<_> = last.into_values().collect();
        // Everyone locks in the same order.
        points.sort_by_key(|point| point.episode);
        let text = format!(
            "INSERT INTO {} (scope, episode, role, said_at, sensitivity, terms, words, vector)
             SELECT scope, episode::uuid, role, said_at, sensitivity, terms::int4[], words::sparsevec, vector::halfvec
             FROM unnest($1::bytea[], $2::text[], $3::smallint[], $4::bigint[], $5::smallint[], $6::text[], $7::text[], $8::text[])
                  AS p (scope, episode, role, said_at, sensitivity, terms, words, vector)
             ON CONFLICT (scope, episode) DO UPDATE SET
                role = excluded.role, said_at = excluded.said_at, sensitivity = excluded.sensitivity,
                terms = excluded.terms, words = excluded.words, vector = excluded.vector",
            generation.table
        );
        let mut tx = self.pool.begin().await.map_err(&failed)?;
        for batch in points.chunks(BATCH) {
            let words: Vec<_> = batch.iter().map(|point| folded(&point.terms)).collect();
            sqlx::query(AssertSqlSafe(text.as_str()))
                .bind(column(batch, |point| ScopeKey::of(&point.scope).0.to_vec()))
                .bind(column(batch, |point| uuid(point.episode)))
                .bind(column(batch, |point| role(point.role)))
                .bind(column(batch, |point| point.at.0))
                .bind(column(batch, |point| sensitivity(point.sensitivity)))
                .bind(words.iter().map(|words| array(words)).collect::<Vec<_>>())
                .bind(words.iter().map(|words| sparse(words)).collect::<Vec<_>>())
                .bind(column(batch, |point| direction(&point.vector)))
                .execute(&mut *tx)
                .await
                .map_err(&failed)?;
        }
        tx.commit().await.map_err(failed)
    }

    /// Deletes points of a scope from all generations: these, or all; returns how many there were.
    pub(super) async fn delete(&self, scope: ScopeKey, episodes: Option<&[EpisodeId]>) -> Result<u64, StoreError> {
        let episodes = episodes.map(|ids| ids.iter().map(|id| uuid(*id)).collect::<Vec<_>>());
        let mut deleted = 0;
        for generation in self.all().await? {
            let text = format!(
                "DELETE FROM {} WHERE scope = $1 AND ($2::text[] IS NULL OR episode = ANY ($2::text[]::uuid[]))",
                generation.table
            );
            let done = sqlx::query(AssertSqlSafe(text)).bind(&scope.0[..]).bind(&episodes).execute(&self.pool).await;
            match done.map_err(on_table("delete points")) {
                Ok(done) => deleted += done.rows_affected(),
                // Somebody dropped it just now, and with it these.
                Err(StoreError::Unusable(text)) if text == super::generations::GONE => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    pub(super) async fn page(
        &self,
        generation: &Generation,
        scope: ScopeKey,
        after: Option<EpisodeId>,
        limit: u32,
    ) -> Result<Vec<EpisodeId>, StoreError> {
        let text = format!(
            "SELECT uuid_send(episode) FROM {}
             WHERE scope = $1 AND ($2::text IS NULL OR episode > $2::uuid) ORDER BY episode LIMIT $3",
            generation.table
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(&scope.0[..])
            .bind(after.map(uuid))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(on_table("list points"))?;
        rows.iter().map(|row| episode(row.get(0))).collect()
    }

    pub(super) async fn size(&self, generation: &Generation) -> Result<u64, StoreError> {
        let text = format!("SELECT count(*) FROM {}", generation.table);
        let n: i64 =
            sqlx::query_scalar(AssertSqlSafe(text)).fetch_one(&self.pool).await.map_err(on_table("count points"))?;
        Ok(n.unsigned_abs())
    }
}

fn column<T>(points: &[&IndexPoint], value: impl Fn(&IndexPoint) -> T) -> Vec<T> {
    points.iter().map(|point| value(point)).collect()
}

/// Arrays of arrays have to be of one length in PostgreSQL: one goes as its text.
fn array(words: &[(i32, f32)]) -> String {
    let terms: Vec<String> = words.iter().map(|(term, _)| term.to_string()).collect();
    format!("{{{}}}", terms.join(","))
}

/// PostgreSQL compares UUIDs byte by byte, so that they are in the order of episodes.
pub(super) fn uuid(episode: EpisodeId) -> String {
    format!("{:032x}", episode.0)
}

pub(super) fn episode(bytes: &[u8]) -> Result<EpisodeId, StoreError> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| driver("read a point")(sqlx::Error::RowNotFound))?;
    Ok(EpisodeId(u128::from_be_bytes(bytes)))
}
