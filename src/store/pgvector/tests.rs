//! The suite of indexes on pgvector; and what only this one can get wrong.

use std::sync::Arc;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use super::{Pgvector, PgvectorOptions};
use crate::base::testing::server;
use crate::memory::Speaker;
use crate::store::VectorIndex;
use crate::store::contract::fixtures::scope;
use crate::store::contract::index::{ids, index_suite, near, point};
use crate::store::{IndexPoint, IndexQuery, ScopeKey, StoreError};

/// An index in a schema of its own, beside the extension in `public`. It stays until the server goes, which is there for the tests alone.
pub(crate) async fn fresh() -> Option<Arc<Pgvector>> {
    Some(Arc::new(Pgvector::connect(&PgvectorOptions::url(schema("schema").await?)).unwrap()))
}

async fn schema(what: &str) -> Option<String> {
    let admin = server("BACKSTORY_TEST_POSTGRES")?;
    let name = format!("index_{what}_{:032x}", rand::random::<u128>());
    let mut conn = PgConnection::connect(&admin).await.unwrap();
    // The first one would make the extension in a schema of its own, where the others do not find it.
    let made = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(1); CREATE EXTENSION IF NOT EXISTS vector SCHEMA public; COMMIT; CREATE SCHEMA {name}"
    );
    sqlx::raw_sql(AssertSqlSafe(made)).execute(&mut conn).await.unwrap();
    Some(format!("{admin}?options[search_path]={name},public"))
}

index_suite!(server, crate::store::pgvector::tests::fresh);

