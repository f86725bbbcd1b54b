//! What is meant: the nearest points of a scope.
//!
//! A search through the graph passes points of all scopes, about `limit × all / own` of them, each at a random place; an exact one passes the scope's own,
//! `own`, in the order of the key. So exact is cheaper up to `own = sqrt(limit × all × c)`, where c is what a step of the graph costs in
//! comparisons: about 3, as measured. Of a hundred million points that is more than a scope may have: the graph is for few, large scopes.

use sqlx::{AssertSqlSafe, Row};

use super::Pgvector;
use super::generations::{Generation, on_table};
use super::literal::{direction, role, sensitivity};
use super::write::episode;
use crate::base::EpisodeId;
use crate::store::{IndexQuery, ScopeKey, StoreError};

/// A scope of so few points is always searched exactly: it takes a few milliseconds.
const ALWAYS_EXACT: i64 = 2_000;

/// What a step through the graph costs, in comparisons of an exact search.
const STEP: i64 = 3;

/// What points are filtered by; the first four parameters of every search.
pub(super) const FILTER: &str = "
    scope = $1 AND sensitivity <= $2 AND ($3::smallint IS NULL OR role = $3)
    AND ($4::bigint IS NULL OR said_at >= $4) AND ($5::bigint IS NULL OR said_at < $5)";

impl Pgvector {
    /// Finds the nearest points, with their cosines.
    pub(super) async fn near(
        &self,
        generation: &Generation,
        query: &IndexQuery<'_>,
    ) -> Result<Vec<(EpisodeId, f32)>, StoreError> {
        let Some(vector) = query.vector else { return Ok(Vec::new()) };
        generation.check(vector)?;
        let Some(vector) = direction(vector) else { return Ok(Vec::new()) };
        if !self.large(generation, query).await? {
            return self.nearest(generation, query, &vector, "+ 0").await;
        }
        let found = self.nearest(generation, query, &vector, "").await?;
        if found.len() >= query.limit as usize {
            return Ok(found);
        }
        // The filter left too little of what the graph showed, or there is no more.
        self.nearest(generation, query, &vector, "+ 0").await
    }

    /// Whether a scope has so many points that the graph is the shorter way.
    pub(super) async fn large(&self, generation: &Generation, query: &IndexQuery<'_>) -> Result<bool, StoreError> {
        let table = &generation.table;
        let text = format!(
            "WITH bound AS (
                SELECT greatest($2, sqrt($3 * greatest(reltuples, 0)))::bigint AS n FROM pg_class WHERE oid = '{table}'::regclass
             )
             SELECT (SELECT count(*) FROM (SELECT FROM {table} WHERE scope = $1 LIMIT (SELECT n + 1 FROM bound)) own) > n FROM bound"
        );
        sqlx::query_scalar(AssertSqlSafe(text))
            .bind(&ScopeKey::of(query.scope).0[..])
            .bind(ALWAYS_EXACT)
            .bind(i64::from(query.limit) * STEP)
            .fetch_one(&self.pool)
            .await
            .map_err(on_table("count the points of a scope"))
    }

    /// `how`: behind the distance that is ordered by; `+ 0` is an order that no index has.
    async fn nearest(
        &self,
        generation: &Generation,
        query: &IndexQuery<'_>,
        vector: &str,
        how: &str,
    ) -> Result<Vec<(EpisodeId, f32)>, StoreError> {
        let text = format!(
            "SELECT uuid_send(episode), (1 - (vector <=> $6::text::halfvec))::real FROM {}
             WHERE {FILTER} AND vector IS NOT NULL ORDER BY (vector <=> $6::text::halfvec) {how} LIMIT $7",
            generation.table
        );
        let rows = bind_filter(sqlx::query(AssertSqlSafe(text)), query)
            .bind(vector)
            .bind(i64::from(query.limit))
            .fetch_all(&self.pool)
            .await
            .map_err(on_table("search points by a vector"))?;
        let mut found = hits(&rows)?;
        // A scan that goes on and on finds them only about in their order.
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Ok(found)
    }
}

/// Binds the parameters of [`FILTER`].
pub(super) fn bind_filter<'q>(
    statement: sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments>,
    query: &IndexQuery<'_>,
) -> sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments> {
    statement
        .bind(ScopeKey::of(query.scope).0.to_vec())
        .bind(sensitivity(query.max_sensitivity))
        .bind(query.role.map(role))
        .bind(query.from.map(|at| at.0))
        .bind(query.to.map(|at| at.0))
}

/// Episodes and scores of rows.
pub(super) fn hits(rows: &[sqlx::postgres::PgRow]) -> Result<Vec<(EpisodeId, f32)>, StoreError> {
    rows.iter().map(|row| Ok((episode(row.get(0))?, row.get(1)))).collect()
}
