//! Documents and their passages.

use async_trait::async_trait;
use sqlx::SqliteConnection;
use tracing::instrument;

use super::error::driver;
use super::row::{json, parse, rows};
use super::{SqliteStore, commit};
use crate::memory::Namespace;
use crate::memory::knowledge::{Document, DocumentId, Passage};
use crate::store::{KnowledgeStore, Page, PutDocument, Shelf, ShelfLimits, StoreError};

const ENSURE: &str = "INSERT INTO shelves (key, tenant, namespace) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO NOTHING";
const SHELF_ID: &str = "SELECT id FROM shelves WHERE key = ?1";
const REVISION: &str = "SELECT revision FROM shelves WHERE key = ?1";
const RAISE: &str = "UPDATE shelves SET revision = revision + 1 WHERE id = ?1";

/// What stands beside a document.
const OTHERS: &str = "
    SELECT count(*), coalesce(sum(passages), 0) FROM documents WHERE shelf = ?1 AND id <> ?2";

const PUT: &str = "
    INSERT INTO documents (shelf, id, characters, passages, body, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (shelf, id) DO UPDATE SET characters = excluded.characters, passages = excluded.passages,
        body = excluded.body, text = excluded.text";

const PUT_PASSAGES: &str = "
    INSERT INTO passages (shelf, document, number, body)
    SELECT ?1, ?2, value ->> 'number', value FROM json_each(?3)";

const READ_BODY: &str = "SELECT body FROM documents WHERE shelf = ?1 AND id = ?2";
const READ: &str = "
    SELECT d.body, d.text FROM shelves s JOIN documents d ON d.shelf = s.id WHERE s.key = ?1 AND d.id = ?2";
const LIST: &str = "
    SELECT d.id, d.body FROM shelves s JOIN documents d ON d.shelf = s.id
    WHERE s.key = ?1 AND d.id > ?2 ORDER BY d.id LIMIT ?3";
const PASSAGES: &str = "
    SELECT p.body FROM shelves s JOIN passages p ON p.shelf = s.id
    WHERE s.key = ?1 AND p.document = ?2 ORDER BY p.number";
const ALL_DOCUMENTS: &str = "
    SELECT d.id, d.body FROM shelves s JOIN documents d ON d.shelf = s.id WHERE s.key = ?1 ORDER BY d.id";
const ALL_PASSAGES: &str = "
    SELECT p.document, p.body FROM shelves s JOIN passages p ON p.shelf = s.id
    WHERE s.key = ?1 ORDER BY p.document, p.number";

const DELETE: &str = "DELETE FROM documents WHERE shelf = ?1 AND id = ?2";
const DELETE_PASSAGES: &str = "DELETE FROM passages WHERE shelf = ?1 AND document = ?2";

/// The two names as one key. Lengths first: no two namespaces write alike.
fn key(namespace: &Namespace) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for name in [&namespace.tenant, &namespace.name] {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

async fn shelf_id(conn: &mut SqliteConnection, namespace: &Namespace) -> Result<Option<i64>, StoreError> {
    sqlx::query_scalar(SHELF_ID)
        .bind(&key(namespace)[..])
        .fetch_optional(conn)
        .await
        .map_err(driver("look up a namespace"))
}

async fn clear(conn: &mut SqliteConnection, shelf: i64, id: &str) -> Result<(), StoreError> {
    sqlx::query(DELETE_PASSAGES)
        .bind(shelf)
        .bind(id)
        .execute(conn)
        .await
        .map_err(driver("delete the passages of a document"))?;
    Ok(())
}

async fn raise(conn: &mut SqliteConnection, shelf: i64) -> Result<(), StoreError> {
    sqlx::query(RAISE).bind(shelf).execute(conn).await.map_err(driver("raise a revision"))?;
    Ok(())
}

fn passage(document: &str, body: &str) -> Result<Passage, StoreError> {
    parse("passages", document, body)
}

#[async_trait]
impl KnowledgeStore for SqliteStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "put_document"))]
    async fn put_document(
        &self,
        namespace: &Namespace,
        document: &Document,
        text: &str,
        passages: &[Passage],
        limits: ShelfLimits,
    ) -> Result<PutDocument, StoreError> {
        let id = document.id.to_string();
        let mut tx = self.begin().await?;
        sqlx::query(ENSURE)
            .bind(&key(namespace)[..])
            .bind(&*namespace.tenant)
            .bind(&*namespace.name)
            .execute(&mut *tx)
            .await
            .map_err(driver("make a namespace"))?;
        let Some(shelf) = shelf_id(&mut tx, namespace).await? else {
            return Err(StoreError::Conflict { what: "a namespace's row".to_owned() });
        };
        let (n_documents, n_passages): (i64, i64) = sqlx::query_as(OTHERS)
            .bind(shelf)
            .bind(&id)
            .fetch_one(&mut *tx)
            .await
            .map_err(driver("count documents"))?;
        let over = |known: i64, more: usize, most: u64| known.unsigned_abs() + more as u64 > most;
        if over(n_documents, 1, limits.documents) || over(n_passages, passages.len(), limits.passages) {
            return Ok(PutDocument::Full);
        }
        let before: Option<String> = sqlx::query_scalar(READ_BODY)
            .bind(shelf)
            .bind(&id)
            .fetch_optional(&mut *tx)
            .await
            .map_err(driver("read a document"))?;
        let before: Option<Document> = before.map(|body| parse("documents", &id, &body)).transpose()?;
        let kept = Document {
            version: before.as_ref().map_or(1, |before| before.version + 1),
            created_at: before.map_or(document.created_at, |before| before.created_at),
            passages: passages.len(),
            ..document.clone()
        };
        clear(&mut tx, shelf, &id).await?;
        sqlx::query(PUT)
            .bind(shelf)
            .bind(&id)
            .bind(i64::try_from(kept.characters).unwrap_or(i64::MAX))
            .bind(i64::try_from(passages.len()).unwrap_or(i64::MAX))
            .bind(json(&kept))
            .bind(text)
            .execute(&mut *tx)
            .await
            .map_err(driver("keep a document"))?;
        sqlx::query(PUT_PASSAGES)
            .bind(shelf)
            .bind(&id)
            .bind(rows(passages))
            .execute(&mut *tx)
            .await
            .map_err(driver("keep the passages of a document"))?;
        raise(&mut tx, shelf).await?;
        commit(tx).await?;
        Ok(PutDocument::Kept(kept))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "document"))]
    async fn document(&self, namespace: &Namespace, id: &DocumentId) -> Result<Option<(Document, String)>, StoreError> {
        let id = id.to_string();
        let row: Option<(String, String)> = sqlx::query_as(READ)
            .bind(&key(namespace)[..])
            .bind(&id)
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read a document"))?;
        row.map(|(body, text)| Ok((parse("documents", &id, &body)?, text))).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "passages"))]
    async fn passages(&self, namespace: &Namespace, id: &DocumentId) -> Result<Vec<Passage>, StoreError> {
        let id = id.to_string();
        let bodies: Vec<String> = sqlx::query_scalar(PASSAGES)
            .bind(&key(namespace)[..])
            .bind(&id)
            .fetch_all(&self.read)
            .await
            .map_err(driver("read the passages of a document"))?;
        bodies.iter().map(|body| passage(&id, body)).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "list_documents"))]
    async fn list_documents(&self, namespace: &Namespace, page: &Page) -> Result<Vec<Document>, StoreError> {
        let found: Vec<(String, String)> = sqlx::query_as(LIST)
            .bind(&key(namespace)[..])
            .bind(page.after.as_deref().unwrap_or_default())
            .bind(page.limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list documents"))?;
        found.iter().map(|(id, body)| parse("documents", id, body)).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "delete_document"))]
    async fn delete_document(&self, namespace: &Namespace, id: &DocumentId) -> Result<bool, StoreError> {
        let id = id.to_string();
        let mut tx = self.begin().await?;
        let Some(shelf) = shelf_id(&mut tx, namespace).await? else { return Ok(false) };
        let done =
            sqlx::query(DELETE).bind(shelf).bind(&id).execute(&mut *tx).await.map_err(driver("delete a document"))?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        clear(&mut tx, shelf, &id).await?;
        raise(&mut tx, shelf).await?;
        commit(tx).await?;
        Ok(true)
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "shelf_revision"))]
    async fn shelf_revision(&self, namespace: &Namespace) -> Result<i64, StoreError> {
        let revision: Option<i64> = sqlx::query_scalar(REVISION)
            .bind(&key(namespace)[..])
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read the revision of documents"))?;
        Ok(revision.unwrap_or(0))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = "sqlite", db.operation.name = "shelf"))]
    async fn shelf(&self, namespace: &Namespace) -> Result<Shelf, StoreError> {
        let key = key(namespace);
        // A transaction that reads sees one state of the database.
        let mut tx = self.read.begin().await.map_err(driver("begin a reading"))?;
        let revision: Option<i64> = sqlx::query_scalar(REVISION)
            .bind(&key[..])
            .fetch_optional(&mut *tx)
            .await
            .map_err(driver("read the revision of documents"))?;
        let Some(revision) = revision else { return Ok(Shelf::default()) };
        let found: Vec<(String, String)> =
            sqlx::query_as(ALL_DOCUMENTS).bind(&key[..]).fetch_all(&mut *tx).await.map_err(driver("read documents"))?;
        let pieces: Vec<(String, String)> =
            sqlx::query_as(ALL_PASSAGES).bind(&key[..]).fetch_all(&mut *tx).await.map_err(driver("read passages"))?;
        let mut pieces = pieces.into_iter().peekable();
        let mut documents = Vec::with_capacity(found.len());
        for (id, body) in found {
            let mut passages = Vec::new();
            while let Some((_, body)) = pieces.next_if(|(document, _)| *document == id) {
                passages.push(passage(&id, &body)?);
            }
            documents.push((parse("documents", &id, &body)?, passages));
        }
        Ok(Shelf { revision, documents })
    }
}
