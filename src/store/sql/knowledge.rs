//! Documents and their passages.

use async_trait::async_trait;
use tracing::instrument;

use super::error::driver;
use super::query::{query, query_as, query_scalar};
use super::row::{json, parse, rows};
use super::session::Tx;
use super::text::Sql;
use super::{SqlStore, commit};
use crate::memory::Namespace;
use crate::memory::knowledge::{Document, DocumentId, Passage};
use crate::store::{KnowledgeStore, Page, PutDocument, Shelf, ShelfLimits, StoreError};

static ENSURE: Sql =
    Sql::new("INSERT INTO shelves (key, tenant, namespace) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO NOTHING");
/// Locks it, so that changes of one namespace come one after the other.
static SHELF_ID: Sql =
    Sql::pair("SELECT id FROM shelves WHERE key = ?1", "SELECT id FROM shelves WHERE key = ?1 FOR UPDATE");
static REVISION: Sql = Sql::new("SELECT revision FROM shelves WHERE key = ?1");
static RAISE: Sql = Sql::new("UPDATE shelves SET revision = revision + 1 WHERE id = ?1");

/// What stands beside a document.
static OTHERS: Sql = Sql::new(
    "
    SELECT count(*), CAST(coalesce(sum(passages), 0) AS BIGINT) FROM documents WHERE shelf = ?1 AND id <> ?2",
);

