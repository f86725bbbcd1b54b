//! What is written: the points of a scope with the heaviest terms in common.
//!
//! How rare a term is in its scope is told from the scope's newest points, up to [`SAMPLE`] of them: exactly in most scopes, well enough in larger ones. A
//! point's score is then one product of sparse vectors. In a scope of more than [`EXACT`] points only those are scored that have one of the question's rarer
//! terms, found by the index of terms: so many terms as are expected to be in that many points.

use sqlx::{AssertSqlSafe, Row};

use super::Pgvector;
use super::generations::{Generation, on_table};
use super::literal::{folded, sparse};
use super::near::{FILTER, bind_filter, hits};
use crate::base::EpisodeId;
use crate::store::{IndexQuery, ScopeKey, StoreError};

/// How many of a scope's points tell how rare a term is.
const SAMPLE: i64 = 1_000;

/// So many points of a scope are scored all.
const EXACT: i64 = 5_000;

/// The most points that are scored of a larger scope, also where every term of the question is frequent.
const MOST_SCORED: i64 = 20_000;

/// Terms of a question, as many as are asked for: the heaviest.
const MAX_TERMS: usize = 64;

/// What is known of a scope's terms.
#[derive(Debug)]
struct Rarity {
    /// How many points the scope has; [`EXACT`] + 1 stands for more.
    own: i64,
    /// How many of them were looked at.
    sample: i64,
    /// In how many of those each term of the question is, in its order.
    with: Vec<i64>,
}

impl Pgvector {
    /// Finds the points with the heaviest terms in common.
    pub(super) async fn words(
        &self,
        generation: &Generation,
        query: &IndexQuery<'_>,
    ) -> Result<Vec<(EpisodeId, f32)>, StoreError> {
        let terms = asked(query);
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let rarity = self.rarity(generation, query, &terms).await?;
        let weighed: Vec<(i32, f32)> =
            terms.iter().zip(&rarity.with).map(|((t, w), n)| (*t, w * rarity.idf(*n))).collect();
        let found = if rarity.own <= EXACT { None } else { Some(rarity.rarest(&terms)) };
        let scored = match &found {
            None => FILTER.to_owned(),
            Some(_) => format!("{FILTER} AND terms && $8 LIMIT {MOST_SCORED}"),
        };
        let text = format!(
            "SELECT uuid_send(episode), (-score)::real FROM (
                SELECT episode, words <#> $6::text::sparsevec AS score
                FROM (SELECT episode, words FROM {} WHERE {scored}) candidates
             ) scored
             WHERE score < 0 ORDER BY score, episode LIMIT $7",
            generation.table
        );
        let statement =
            bind_filter(sqlx::query(AssertSqlSafe(text)), query).bind(sparse(&weighed)).bind(i64::from(query.limit));
        let statement = match found {
            None => statement,
            Some(rarest) => statement.bind(rarest),
        };
        let rows = statement.fetch_all(&self.pool).await.map_err(on_table("search points by words"))?;
        hits(&rows)
    }

    async fn rarity(
        &self,
        generation: &Generation,
        query: &IndexQuery<'_>,
        terms: &[(i32, f32)],
    ) -> Result<Rarity, StoreError> {
        let table = &generation.table;
        let text = format!(
            "WITH sample AS MATERIALIZED (SELECT terms FROM {table} WHERE scope = $1 ORDER BY episode DESC LIMIT {SAMPLE})
             SELECT (SELECT count(*) FROM (SELECT FROM {table} WHERE scope = $1 LIMIT {EXACT} + 1) own),
                    (SELECT count(*) FROM sample),
                    ARRAY(SELECT (SELECT count(*) FROM sample WHERE sample.terms @> ARRAY[q.term])
                          FROM unnest($2::int4[]) WITH ORDINALITY AS q (term, place) ORDER BY place)"
        );
        let row = sqlx::query(AssertSqlSafe(text))
            .bind(&ScopeKey::of(query.scope).0[..])
            .bind(terms.iter().map(|(term, _)| *term).collect::<Vec<_>>())
            .fetch_one(&self.pool)
            .await
            .map_err(on_table("tell how rare words are"))?;
        Ok(Rarity { own: row.get(0), sample: row.get(1), with: row.get(2) })
    }
}

impl Rarity {
    /// BM25's, which is above zero for the most frequent term, too.
    #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
    fn idf(&self, with: i64) -> f32 {
        let (all, with) = (self.sample as f32, with as f32);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }

    /// Of a large scope: the rarest terms, as many as are expected to be in [`EXACT`] of its points. They may be in many more: how large it is
    /// is not known, so that the share of the sample stands for [`MOST_SCORED`] points at least.
    fn rarest(&self, terms: &[(i32, f32)]) -> Vec<i32> {
        let mut by_rarity: Vec<(i64, i32)> =
            self.with.iter().zip(terms).map(|(with, (term, _))| (*with, *term)).collect();
        by_rarity.sort_unstable();
        let mut expected = 0;
        let enough = |(with, _): &(i64, i32)| {
            let before = expected;
            expected += with * MOST_SCORED / self.sample.max(1);
            before == 0 || expected <= EXACT
        };
        by_rarity.into_iter().take_while(enough).map(|(_, term)| term).collect()
    }
}

/// The terms of a question as the database knows them.
fn asked(query: &IndexQuery<'_>) -> Vec<(i32, f32)> {
    let mut terms = folded(query.terms);
    terms.sort_by(|a, b| b.1.total_cmp(&a.1));
    terms.truncate(MAX_TERMS);
    terms.sort_by_key(|(term, _)| *term);
    terms
}
