//! The tables of generations: one for each, found by a registry, since a generation's name is too long and too odd for a table's.

use sqlx::{AssertSqlSafe, Row};
use tracing::warn;

use super::Pgvector;
use crate::store::StoreError;
use crate::store::sql::driver;

/// Whoever makes or drops tables does so alone. Not a number that the records lock by, which may stand in the same database.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(7234502)";

/// Which generation is in which table. `dimension` 0: words alone.
pub(super) const REGISTRY: &str = "
    CREATE TABLE IF NOT EXISTS index_generations (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        generation text NOT NULL UNIQUE,
        dimension int NOT NULL
    )";

/// The text of an error that says that a table is not there (any more): never shown, `Pgvector::told` says it in other words.
pub(super) const GONE: &str = "gone";

/// The most that a graph can be made of.
/// <https://github.com/pgvector/pgvector#halfvec-vectors>
const MAX_INDEXED: u32 = 4_000;
/// The most that a vector of 16-bit floats can have.
const MAX_DIMENSION: u32 = 16_000;

/// A page is 8 KiB: a vector of so many numbers still lies in its row, which saves a look-up for each one that is compared.
const MAX_INLINE: u32 = 2_000;

/// A generation and its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    /// The table's name; made by us, so that it needs no quotes.
    pub(super) table: String,
    /// How many numbers a vector has; 0: there are none.
    pub(super) dimension: u32,
}

impl Generation {
    fn of(number: i64, dimension: i32) -> Self {
        Self { table: format!("index_points_{number}"), dimension: dimension.unsigned_abs() }
    }

    /// # Errors
    /// The vector has another dimension.
    pub(super) fn check(&self, vector: &[f32]) -> Result<(), StoreError> {
        if vector.len() == self.dimension as usize {
            return Ok(());
        }
        let (got, own) = (vector.len(), self.dimension);
        Err(StoreError::Unusable(format!("a vector of {got} numbers does not go with a generation of {own}")))
    }
}

pub(super) fn missing(generation: &str) -> StoreError {
    StoreError::Unusable(format!(
        "there is no generation {generation} in PostgreSQL: it was never prepared, or dropped"
    ))
}

/// As `driver`, of a statement on the table of a generation, which may be gone.
pub(super) fn on_table(doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| {
        let code = error.as_database_error().and_then(|e| e.code().map(|code| code.into_owned()));
        match code.as_deref() {
            Some("42P01") => StoreError::Unusable(GONE.to_owned()),
            _ => driver(doing)(error),
        }
    }
}

impl Pgvector {
    /// Looks a generation up in the registry.
    pub(super) async fn find(&self, generation: &str) -> Result<Option<Generation>, StoreError> {
        self.ready().await?;
        let row = sqlx::query("SELECT number, dimension FROM index_generations WHERE generation = $1")
            .bind(generation)
            .fetch_optional(&self.pool)
            .await
            .map_err(driver("look for a generation"))?;
        let found = row.map(|row| Generation::of(row.get(0), row.get(1)));
        match &found {
            Some(found) => self.remember(generation, found.clone()),
            None => self.forget(generation),
        }
        Ok(found)
    }

    /// Makes the table of a generation where there is none.
    pub(super) async fn make(&self, generation: &str, dimension: u32) -> Result<(), StoreError> {
        let found = match self.find(generation).await? {
            Some(found) => found,
            None => self.create(generation, dimension).await?,
        };
        if found.dimension != dimension {
            return Err(StoreError::Unusable(format!(
                "generation {generation} has dimension {}, not {dimension}: the embedder gives other vectors than it did",
                found.dimension
            )));
        }
        Ok(())
    }

    async fn create(&self, generation: &str, dimension: u32) -> Result<Generation, StoreError> {
        if dimension > MAX_DIMENSION {
            return Err(StoreError::Unusable(format!(
                "pgvector takes vectors of up to {MAX_DIMENSION} numbers, not {dimension}: set embeddings.dimension, or use another vectors.engine"
            )));
        }
        if dimension > MAX_INDEXED {
            warn!(
                dimension,
                "pgvector makes no graph of vectors of more than {MAX_INDEXED} numbers: large scopes are searched exactly, which is slow"
            );
        }
        let failed = driver("make the table of a generation");
        let mut tx = self.pool.begin().await.map_err(&failed)?;
        sqlx::query(LOCK).execute(&mut *tx).await.map_err(&failed)?;
        let made: Option<i64> = sqlx::query_scalar(
            "INSERT INTO index_generations (generation, dimension) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING number",
        )
        .bind(generation)
        .bind(i32::try_from(dimension).expect("at most 16,000"))
        .fetch_optional(&mut *tx)
        .await
        .map_err(&failed)?;
        if let Some(number) = made {
            let table = Generation::of(number, 0).table;
            sqlx::raw_sql(AssertSqlSafe(definition(&table, dimension))).execute(&mut *tx).await.map_err(&failed)?;
        }
        tx.commit().await.map_err(&failed)?;
        self.find(generation).await?.ok_or_else(|| missing(generation))
    }

    pub(super) async fn unmake(&self, generation: &str) -> Result<(), StoreError> {
        self.ready().await?;
        let failed = driver("drop a generation");
        let mut tx = self.pool.begin().await.map_err(&failed)?;
        sqlx::query(LOCK).execute(&mut *tx).await.map_err(&failed)?;
        let number: Option<i64> =
            sqlx::query_scalar("DELETE FROM index_generations WHERE generation = $1 RETURNING number")
                .bind(generation)
                .fetch_optional(&mut *tx)
                .await
                .map_err(&failed)?;
        if let Some(number) = number {
            let table = Generation::of(number, 0).table;
            let drop = format!("DROP TABLE IF EXISTS {table}");
            sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut *tx).await.map_err(&failed)?;
        }
        tx.commit().await.map_err(failed)
    }

    /// All generations there are.
    pub(super) async fn all(&self) -> Result<Vec<Generation>, StoreError> {
        self.ready().await?;
        let rows = sqlx::query("SELECT number, dimension FROM index_generations ORDER BY number")
            .fetch_all(&self.pool)
            .await
            .map_err(driver("list generations"))?;
        Ok(rows.iter().map(|row| Generation::of(row.get(0), row.get(1))).collect())
    }
}

/// The statements that make a table and its indexes.
fn definition(table: &str, dimension: u32) -> String {
    let vector = if dimension == 0 { "halfvec".to_owned() } else { format!("halfvec({dimension})") };
    let mut text = format!(
        "CREATE TABLE {table} (
            scope bytea NOT NULL,
            episode uuid NOT NULL,
            role smallint NOT NULL,
            said_at bigint NOT NULL,
            sensitivity smallint NOT NULL,
            terms int4[] NOT NULL,
            words sparsevec NOT NULL,
            vector {vector},
            PRIMARY KEY (scope, episode)
        );
        CREATE INDEX {table}_terms ON {table} USING gin (terms);"
    );
    if (1..=MAX_INLINE).contains(&dimension) {
        text += &format!("ALTER TABLE {table} ALTER vector SET STORAGE PLAIN;");
    }
    if (1..=MAX_INDEXED).contains(&dimension) {
        text += &format!("CREATE INDEX {table}_vector ON {table} USING hnsw (vector halfvec_cosine_ops);");
    }
    text
}