static PUT: Sql = Sql::new(
    "
    INSERT INTO documents (shelf, id, characters, passages, body, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (shelf, id) DO UPDATE SET characters = excluded.characters, passages = excluded.passages,
        body = excluded.body, text = excluded.text",
);

static PUT_PASSAGES: Sql = Sql::new(
    "
    INSERT INTO passages (shelf, document, number, body)
    SELECT ?1, ?2, CAST(value ->> 'number' AS BIGINT), CAST(value AS TEXT) FROM each_row(?3)",
);

static READ_BODY: Sql = Sql::new("SELECT body FROM documents WHERE shelf = ?1 AND id = ?2");
static READ: Sql = Sql::new(
    "
    SELECT d.body, d.text FROM shelves s JOIN documents d ON d.shelf = s.id WHERE s.key = ?1 AND d.id = ?2",
);
static LIST: Sql = Sql::new(
    "
    SELECT d.id, d.body FROM shelves s JOIN documents d ON d.shelf = s.id
    WHERE s.key = ?1 AND d.id > ?2 ORDER BY d.id LIMIT ?3",
);
static PASSAGES: Sql = Sql::new(
    "
    SELECT p.body FROM shelves s JOIN passages p ON p.shelf = s.id
    WHERE s.key = ?1 AND p.document = ?2 ORDER BY p.number",
);
static ALL_DOCUMENTS: Sql = Sql::new(
    "
    SELECT d.id, d.body FROM shelves s JOIN documents d ON d.shelf = s.id WHERE s.key = ?1 ORDER BY d.id",
);
static ALL_PASSAGES: Sql = Sql::new(
    "
    SELECT p.document, p.body FROM shelves s JOIN passages p ON p.shelf = s.id
    WHERE s.key = ?1 ORDER BY p.document, p.number",
);

static DELETE: Sql = Sql::new("DELETE FROM documents WHERE shelf = ?1 AND id = ?2");
static DELETE_PASSAGES: Sql = Sql::new("DELETE FROM passages WHERE shelf = ?1 AND document = ?2");

/// The two names as one key. Lengths first: no two namespaces write alike.
fn key(namespace: &Namespace) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for name in [&namespace.tenant, &namespace.name] {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

async fn shelf_id(conn: &mut Tx, namespace: &Namespace) -> Result<Option<i64>, StoreError> {
    query_scalar(&SHELF_ID).bind(&key(namespace)[..]).fetch_optional(conn).await.map_err(driver("look up a namespace"))
}

async fn clear(conn: &mut Tx, shelf: i64, id: &str) -> Result<(), StoreError> {
    query(&DELETE_PASSAGES)
        .bind(shelf)
        .bind(id)
        .execute(conn)
        .await
        .map_err(driver("delete the passages of a document"))?;
    Ok(())
}

async fn raise(conn: &mut Tx, shelf: i64) -> Result<(), StoreError> {
    query(&RAISE).bind(shelf).execute(conn).await.map_err(driver("raise a revision"))?;
    Ok(())
}

fn passage(document: &str, body: &str) -> Result<Passage, StoreError> {
    parse("passages", document, body)
}

#[async_trait]
impl KnowledgeStore for SqlStore {
    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "put_document"))]
    async fn put_document(
        &self,
        namespace: &Namespace,
        document: &Document,
        text: &str,
        passages: &[Passage],
        limits: ShelfLimits,
    ) -> Result<PutDocument, StoreError> {
        self.again(|| async move {
            let id = document.id.to_string();
            let mut tx = self.begin().await?;
            query(&ENSURE)
                .bind(&key(namespace)[..])
                .bind(&*namespace.tenant)
                .bind(&*namespace.name)
                .execute(&mut tx)
                .await
                .map_err(driver("make a namespace"))?;
            let Some(shelf) = shelf_id(&mut tx, namespace).await? else {
                return Err(StoreError::Conflict { what: "a namespace's row".to_owned() });
            };
            let (n_documents, n_passages): (i64, i64) =
                query_as(&OTHERS).bind(shelf).bind(&id).fetch_one(&mut tx).await.map_err(driver("count documents"))?;
            let over = |known: i64, more: usize, most: u64| known.unsigned_abs() + more as u64 > most;
            if over(n_documents, 1, limits.documents) || over(n_passages, passages.len(), limits.passages) {
                return Ok(PutDocument::Full);
            }
            let before: Option<String> = query_scalar(&READ_BODY)
                .bind(shelf)
                .bind(&id)
                .fetch_optional(&mut tx)
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
            query(&PUT)
                .bind(shelf)
                .bind(&id)
                .bind(i64::try_from(kept.characters).unwrap_or(i64::MAX))
                .bind(i64::try_from(passages.len()).unwrap_or(i64::MAX))
                .bind(json(&kept))
                .bind(text)
                .execute(&mut tx)
                .await
                .map_err(driver("keep a document"))?;
            query(&PUT_PASSAGES)
                .bind(shelf)
                .bind(&id)
                .bind(rows(passages))
                .execute(&mut tx)
                .await
                .map_err(driver("keep the passages of a document"))?;
            raise(&mut tx, shelf).await?;
            commit(tx).await?;
            Ok(PutDocument::Kept(kept))
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "document"))]
    async fn document(&self, namespace: &Namespace, id: &DocumentId) -> Result<Option<(Document, String)>, StoreError> {
        let id = id.to_string();
        let row: Option<(String, String)> = query_as(&READ)
            .bind(&key(namespace)[..])
            .bind(&id)
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read a document"))?;
        row.map(|(body, text)| Ok((parse("documents", &id, &body)?, text))).transpose()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "passages"))]
    async fn passages(&self, namespace: &Namespace, id: &DocumentId) -> Result<Vec<Passage>, StoreError> {
        let id = id.to_string();
        let bodies: Vec<String> = query_scalar(&PASSAGES)
            .bind(&key(namespace)[..])
            .bind(&id)
            .fetch_all(&self.read)
            .await
            .map_err(driver("read the passages of a document"))?;
        bodies.iter().map(|body| passage(&id, body)).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "list_documents"))]
    async fn list_documents(&self, namespace: &Namespace, page: &Page) -> Result<Vec<Document>, StoreError> {
        let found: Vec<(String, String)> = query_as(&LIST)
            .bind(&key(namespace)[..])
            .bind(page.after.as_deref().unwrap_or_default())
            .bind(page.limit)
            .fetch_all(&self.read)
            .await
            .map_err(driver("list documents"))?;
        found.iter().map(|(id, body)| parse("documents", id, body)).collect()
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "delete_document"))]
    async fn delete_document(&self, namespace: &Namespace, id: &DocumentId) -> Result<bool, StoreError> {
        self.again(|| async move {
            let id = id.to_string();
            let mut tx = self.begin().await?;
            let Some(shelf) = shelf_id(&mut tx, namespace).await? else { return Ok(false) };
            let done =
                query(&DELETE).bind(shelf).bind(&id).execute(&mut tx).await.map_err(driver("delete a document"))?;
            if done.rows_affected() == 0 {
                return Ok(false);
            }
            clear(&mut tx, shelf, &id).await?;
            raise(&mut tx, shelf).await?;
            commit(tx).await?;
            Ok(true)
        })
        .await
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "shelf_revision"))]
    async fn shelf_revision(&self, namespace: &Namespace) -> Result<i64, StoreError> {
        let revision: Option<i64> = query_scalar(&REVISION)
            .bind(&key(namespace)[..])
            .fetch_optional(&self.read)
            .await
            .map_err(driver("read the revision of documents"))?;
        Ok(revision.unwrap_or(0))
    }

    #[instrument(level = "debug", name = "store", skip_all, fields(db.system.name = self.system(), db.operation.name = "shelf"))]
    async fn shelf(&self, namespace: &Namespace) -> Result<Shelf, StoreError> {
        let key = key(namespace);
        // A transaction that reads sees one state of the database.
        let mut tx = self.read.begin_reading().await.map_err(driver("begin a reading"))?;
        let revision: Option<i64> = query_scalar(&REVISION)
            .bind(&key[..])
            .fetch_optional(&mut tx)
            .await
            .map_err(driver("read the revision of documents"))?;
        let Some(revision) = revision else { return Ok(Shelf::default()) };
        let found: Vec<(String, String)> =
            query_as(&ALL_DOCUMENTS).bind(&key[..]).fetch_all(&mut tx).await.map_err(driver("read documents"))?;
        let pieces: Vec<(String, String)> =
            query_as(&ALL_PASSAGES).bind(&key[..]).fetch_all(&mut tx).await.map_err(driver("read passages"))?;
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