/// The sizes from which a scope is too large to be searched exactly are those of `near.rs` and `words.rs`.
#[tokio::test]
async fn a_large_scope_is_searched_by_the_graph_and_a_filter_leaves_as_many_as_asked_for() {
    let Some(index) = fresh().await else { return };
    let (ann, generation) = (scope("ann"), "model/3/large");
    index.prepare(generation, 3).await.unwrap();
    // Around the circle; every fiftieth by the assistant.
    let points: Vec<_> = (0..2_100_u32)
        .map(|n| {
            let angle = n as f32 / 2_100.0 * std::f32::consts::TAU;
            let role = if n % 50 == 25 { Speaker::Assistant } else { Speaker::User };
            IndexPoint { role, ..point(&ann, u128::from(n), [angle.cos(), angle.sin(), 0.0]) }
        })
        .collect();
    let table = index.table(generation).await.unwrap();
    let run = async |sql: String| sqlx::raw_sql(AssertSqlSafe(sql)).execute(&index.pool).await.unwrap();
    // Making it of all at once takes a tenth of the time.
    let graph = format!("{}_vector", table.table);
    run(format!("DROP INDEX {graph}")).await;
    index.put(generation, &points).await.unwrap();
    run(format!("CREATE INDEX {graph} ON {} USING hnsw (vector halfvec_cosine_ops)", table.table)).await;
    run(format!("ANALYZE {}", table.table)).await;
    let x = [1.0, 0.0, 0.0];
    let query = IndexQuery { limit: 10, ..near(&ann, &x) };
    assert!(index.large(&table, &query).await.unwrap());
    assert!(!index.large(&table, &IndexQuery { scope: &scope("bob"), ..query }).await.unwrap());
    let hits = index.search(generation, &query).await.unwrap().near;
    assert!(hits.len() == 10 && hits.iter().all(|(_, cosine)| *cosine > 0.999), "{hits:?}");
    assert!(hits.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{hits:?}");
    let by_assistant = IndexQuery { role: Some(Speaker::Assistant), limit: 40, ..query };
    let hits = index.search(generation, &by_assistant).await.unwrap().near;
    assert_eq!(hits.len(), 40);
    assert!(hits.iter().all(|(id, _)| id.0 % 50 == 25) && [25, 2075].contains(&hits[0].0.0), "{hits:?}");
    // More than there are.
    let hits = index.search(generation, &IndexQuery { limit: 100, ..by_assistant }).await.unwrap().near;
    assert_eq!(hits.len(), 42);
}

#[tokio::test]
async fn in_a_large_scope_rare_words_are_found_and_frequent_ones_find_something() {
    let Some(index) = fresh().await else { return };
    let (ann, generation) = (scope("ann"), "words");
    index.prepare(generation, 0).await.unwrap();
    // One word that all have, one that a fiftieth has, and one that is a point's own.
    let points: Vec<_> = (0..5_100_u32)
        .map(|n| {
            let terms = vec![(1, 1.0), (10 + n % 50, 1.0), (100 + n, 1.0)];
            IndexPoint { terms, vector: Vec::new(), ..point(&ann, u128::from(n), [0.0; 3]) }
        })
        .collect();
    index.put(generation, &points).await.unwrap();
    let table = index.table(generation).await.unwrap();
    let found = async |terms: &[(u32, f32)]| {
        let query = IndexQuery { vector: None, terms, limit: 10, ..near(&ann, &[]) };
        ids(&index.words(&table, &query).await.unwrap())
    };
    assert_eq!(found(&[(1, 1.0), (4_242, 1.0)]).await[0], 4_142);
    let seldom = found(&[(1, 1.0), (17, 1.0)]).await;
    assert!(seldom.len() == 10 && seldom.iter().all(|n| n % 50 == 7), "{seldom:?}");
    assert_eq!(found(&[(1, 1.0)]).await.len(), 10);
}

#[tokio::test]
async fn a_generation_that_another_process_dropped_or_made_anew_is_noticed() {
    let Some(url) = schema("two").await else { return };
    let open = || Pgvector::connect(&PgvectorOptions::url(url.clone())).unwrap();
    let (one, two, ann) = (open(), open(), scope("ann"));
    let (generation, x) = ("model/3/x", [1.0, 0.0, 0.0]);
    one.prepare(generation, 3).await.unwrap();
    one.put(generation, &[point(&ann, 1, x)]).await.unwrap();
    two.drop_generation(generation).await.unwrap();
    let gone = one.put(generation, &[point(&ann, 2, x)]).await;
    assert!(matches!(&gone, Err(StoreError::Unusable(text)) if text.contains(generation)), "{gone:?}");
    assert_eq!(one.erase("acme", ScopeKey::of(&ann)).await.unwrap(), 0);
    two.prepare(generation, 3).await.unwrap();
    one.put(generation, &[point(&ann, 2, x)]).await.unwrap();
    assert_eq!(two.count(generation).await.unwrap(), 1);
}

/// pgvector's own limits: a graph of 4,000 numbers, a vector of 16,000.
#[tokio::test]
async fn large_vectors_have_no_graph_and_too_large_ones_are_refused() {
    let Some(index) = fresh().await else { return };
    let (ann, generation) = (scope("ann"), "model/5000/x");
    let vector: Vec<f32> = (0..5_000).map(|n| (n % 7) as f32 - 3.0).collect();
    index.prepare(generation, 5_000).await.unwrap();
    let large = IndexPoint { vector: vector.clone(), ..point(&ann, 1, [0.0; 3]) };
    index.put(generation, &[large]).await.unwrap();
    let hits = index.search(generation, &near(&ann, &vector)).await.unwrap().near;
    assert!(hits.len() == 1 && hits[0].1 > 0.999, "{hits:?}");
    let refused = index.prepare("model/16001/x", 16_001).await;
    assert!(
        matches!(&refused, Err(StoreError::Unusable(text)) if text.contains("embeddings.dimension")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn what_the_server_lacks_is_said_with_what_to_run() {
    let Some(admin) = server("BACKSTORY_TEST_POSTGRES") else { return };
    // A user that may make no extension, in a database without it.
    let name = format!("backstory_plain_{:032x}", rand::random::<u128>());
    let mut conn = PgConnection::connect(&admin).await.unwrap();
    for sql in [format!("CREATE ROLE {name} LOGIN"), format!("CREATE DATABASE {name} OWNER {name} TEMPLATE template0")]
    {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    }
    let (server, _) = admin.rsplit_once('/').unwrap();
    let plain = format!("{}/{name}", server.replace("postgres@", &format!("{name}@")));
    let index = Pgvector::connect(&PgvectorOptions::url(plain)).unwrap();
    let refused = index.ping().await;
    assert!(
        matches!(&refused, Err(StoreError::Unusable(text)) if text.contains("CREATE EXTENSION vector")),
        "{refused:?}"
    );

    // A superuser put it where this user does not look; then where it does.
    let mut there = PgConnection::connect(&format!("{server}/{name}")).await.unwrap();
    sqlx::raw_sql("CREATE SCHEMA hidden; CREATE EXTENSION vector SCHEMA hidden").execute(&mut there).await.unwrap();
    let hidden = index.ping().await;
    assert!(matches!(&hidden, Err(StoreError::Unusable(text)) if text.contains("search_path")), "{hidden:?}");
    sqlx::raw_sql("ALTER EXTENSION vector SET SCHEMA public; GRANT CREATE ON SCHEMA public TO PUBLIC")
        .execute(&mut there)
        .await
        .unwrap();
    assert!(index.ping().await.unwrap().contains("pgvector"), "what was missing is looked for again");
    index.prepare("model/3/x", 3).await.unwrap();
    index.pool.close().await;
    there.close().await.unwrap();
    for sql in [format!("DROP DATABASE {name} WITH (FORCE)"), format!("DROP ROLE {name}")] {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_right_is_refused_without_its_password() {
    let refused = Pgvector::connect(&PgvectorOptions::url("postgres://ann:hunter2@host:port/x"));
    assert!(matches!(&refused, Err(StoreError::Unusable(text)) if !text.contains("hunter2")), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_is_away_is_an_outage_and_need_not_be_there_at_the_start() {
    let index = Pgvector::connect(&PgvectorOptions {
        acquire_timeout: std::time::Duration::from_millis(500),
        ..PgvectorOptions::url("postgres://ann@127.0.0.1:1/x")
    });
    let away = index.unwrap().ping().await;
    assert!(matches!(&away, Err(StoreError::Unavailable(_))), "{away:?}");
}
